/* SPDX-License-Identifier: Apache-2.0 */

/* `pagefs rm`: pages and directories, hidden ones too. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/command.h"
#include "tools/mountpoint.h"
#include "tools/tools.h"

struct rm_options {
	bool recursive;
	bool all;
	bool force;
};

#define FIELD(name) .offset = offsetof(struct rm_options, name)

static const struct option_spec specs[] = {
	{.name = "recursive",
	 .type = OPTION_FLAG,
	 .letter = 'r',
	 FIELD(recursive),
	 .help = "directories with all that is in them"},
	{.name = "all",
	 .type = OPTION_FLAG,
	 FIELD(all),
	 .help = "with -r: every page of the mount"},
	{.name = "force",
	 .type = OPTION_FLAG,
	 .letter = 'f',
	 FIELD(force),
	 .help = "say nothing of what isn't there"},
	{.name = NULL},
};

static const struct command command = {
	.name = "rm",
	.arguments = "[OPTION]... PATH...",
	.summary = "Remove pages, and what the negative cache holds of them.",
	.detail = "Unlike rm(1) it also reaches pages that the negative cache "
		  "hides.",
	.examples = "  pagefs rm /mnt/kv/model/0a1b\n"
		    "  pagefs rm -r /mnt/kv/model\n"
		    "  pagefs rm -r --all /mnt/kv",
	.specs = specs,
	.max_arguments = -1,
};

/* The daemon removes a bounded number of names a request and says EAGAIN while
 * some are left. */
static int remove_key(const struct mountpoint *mountpoint, const char *key,
		      bool recursive)
{
	int error;

	do
		error = mountpoint_write_key(mountpoint, "remove",
					     recursive ? "-r " : "", key);
	while (error == -EAGAIN);
	return error;
}

static const char *reason(int error)
{
	switch (error) {
	case -ENOENT:
		return "no such page";
	case -EISDIR:
	case -ENOTEMPTY:
		return "a directory that is not empty (-r removes it, too)";
	case -EINVAL:
		return "a name with a newline: use rm(1)";
	default:
		return mountpoint_reason(error);
	}
}

static int remove_path(const struct rm_options *values, char *path)
{
	struct mountpoint mountpoint;
	int error;

	if (mountpoint_choose("rm", 1, &path, &mountpoint))
		return COMMAND_FAILED;
	if (!*mountpoint.key && !(values->all && values->recursive))
		return command_usage(&command,
				     "%s: that is the whole mount: -r --all "
				     "removes all of its pages",
				     path);
	if (*mountpoint.key && values->all)
		return command_usage(
			&command, "%s: --all takes a mount, not a page", path);
	error = remove_key(&mountpoint, mountpoint.key, values->recursive);
	if (!error || (error == -ENOENT && values->force))
		return COMMAND_OK;
	return command_fail(&command, "%s: %s", path, reason(error));
}

static int remove_all(const struct rm_options *values, int count, char **paths)
{
	struct mountpoint only;
	char *path = only.path;
	int code = COMMAND_OK;

	if (values->all && !values->recursive)
		return command_usage(&command, "--all needs -r");
	if (!count && !values->all)
		return command_usage(&command, "nothing to remove was named");
	if (!count) {
		if (mountpoint_choose("rm", 0, NULL, &only))
			return COMMAND_FAILED;
		return remove_path(values, path);
	}
	for (int i = 0; i < count; i++) {
		int one = remove_path(values, paths[i]);

		code = one > code ? one : code;
	}
	return code;
}

int tool_rm(int argc, char **argv)
{
	struct rm_options values;
	struct options options;
	int first, code;

	if (command_parse(&command, argc, argv, &values, &options, &first,
			  &code))
		code = remove_all(&values, argc - first, argv + first);
	options_release(&options);
	return code;
}
