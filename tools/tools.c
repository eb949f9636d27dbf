/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tools.h"

#include <stddef.h>

const struct tool tools[] = {
	{NULL, NULL, NULL},
};
