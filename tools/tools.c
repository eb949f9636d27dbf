/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tools.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tools/command.h"
#include "tools/lib/options.h"

const struct tool tools[] = {
	{"umount", "stop a mount", tool_umount},
	{"status", "show how a mount is doing", tool_status},
	{"get", "copy a page out of a mount", tool_get},
	{"put", "store a file as a page", tool_put},
	{"ls", "list pages and directories", tool_ls},
	{"stat", "show what is known of a page", tool_stat},
	{"rm", "remove pages", tool_rm},
	{"evict", "drop pages from memory; they stay on disk", tool_evict},
	{"clear", "empty the negative cache", tool_clear},
	{"doctor", "check this host, and say how to mend it", tool_doctor},
	{"fsck", "check a disk tier, or mend its index", tool_fsck},
	{"bench", "measure a mount", tool_bench},
	{NULL, NULL, NULL},
};

static const struct tool *find_in(const struct tool *table, const char *name)
{
	for (; table->name; table++)
		if (!strcmp(table->name, name))
			return table;
	return NULL;
}

static const struct tool *find(const struct tool *own, const char *name)
{
	const struct tool *tool = find_in(own, name);

	return tool ? tool : find_in(tools, name);
}

static void print_table(const struct tool *table, FILE *out)
{
	for (; table->name; table++)
		fprintf(out, "  %-8s %s\n", table->name, table->summary);
}

static void print_help(const struct tool *own, FILE *out)
{
	fputs("Usage: pagefs COMMAND [OPTION]... [ARGUMENT]...\n"
	      "A store for the KV-cache pages of LLM serving, mounted as a "
	      "file system.\n\nCommands:\n",
	      out);
	print_table(own, out);
	print_table(tools, out);
	fputs("  version  show the version\n"
	      "  help     show this, or the help of a command\n\n"
	      "'pagefs COMMAND --help' shows the options and examples.\n"
	      "Exit codes: 0 done, 1 failed, 2 wrong usage.\n",
	      out);
}

static size_t add_names(const struct tool *table, struct option_spec *specs,
			size_t count)
{
	for (; table->name && count < OPTIONS_MAX - 1; table++)
		specs[count++].name = table->name;
	return count;
}

static int unknown(const struct tool *own, const char *name)
{
	/* The names as a table of options: that one finds what is alike. */
	struct option_spec specs[OPTIONS_MAX] = {{.name = NULL}};
	const struct option_spec *nearest;
	size_t count = add_names(own, specs, 0);

	count = add_names(tools, specs, count);
	nearest = options_nearest(specs, name);
	fprintf(stderr, "pagefs: '%s' is no command", name);
	if (nearest)
		fprintf(stderr, "; did you mean '%s'?", nearest->name);
	fputs("\nTry 'pagefs help'.\n", stderr);
	return COMMAND_USAGE;
}

static int help(const struct tool *own, int argc, char **argv)
{
	char option[] = "--help";
	char *arguments[] = {NULL, option, NULL};
	const struct tool *tool;

	if (argc < 2) {
		print_help(own, stdout);
		return COMMAND_OK;
	}
	tool = find(own, argv[1]);
	if (!tool)
		return unknown(own, argv[1]);
	arguments[0] = argv[1];
	return tool->run(2, arguments);
}

static bool is_one_of(const char *name, const char *a, const char *b,
		      const char *c)
{
	return !strcmp(name, a) || !strcmp(name, b) || !strcmp(name, c);
}

static int run(const struct tool *own, int argc, char **argv)
{
	const struct tool *tool;

	if (argc < 2) {
		print_help(own, stderr);
		return COMMAND_USAGE;
	}
	if (is_one_of(argv[1], "help", "--help", "-h"))
		return help(own, argc - 1, argv + 1);
	if (is_one_of(argv[1], "version", "--version", "-V")) {
		puts("pagefs " PAGEFS_VERSION);
		return COMMAND_OK;
	}
	tool = find(own, argv[1]);
	return tool ? tool->run(argc - 1, argv + 1) : unknown(own, argv[1]);
}

int tools_main(const struct tool *own, int argc, char **argv)
{
	int code = run(own, argc, argv);

	/* A full disk or a closed pipe must not look like a whole list. */
	if ((fflush(stdout) || ferror(stdout)) && code == COMMAND_OK) {
		fprintf(stderr, "pagefs: standard output: %s\n",
			strerror(errno));
		code = COMMAND_FAILED;
	}
	return code;
}
