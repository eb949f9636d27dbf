/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_LIB_OPTIONS_H
#define PAGEFS_TOOLS_LIB_OPTIONS_H

/*
 * The options of a command: one table, read from everywhere. A row's name works
 * as `--name VALUE` and `--name=VALUE` on the command line, as `name=VALUE` in
 * an -o list, and as a line `name = VALUE` in a configuration file; '-' and '_'
 * in names are the same. The order in which sources are read does not matter:
 * the command line wins over the file, and the file over the default; within a
 * source, the last one wins.
 *
 *	struct mount_options { uint64_t memory; bool foreground; char *disk; };
 *	static const struct option_spec specs[] = {
 *		{ .name = "memory", .type = OPTION_SIZE,
 *		  .offset = offsetof(struct mount_options, memory),
 *		  .help = "size of the memory tier", .initial = "1G" },
 *		...
 *		{ .name = NULL },
 *	};
 *
 * One thread. Errors are whole lines for people, without a newline: they name
 * the option, the value, and what would be right.
 */

#include <stdbool.h>
#include <stddef.h>

#include "tools/lib/option.h"

struct strbuf;

/* Rows in a table at most, and the size of a configuration file at most. */
#define OPTIONS_MAX 128
#define OPTIONS_FILE_MAX_BYTES ((size_t)1 << 20)

/* Later ones win. */
enum options_source {
	OPTIONS_DEFAULT,
	OPTIONS_FILE,
	OPTIONS_COMMAND_LINE,
};

struct options {
	const struct option_spec *specs; /* the caller's */
	size_t count;
	void *values;			    /* the caller's struct */
	unsigned char sources[OPTIONS_MAX]; /* enum options_source, a row */
};

/* Zeroes nothing but the fields named in `specs`, and gives them their
 * defaults. Asserts that the defaults can be read. */
void options_init(struct options *options, const struct option_spec *specs,
		  void *values);

/* Frees the strings in `values`. */
void options_release(struct options *options);

/* Sets one option by name, as if it came from `source`; `value` NULL is for a
 * flag without one. -EINVAL with a line in `error`; -ENOMEM. */
int options_set(struct options *options, enum options_source source,
		const char *name, const char *value, struct strbuf *error);

/* Reads a command line (argv[0] is skipped) with getopt_long, which moves the
 * other arguments to the end: they start at *ret_first. Uses getopt's global
 * state. -EINVAL with a line in `error`. */
int options_parse_arguments(struct options *options, int argc, char **argv,
			    int *ret_first, struct strbuf *error);

/* Reads a list as -o takes it: "ro,umask=022"; a backslash before a comma or a
 * backslash takes it literally. -EINVAL with a line in `error`. */
int options_parse_list(struct options *options, const char *list,
		       struct strbuf *error);

/* Reads a configuration file. -EINVAL with a line in `error`, which names file
 * and line; other errors are those of open and read, with a line as well. */
int options_parse_file(struct options *options, const char *path,
		       struct strbuf *error);

/* The same, from memory; `name` is for messages. Any bytes may come. */
int options_parse_text(struct options *options, const char *text, size_t len,
		       const char *name, struct strbuf *error);

/* Where the value of that option came from; the name is one in the table. */
enum options_source options_source(const struct options *options,
				   const char *name);

/* The values, as lines `name = value` from which options_parse_text makes the
 * same ones; option_bits says which have no line. */
void options_dump(const struct options *options, struct strbuf *out);

/* The list of options for a --help text. */
void options_help(const struct option_spec *specs, struct strbuf *out);

/* The row of that name, or NULL. */
const struct option_spec *options_find(const struct option_spec *specs,
				       const char *name);

/* The row whose name is most like this one, or NULL if none is. */
const struct option_spec *options_nearest(const struct option_spec *specs,
					  const char *name);

#endif
