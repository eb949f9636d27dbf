/* SPDX-License-Identifier: Apache-2.0 */

/* `pagefs stat`: what is known of a page. */

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>

#include "tools/command.h"
#include "tools/json_text.h"
#include "tools/lib/clock.h"
#include "tools/mountpoint.h"
#include "tools/tools.h"

struct stat_options {
	bool json;
};

static const struct option_spec specs[] = {
	{.name = "json",
	 .type = OPTION_FLAG,
	 .offset = offsetof(struct stat_options, json),
	 .help = "one JSON object a line"},
	{.name = NULL},
};

static const struct command command = {
	.name = "stat",
	.arguments = "[OPTION]... PATH...",
	.summary =
		"Show what is known of pages: size, tier, version, checksum.",
	.examples = "  pagefs stat /mnt/kv/model/0a1b\n"
		    "  pagefs stat --json /mnt/kv/* | jq .tier",
	.specs = specs,
	.min_arguments = 1,
	.max_arguments = -1,
};

/* The facts that a page shows as extended attributes. */
static const char *const facts[] = {"tier",  "version",	 "checksum",
				    "owner", "replicas", "hits"};
#define FACTS (sizeof(facts) / sizeof(*facts))

static bool get_fact(const char *path, const char *fact, char *ret, size_t room)
{
	char name[64];
	ssize_t n;

	snprintf(name, sizeof(name), "user.pagefs.%s", fact);
	n = lgetxattr(path, name, ret, room - 1);
	if (n < 0)
		return false;
	ret[n] = '\0';
	return true;
}

static void time_text(const struct timespec *at, char *ret, size_t room)
{
	struct tm tm;
	size_t len;

	localtime_r(&at->tv_sec, &tm);
	len = strftime(ret, room, "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(ret + len, room - len, ".%03ld", at->tv_nsec / 1000000);
}

static const char *type_name(mode_t mode)
{
	return S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "symlink" : "page";
}

static void print_text(const char *path, const char *key, const struct stat *st)
{
	char text[256];

	printf("%-9s %s\n", "key", *key ? key : "/");
	printf("%-9s %s\n", "type", type_name(st->st_mode));
	printf("%-9s %lld\n", "size", (long long)st->st_size);
	printf("%-9s %lld\n", "stored", (long long)st->st_blocks * 512);
	printf("%-9s %04o %u:%u\n", "mode", (unsigned)st->st_mode & 07777,
	       (unsigned)st->st_uid, (unsigned)st->st_gid);
	printf("%-9s %llu\n", "links", (unsigned long long)st->st_nlink);
	time_text(&st->st_mtim, text, sizeof(text));
	printf("%-9s %s\n", "modified", text);
	time_text(&st->st_atim, text, sizeof(text));
	printf("%-9s %s\n", "accessed", text);
	for (size_t i = 0; S_ISREG(st->st_mode) && i < FACTS; i++)
		if (get_fact(path, facts[i], text, sizeof(text)))
			printf("%-9s %s\n", facts[i], text);
}

static void print_json(const char *path, const char *key, const struct stat *st)
{
	json_t *line = json_pack(
		"{s:s, s:I, s:I, s:i, s:i, s:i, s:I, s:f, s:f}", "type",
		type_name(st->st_mode), "size", (json_int_t)st->st_size,
		"stored", (json_int_t)st->st_blocks * 512, "mode",
		(int)(st->st_mode & 07777), "uid", (int)st->st_uid, "gid",
		(int)st->st_gid, "links", (json_int_t)st->st_nlink, "mtime",
		(double)clock_from_timespec(st->st_mtim) * 1e-9, "atime",
		(double)clock_from_timespec(st->st_atim) * 1e-9);
	char text[256];

	json_add_bytes(line, "key", key);
	for (size_t i = 0; S_ISREG(st->st_mode) && i < FACTS; i++)
		if (get_fact(path, facts[i], text, sizeof(text)))
			json_object_set_new(line, facts[i], json_string(text));
	json_dumpf(line, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(line);
}

static int show(const struct stat_options *values, char *path)
{
	struct mountpoint mountpoint;
	struct stat st;

	if (mountpoint_choose("stat", 1, &path, &mountpoint))
		return COMMAND_FAILED;
	if (lstat(path, &st))
		return command_fail(&command, "%s: %s", path,
				    errno == ENOENT
					    ? "no such page"
					    : mountpoint_reason(-errno));
	if (values->json)
		print_json(path, mountpoint.key, &st);
	else
		print_text(path, mountpoint.key, &st);
	return COMMAND_OK;
}

static int show_all(const struct stat_options *values, int count, char **paths)
{
	int code = COMMAND_OK;

	for (int i = 0; i < count; i++) {
		if (i && !values->json)
			putchar('\n');
		if (show(values, paths[i]) != COMMAND_OK)
			code = COMMAND_FAILED;
	}
	return code;
}

int tool_stat(int argc, char **argv)
{
	struct stat_options values;
	struct options options;
	int first, code;

	if (command_parse(&command, argc, argv, &values, &options, &first,
			  &code))
		code = show_all(&values, argc - first, argv + first);
	options_release(&options);
	return code;
}
