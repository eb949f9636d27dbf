/* SPDX-License-Identifier: Apache-2.0 */

/* One program: `pagefs COMMAND ...`. */

#include <stddef.h>

#include "fs/mount.h"
#include "tools/tools.h"

int main(int argc, char **argv)
{
	static const struct tool own[] = {
		{"mount", "mount a store", mount_run},
		{NULL, NULL, NULL},
	};

	return tools_main(own, argc, argv);
}
