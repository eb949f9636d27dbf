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

/* Each in the file of its name. */
int tool_bench(int argc, char **argv);
int tool_clear(int argc, char **argv);
int tool_evict(int argc, char **argv);
int tool_get(int argc, char **argv);
int tool_ls(int argc, char **argv);
int tool_put(int argc, char **argv);
int tool_rm(int argc, char **argv);
int tool_stat(int argc, char **argv);

#endif
