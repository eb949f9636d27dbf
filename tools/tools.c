/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tools.h"

#include <stddef.h>

const struct tool tools[] = {
	{"get", "copy a page out of a mount", tool_get},
	{"put", "store a file as a page", tool_put},
	{"ls", "list pages and directories", tool_ls},
	{"stat", "show what is known of a page", tool_stat},
	{"rm", "remove pages", tool_rm},
	{"evict", "drop pages from memory; they stay on disk", tool_evict},
	{"clear", "empty the negative cache", tool_clear},
	{"bench", "measure a mount", tool_bench},
	{NULL, NULL, NULL},
};
