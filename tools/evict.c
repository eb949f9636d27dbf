/* SPDX-License-Identifier: Apache-2.0 */

/* `pagefs evict`: pages out of memory; they stay on disk. */

#include <errno.h>
#include <string.h>

#include "tools/command.h"
#include "tools/mountpoint.h"
#include "tools/tools.h"

struct evict_options {
	bool all;
};

static const struct option_spec specs[] = {
	{.name = "all",
	 .type = OPTION_FLAG,
	 .offset = offsetof(struct evict_options, all),
	 .help = "every page of the mount"},
	{.name = NULL},
};

static const struct command command = {
	.name = "evict",
	.arguments = "PATH... | --all [MOUNT]",
	.summary = "Write pages to disk and drop them from the memory tier.",
	.detail = "The next read fetches them from disk. Pages that are open "
		  "stay.",
	.examples = "  pagefs evict /mnt/kv/model/0a1b\n"
		    "  pagefs evict --all /mnt/kv",
	.specs = specs,
	.max_arguments = -1,
};

static const char *reason(int error)
{
	switch (error) {
	case -ENOENT:
		return "no such page";
	case -EINVAL:
		return "a name with a newline can't be evicted by itself";
	case -EOPNOTSUPP:
		return "there is no disk tier: evicting would lose the page "
		       "(mount with --disk DIR)";
	default:
		return mountpoint_reason(error);
	}
}

static int judge(int error, const char *path)
{
	return error ? command_fail(&command, "%s: %s", path, reason(error))
		     : COMMAND_OK;
}

static int evict_all(int count, char **paths)
{
	struct mountpoint mountpoint;

	if (count > 1)
		return command_usage(&command, "--all takes one mount");
	if (mountpoint_choose("evict", count, paths, &mountpoint))
		return COMMAND_FAILED;
	if (*mountpoint.key)
		return command_usage(&command,
				     "%s: --all takes a mount, not a page",
				     paths[0]);
	return judge(mountpoint_write(&mountpoint, "evict", "*"),
		     mountpoint.path);
}

static int evict_each(int count, char **paths)
{
	struct mountpoint mountpoint;
	int code = COMMAND_OK;

	if (!count)
		return command_usage(&command, "no page was named");
	for (int i = 0; i < count; i++) {
		if (mountpoint_choose("evict", 1, paths + i, &mountpoint))
			code = COMMAND_FAILED;
		else if (!*mountpoint.key)
			return command_usage(&command,
					     "%s: that is the whole mount: "
					     "--all evicts all of its pages",
					     paths[i]);
		else if (judge(mountpoint_write_key(&mountpoint, "evict", "",
						    mountpoint.key),
			       paths[i]))
			code = COMMAND_FAILED;
	}
	return code;
}

int tool_evict(int argc, char **argv)
{
	struct evict_options values;
	struct options options;
	int first, code;

	if (command_parse(&command, argc, argv, &values, &options, &first,
			  &code))
		code = values.all ? evict_all(argc - first, argv + first)
				  : evict_each(argc - first, argv + first);
	options_release(&options);
	return code;
}
