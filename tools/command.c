/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/lib/strbuf.h"

static void print_help(const struct command *command)
{
	struct strbuf text;

	strbuf_init(&text, 0);
	strbuf_printf(&text, "Usage: pagefs %s %s\n%s\n", command->name,
		      command->arguments, command->summary);
	if (command->detail)
		strbuf_printf(&text, "\n%s\n", command->detail);
	strbuf_puts(&text, "\nOptions:\n");
	options_help(command->specs, &text);
	strbuf_puts(&text, "      --help                show this and exit\n");
	strbuf_printf(&text, "\nExamples:\n%s\n", command->examples);
	fputs(strbuf_text(&text), stdout);
	strbuf_release(&text);
}

static bool wants_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return true;
	return false;
}

static bool count_is_right(const struct command *command, int count)
{
	return count >= command->min_arguments &&
	       (command->max_arguments < 0 || count <= command->max_arguments);
}

bool command_parse(const struct command *command, int argc, char **argv,
		   void *values, struct options *options, int *ret_first,
		   int *ret_exit)
{
	struct strbuf error;
	bool ok = false;

	options_init(options, command->specs, values);
	if (wants_help(argc, argv)) {
		print_help(command);
		*ret_exit = COMMAND_OK;
		return false;
	}
	strbuf_init(&error, 0);
	if (options_parse_arguments(options, argc, argv, ret_first, &error))
		*ret_exit = command_usage(command, "%s", strbuf_text(&error));
	else if (!count_is_right(command, argc - *ret_first))
		*ret_exit = command_usage(command, "usage: pagefs %s %s",
					  command->name, command->arguments);
	else
		ok = true;
	strbuf_release(&error);
	return ok;
}

static void __attribute__((format(printf, 2, 0)))
complain(const struct command *command, const char *format, va_list arguments)
{
	fprintf(stderr, "pagefs %s: ", command->name);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
}

int command_fail(const struct command *command, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	complain(command, format, arguments);
	va_end(arguments);
	return COMMAND_FAILED;
}

int command_usage(const struct command *command, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	complain(command, format, arguments);
	va_end(arguments);
	fprintf(stderr, "Try 'pagefs %s --help'.\n", command->name);
	return COMMAND_USAGE;
}
