/* SPDX-License-Identifier: Apache-2.0 */

/* `pagefs get`: a page's bytes, out of the mount. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/copy.h"
#include "tools/mountpoint.h"
#include "tools/tools.h"

static const struct option_spec specs[] = {{.name = NULL}};

static const struct command command = {
	.name = "get",
	.arguments = "MOUNT/KEY [FILE]",
	.summary = "Copy a page to a file, or to standard output.",
	.detail = "Exit code 1 where the page is not there.",
	.examples = "  pagefs get /mnt/kv/model/0a1b page.bin\n"
		    "  pagefs get /mnt/kv/model/0a1b | sha256sum",
	.specs = specs,
	.min_arguments = 1,
	.max_arguments = 2,
};

static int open_page(char *path)
{
	struct mountpoint mountpoint;
	int fd, error = mountpoint_choose("get", 1, &path, &mountpoint);

	if (error)
		return error;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	error = -errno;
	command_fail(&command, "%s: %s", path,
		     error == -ENOENT
			     ? "no such page (never put, or lost: 'pagefs "
			       "stat' and .pagefs/negative say more)"
			     : mountpoint_reason(error));
	return error;
}

static int get_page(char *path, const char *file)
{
	bool to_stdout = !file || !strcmp(file, "-");
	int from = open_page(path), to, error, writing, code = COMMAND_OK;
	uint64_t bytes;

	if (from < 0)
		return COMMAND_FAILED;
	to = to_stdout ? STDOUT_FILENO
		       : open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			      0666);
	if (to < 0) {
		code = command_fail(&command, "%s: %s", file, strerror(errno));
		close(from);
		return code;
	}
	error = copy_all(from, to, &bytes, &writing);
	if (!to_stdout && close(to) && !error) {
		error = -errno;
		writing = 1;
	}
	if (error)
		code = command_fail(&command, "%s: %s",
				    !writing	? path
				    : to_stdout ? "standard output"
						: file,
				    strerror(-error));
	close(from);
	return code;
}

int tool_get(int argc, char **argv)
{
	struct options options;
	int first, code;

	if (command_parse(&command, argc, argv, NULL, &options, &first, &code))
		code = get_page(argv[first],
				first + 1 < argc ? argv[first + 1] : NULL);
	options_release(&options);
	return code;
}
