/* SPDX-License-Identifier: Apache-2.0 */

/* `pagefs clear`: empties the negative cache. */

#include <string.h>

#include "tools/command.h"
#include "tools/mountpoint.h"
#include "tools/tools.h"

static const struct option_spec specs[] = {{.name = NULL}};

static const struct command command = {
	.name = "clear",
	.arguments = "[MOUNT]",
	.summary =
		"Empty the negative cache: hidden pages are asked for again.",
	.detail = "It removes no page; 'pagefs rm' does.",
	.examples = "  pagefs clear /mnt/kv",
	.specs = specs,
	.max_arguments = 1,
};

static int clear(int count, char **paths)
{
	struct mountpoint mountpoint;
	int error;

	if (mountpoint_choose("clear", count, paths, &mountpoint))
		return COMMAND_FAILED;
	error = mountpoint_write(&mountpoint, "clear", "1");
	return error ? command_fail(&command, "%s: %s", mountpoint.path,
				    mountpoint_reason(error))
		     : COMMAND_OK;
}

int tool_clear(int argc, char **argv)
{
	struct options options;
	int first, code;

	if (command_parse(&command, argc, argv, NULL, &options, &first, &code))
		code = clear(argc - first, argv + first);
	options_release(&options);
	return code;
}
