/* SPDX-License-Identifier: Apache-2.0 */

/* `pagefs put`: a file's bytes, as a page. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/copy.h"
#include "tools/mountpoint.h"
#include "tools/tools.h"

struct put_options {
	bool parents;
	bool sync;
};

static const struct option_spec specs[] = {
	{.name = "parents",
	 .type = OPTION_FLAG,
	 .letter = 'p',
	 .offset = offsetof(struct put_options, parents),
	 .help = "make the directories of the key"},
	{.name = "sync",
	 .type = OPTION_FLAG,
	 .offset = offsetof(struct put_options, sync),
	 .help = "return when the page is on disk"},
	{.name = NULL},
};

static const struct command command = {
	.name = "put",
	.arguments = "[OPTION]... FILE MOUNT/KEY",
	.summary = "Store a file, or standard input ('-'), as a page.",
	.detail = "The page appears whole or not at all. A directory, or "
		  "a key that ends\nin '/', gets the page under the file's "
		  "name.",
	.examples = "  pagefs put page.bin /mnt/kv/model/0a1b\n"
		    "  head -c 1M /dev/urandom | pagefs put -p - "
		    "/mnt/kv/a/b/c",
	.specs = specs,
	.min_arguments = 2,
	.max_arguments = 2,
};

static int make_parents(const char *path)
{
	char directory[PATH_MAX];

	snprintf(directory, sizeof(directory), "%s", path);
	for (char *at = directory + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		if (mkdir(directory, 0777) && errno != EEXIST)
			return command_fail(&command, "%s: %s", directory,
					    strerror(errno));
		*at = '/';
	}
	return COMMAND_OK;
}

/* A temporary name beside the page's own: what fails half-way must not
 * replace what is there. */
static void temporary_name(const char *path, char *ret, size_t room)
{
	const char *slash = strrchr(path, '/');
	int directory = slash ? (int)(slash - path) + 1 : 0;

	snprintf(ret, room, "%.*s.put.%d", directory, path, (int)getpid());
}

static int write_page(int from, const char *from_name, int to, const char *path,
		      bool sync)
{
	int error, writing;
	uint64_t bytes;

	error = copy_all(from, to, &bytes, &writing);
	if (!error && sync && fsync(to)) {
		error = -errno;
		writing = 1;
	}
	if (close(to) && !error) {
		error = -errno;
		writing = 1;
	}
	if (!error)
		return COMMAND_OK;
	return command_fail(
		&command, "%s: %s", writing ? path : from_name,
		error == -ENOSPC ? "no room: the memory tier is full of pages "
				   "that are in use or can't be written to "
				   "disk ('pagefs status' says which)"
				 : strerror(-error));
}

static int put_open_file(int from, const char *from_name, const char *path,
			 bool sync)
{
	char temporary[PATH_MAX];
	int to, code;

	temporary_name(path, temporary, sizeof(temporary));
	to = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (to < 0)
		return command_fail(
			&command, "%s: %s%s", path, strerror(errno),
			errno == ENOENT ? " (--parents makes the directories)"
					: "");
	code = write_page(from, from_name, to, path, sync);
	if (code == COMMAND_OK && rename(temporary, path))
		code = command_fail(&command, "%s: %s", path, strerror(errno));
	if (code != COMMAND_OK)
		unlink(temporary);
	return code;
}

static bool names_directory(const char *key)
{
	size_t len = strlen(key);
	struct stat st;

	return !len || key[len - 1] == '/' ||
	       (!stat(key, &st) && S_ISDIR(st.st_mode));
}

/* The key, with the file's name where it is a directory. */
static int whole_path(const char *file, const char *key, char ret[PATH_MAX])
{
	size_t len = strlen(key);
	const char *slash = strrchr(file, '/');
	const char *between = "", *name = "";

	if (names_directory(key)) {
		if (!strcmp(file, "-"))
			return command_usage(&command,
					     "%s: standard input has no name: "
					     "give the whole key",
					     key);
		between = len && key[len - 1] != '/' ? "/" : "";
		name = slash ? slash + 1 : file;
	}
	if (snprintf(ret, PATH_MAX, "%s%s%s", key, between, name) >= PATH_MAX)
		return command_fail(&command, "%s: %s", key,
				    strerror(ENAMETOOLONG));
	return COMMAND_OK;
}

static int put_page(const struct put_options *values, const char *file,
		    const char *key)
{
	char path[PATH_MAX];
	char *argument = path;
	struct mountpoint mountpoint;
	bool from_stdin = !strcmp(file, "-");
	struct stat st;
	int from, code = whole_path(file, key, path);

	if (code != COMMAND_OK)
		return code;
	if (mountpoint_choose("put", 1, &argument, &mountpoint))
		return COMMAND_FAILED;
	/* Its temporary file would lie beside the mount. */
	if (!*mountpoint.key)
		return command_fail(&command, "%s: %s", path,
				    stat(path, &st) ? mountpoint_reason(-errno)
						    : strerror(EISDIR));
	from = from_stdin ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
	if (from < 0)
		return command_fail(&command, "%s: %s", file, strerror(errno));
	if (values->parents)
		code = make_parents(path);
	if (code == COMMAND_OK)
		code = put_open_file(from, from_stdin ? "standard input" : file,
				     path, values->sync);
	if (!from_stdin)
		close(from);
	return code;
}

int tool_put(int argc, char **argv)
{
	struct put_options values;
	struct options options;
	int first, code;

	if (command_parse(&command, argc, argv, &values, &options, &first,
			  &code))
		code = put_page(&values, argv[first], argv[first + 1]);
	options_release(&options);
	return code;
}
