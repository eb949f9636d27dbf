/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_TOOLS_H
#define PAGEFS_TOOLS_TOOLS_H

/*
 * The subcommands that are tools: fs/main.c finds them here by name and adds
 * `mount`, which is its own.  `run` gets its own name as argv[0] and returns
 * the exit code: 0, 1, or 2 for wrong usage.
 */

struct tool {
	const char *name;
	const char *summary; /* for `pagefs help`: one line, no full stop */
	int (*run)(int argc, char **argv);
};

extern const struct tool tools[]; /* ends with a NULL name */

#endif
