/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_COMMAND_H
#define PAGEFS_TOOLS_COMMAND_H

/*
 * What every subcommand does with its command line: options from a table,
 * --help with examples, and the exit codes of all of pagefs. One thread.
 */

#include <stdbool.h>

#include "tools/lib/options.h"

enum command_exit {
	COMMAND_OK = 0,
	COMMAND_FAILED = 1,
	COMMAND_USAGE = 2, /* the command line was wrong; nothing was done */
};

struct command {
	const char *name;		 /* "bench offload" */
	const char *arguments;		 /* "[OPTION]... MOUNT/KEY [FILE]" */
	const char *summary;		 /* one sentence */
	const char *detail;		 /* paragraphs, or NULL */
	const char *examples;		 /* lines, each indented by two */
	const struct option_spec *specs; /* NULL name ends; --help is added */
	int min_arguments;
	int max_arguments; /* -1: any number */
};

/* Reads the command line into `values` (initialised here; the caller releases
 * `options` in every case). True: go on, arguments start at *ret_first. False:
 * *ret_exit is what to return (help was asked for, or a line on stderr said
 * what is wrong). */
bool command_parse(const struct command *command, int argc, char **argv,
		   void *values, struct options *options, int *ret_first,
		   int *ret_exit);

/* "pagefs NAME: ..." on stderr, with a newline. Returns COMMAND_FAILED. */
int command_fail(const struct command *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same, with a pointer to --help. Returns COMMAND_USAGE. */
int command_usage(const struct command *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
