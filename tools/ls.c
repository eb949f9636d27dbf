/* SPDX-License-Identifier: Apache-2.0 */

/* `pagefs ls`: what is below a directory of the mount, and in which tier. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/json_text.h"
#include "tools/lib/size.h"
#include "tools/mountpoint.h"
#include "tools/tools.h"

struct ls_options {
	bool longer;
	bool recursive;
	bool unsorted;
	bool json;
};

#define FIELD(name) .offset = offsetof(struct ls_options, name)

static const struct option_spec specs[] = {
	{.name = "long",
	 .type = OPTION_FLAG,
	 .letter = 'l',
	 FIELD(longer),
	 .help = "mode, owner, size, time and tier of each"},
	{.name = "recursive",
	 .type = OPTION_FLAG,
	 .letter = 'R',
	 FIELD(recursive),
	 .help = "directories below, too"},
	{.name = "unsorted",
	 .type = OPTION_FLAG,
	 .letter = 'U',
	 FIELD(unsorted),
	 .help = "print names as they come: for very large directories"},
	{.name = "json",
	 .type = OPTION_FLAG,
	 FIELD(json),
	 .help = "one JSON object a line: path, type, size, mtime, tier"},
	{.name = NULL},
};

static const struct command command = {
	.name = "ls",
	.arguments = "[OPTION]... [PATH]...",
	.summary = "List pages and directories of a mount.",
	.detail = "Without a path: the root of the only mount of this host.",
	.examples = "  pagefs ls -l /mnt/kv\n  pagefs ls -R --json /mnt/kv | "
		    "jq -r 'select(.tier == \"disk\").path'",
	.specs = specs,
	.max_arguments = -1,
};

struct item {
	char *name;
	unsigned char type; /* DT_* */
};

struct items {
	struct item *items;
	size_t count, room;
};

static void items_release(struct items *items)
{
	for (size_t i = 0; i < items->count; i++)
		free(items->items[i].name);
	free(items->items);
	*items = (struct items){0};
}

static int items_add(struct items *items, const struct dirent *entry)
{
	if (items->count == items->room) {
		size_t room = items->room ? items->room * 2 : 256;
		struct item *grown =
			realloc(items->items, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		items->items = grown;
		items->room = room;
	}
	items->items[items->count].name = strdup(entry->d_name);
	items->items[items->count].type = entry->d_type;
	return items->items[items->count++].name ? 0 : -ENOMEM;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct item *)a)->name,
		      ((const struct item *)b)->name);
}

static void tier_of(const char *path, char *ret, size_t room)
{
	ssize_t n = lgetxattr(path, "user.pagefs.tier", ret, room - 1);

	snprintf(ret + (n > 0 ? n : 0), room - (size_t)(n > 0 ? n : 0), "%s",
		 n > 0 ? "" : "-");
}

static const char *type_name(mode_t mode)
{
	return S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "symlink" : "page";
}

static void print_json(const char *path, const struct stat *st)
{
	char tier[32];
	json_t *line = json_object();

	tier_of(path, tier, sizeof(tier));
	json_add_bytes(line, "path", path);
	json_object_set_new(line, "type", json_string(type_name(st->st_mode)));
	json_object_set_new(line, "size", json_integer(st->st_size));
	json_object_set_new(line, "mtime",
			    json_real((double)st->st_mtim.tv_sec +
				      (double)st->st_mtim.tv_nsec * 1e-9));
	json_object_set_new(line, "tier", json_string(tier));
	json_dumpf(line, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(line);
}

static void mode_text(mode_t mode, char ret[11])
{
	static const char letters[] = "rwxrwxrwx";

	ret[0] = S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : '-';
	for (int i = 0; i < 9; i++)
		ret[i + 1] = mode & (0400u >> i) ? letters[i] : '-';
	ret[10] = '\0';
}

static void print_long(const char *path, const char *name,
		       const struct stat *st)
{
	char mode[11], tier[32], when[32];
	struct tm tm;

	mode_text(st->st_mode, mode);
	tier_of(path, tier, sizeof(tier));
	localtime_r(&st->st_mtim.tv_sec, &tm);
	strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	printf("%s %5u %5u %12lld %s %-11s %s\n", mode, (unsigned)st->st_uid,
	       (unsigned)st->st_gid, (long long)st->st_size, when, tier, name);
}

/* On a terminal a name must not be able to move the cursor. */
static void print_name(const char *name)
{
	if (!isatty(STDOUT_FILENO)) {
		puts(name);
		return;
	}
	for (; *name; name++)
		putchar((unsigned char)*name < ' ' || *name == 127 ? '?'
								   : *name);
	putchar('\n');
}

static void print_one(const struct ls_options *values, const char *path,
		      const char *name)
{
	struct stat st;

	if (!values->longer && !values->json) {
		print_name(name);
		return;
	}
	if (lstat(path, &st)) {
		/* Evicted or deleted since it was listed. */
		if (errno != ENOENT)
			command_fail(&command, "%s: %s", path, strerror(errno));
	} else if (values->json) {
		print_json(path, &st);
	} else {
		print_long(path, name, &st);
	}
}

/* Where a listing is: one path that grows and shrinks, since directories may
 * be nested two thousand deep. */
struct walk {
	const struct ls_options *values;
	char path[PATH_MAX];
	size_t len;
};

static bool walk_down(struct walk *walk, const char *name)
{
	const char *slash = walk->path[walk->len - 1] == '/' ? "" : "/";
	size_t room = sizeof(walk->path) - walk->len;
	int n = snprintf(walk->path + walk->len, room, "%s%s", slash, name);

	if ((size_t)n < room) {
		walk->len += (size_t)n;
		return true;
	}
	walk->path[walk->len] = '\0';
	command_fail(&command, "%s/%s: %s", walk->path, name,
		     strerror(ENAMETOOLONG));
	return false;
}

static void walk_up(struct walk *walk, size_t len)
{
	walk->len = len;
	walk->path[len] = '\0';
}

static void print_child(struct walk *walk, const char *name)
{
	size_t len = walk->len;

	if (!walk_down(walk, name))
		return;
	print_one(walk->values, walk->path, name);
	walk_up(walk, len);
}

/* Unsorted names are printed at once; directories are kept for later. */
static int read_directory(struct walk *walk, struct items *ret)
{
	DIR *directory = opendir(walk->path);
	bool unsorted = walk->values->unsorted;
	struct dirent *entry;
	int error = 0;

	if (!directory)
		return -errno;
	while (!error && (errno = 0, entry = readdir(directory))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (!unsorted || entry->d_type == DT_DIR)
			error = items_add(ret, entry);
		if (!error && unsorted)
			print_child(walk, entry->d_name);
	}
	if (!error && errno)
		error = -errno;
	closedir(directory);
	if (!error && !unsorted && ret->count)
		qsort(ret->items, ret->count, sizeof(*ret->items), by_name);
	return error;
}

static int list_directory(struct walk *walk, bool with_title)
{
	const struct ls_options *values = walk->values;
	struct items items = {0};
	size_t len = walk->len;
	int code = COMMAND_OK, error;

	if (with_title && !values->json)
		printf("%s:\n", walk->path);
	error = read_directory(walk, &items);
	if (error)
		code = command_fail(&command, "%s: %s", walk->path,
				    strerror(-error));
	for (size_t i = 0; !error && !values->unsorted && i < items.count; i++)
		print_child(walk, items.items[i].name);
	for (size_t i = 0; !error && values->recursive && i < items.count;
	     i++) {
		if (items.items[i].type != DT_DIR ||
		    !walk_down(walk, items.items[i].name))
			continue;
		if (!values->json)
			putchar('\n');
		if (list_directory(walk, true) != COMMAND_OK)
			code = COMMAND_FAILED;
		walk_up(walk, len);
	}
	items_release(&items);
	return code;
}

static int list_path(const struct ls_options *values, const char *path,
		     bool with_title)
{
	struct walk walk = {.values = values};
	struct stat st;

	if (lstat(path, &st))
		return command_fail(&command, "%s: %s", path,
				    mountpoint_reason(-errno));
	if (S_ISLNK(st.st_mode))
		(void)!stat(path, &st); /* to a directory: that is listed */
	if (!S_ISDIR(st.st_mode)) {
		print_one(values, path, path);
		return COMMAND_OK;
	}
	walk.len = (size_t)snprintf(walk.path, sizeof(walk.path), "%s", path);
	return list_directory(&walk, with_title);
}

static int list_all(const struct ls_options *values, int count, char **paths)
{
	struct mountpoint mountpoint;
	int code = COMMAND_OK;

	if (!count) {
		if (mountpoint_choose("ls", 0, NULL, &mountpoint))
			return COMMAND_FAILED;
		return list_path(values, mountpoint.path, values->recursive);
	}
	for (int i = 0; i < count; i++)
		if (mountpoint_choose("ls", 1, paths + i, &mountpoint) ||
		    list_path(values, paths[i],
			      count > 1 || values->recursive) != COMMAND_OK)
			code = COMMAND_FAILED;
	return code;
}

int tool_ls(int argc, char **argv)
{
	struct ls_options values;
	struct options options;
	int first, code;

	if (command_parse(&command, argc, argv, &values, &options, &first,
			  &code))
		code = list_all(&values, argc - first, argv + first);
	options_release(&options);
	return code;
}
