/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_TOOLS_H
#define PAGEFS_TOOLS_TOOLS_H

/*
 * The subcommands. Those that are tools stand in a table here; fs/main.c adds
 * `mount`, which is its own. `run` gets its own name as argv[0] and returns
 * the exit code: 0, 1, or 2 for wrong usage.
 */

struct tool {
	const char *name;
	const char *summary; /* for `pagefs help`: one line, no full stop */
	int (*run)(int argc, char **argv);
};

extern const struct tool tools[]; /* ends with a NULL name */

/* What main() does: runs the subcommand that argv[1] names, `own` (ends with
 * a NULL name) before the table's, or `help` and `version`, also as --help
 * and --version. Makes it a failure when standard output could not be
 * written. Returns the exit code. */
int tools_main(const struct tool *own, int argc, char **argv);

/* Each in the file of its name. */
int tool_bench(int argc, char **argv);
int tool_clear(int argc, char **argv);
int tool_doctor(int argc, char **argv);
int tool_evict(int argc, char **argv);
int tool_fsck(int argc, char **argv);
int tool_get(int argc, char **argv);
int tool_ls(int argc, char **argv);
int tool_put(int argc, char **argv);
int tool_rm(int argc, char **argv);
int tool_stat(int argc, char **argv);
int tool_status(int argc, char **argv);
int tool_umount(int argc, char **argv);

#endif
