/* SPDX-License-Identifier: Apache-2.0 */

/* The man pages name every command and option that there is. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/tools/capture.h"
#include "tools/tools.h"

static struct capture c;
static char page[CAPTURE_BYTES];

static void read_page(const char *path)
{
	FILE *file = fopen(path, "r");
	size_t n;

	if (!file)
		fail_msg("%s can't be read", path);
	n = fread(page, 1, sizeof(page) - 1, file);
	page[n] = '\0';
	fclose(file);
}

/* The text of a subsection, from its title to the next one. */
static const char *section_of(const char *title)
{
	static char section[CAPTURE_BYTES];
	char head[64], *end;
	const char *start;

	snprintf(head, sizeof(head), "\n.Ss %s\n", title);
	start = strstr(page, head);
	if (!start)
		fail_msg("there is no section '%s'", title);
	snprintf(section, sizeof(section), "%s", start + strlen(head) - 1);
	end = strstr(section, "\n.S");
	if (end)
		*end = '\0';
	return section;
}

/* "-name" as mdoc writes it, not as the beginning of another. */
static int names_option(const char *text, const char *option)
{
	size_t len = strlen(option);
	char flag[128];

	snprintf(flag, sizeof(flag), "Fl -%s", option);
	len = strlen(flag);
	for (; (text = strstr(text, flag)); text += len)
		if (strchr(" \n", text[len]))
			return 1;
	return 0;
}

static void check_options(const char *command)
{
	char line[64], option[64];
	const char *section;

	snprintf(line, sizeof(line), "%s --help", command);
	capture_run(&c, line);
	section = section_of(command);
	for (const char *at = strstr(c.out, "\nOptions:\n");
	     at && (at = strstr(at, "--")); at += 2) {
		size_t len = strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-");

		snprintf(option, sizeof(option), "%.*s", (int)len, at + 2);
		if (!len || !strcmp(option, "help"))
			continue;
		if (!names_option(section, option))
			fail_msg("%s does not name --%s", command, option);
	}
}

static void pagefs_1_names_every_option_of_every_tool(void **state)
{
	(void)state;
	read_page("tools/man/pagefs.1");
	for (const struct tool *tool = tools; tool->name; tool++)
		if (strcmp(tool->name, "bench") != 0)
			check_options(tool->name);
	check_options("bench io");
	check_options("bench offload");
}

static void pagefs_1_names_no_command_that_there_is_not(void **state)
{
	char name[32], line[64];

	(void)state;
	read_page("tools/man/pagefs.1");
	for (const char *at = page; (at = strstr(at, "\n.Ss ")); at++) {
		sscanf(at + 5, "%31s", name);
		snprintf(line, sizeof(line), "%s --help", name);
		capture_run(&c, line);
		if (c.code != 0)
			fail_msg("there is no command '%s'", name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pagefs_1_names_every_option_of_every_tool),
		cmocka_unit_test(pagefs_1_names_no_command_that_there_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
