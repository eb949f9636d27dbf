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
#include "fs/mount_options.h"
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
	char list[4096], name[32], line[64];

	(void)state;
	read_page("tools/man/pagefs.1");
	for (const struct tool *tool = tools; tool->name; tool++)
		if (strcmp(tool->name, "bench") != 0)
			check_options(tool->name);
	capture_run(&c, "bench --help");
	snprintf(list, sizeof(list), "%s", strstr(c.out, "\nBenchmarks:\n"));
	for (const char *at = list; (at = strstr(at, "\n  ")); at++)
		if (sscanf(at, " %31s", name) == 1) {
			snprintf(line, sizeof(line), "bench %s", name);
			check_options(line);
		}
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

/* "Cm name" at the head of an item, as pagefs.conf.5 has its options. */
static int has_item(const char *option)
{
	char head[128];
	const char *at;

	snprintf(head, sizeof(head), "\n.It Cm %s", option);
	at = strstr(page, head);
	return at && strchr(" \n", at[strlen(head)]);
}

static void pagefs_conf_5_and_pagefs_8_name_every_option_of_mount(void **state)
{
	static char daemon[CAPTURE_BYTES];

	(void)state;
	read_page("tools/man/pagefs.8");
	memcpy(daemon, page, sizeof(daemon));
	read_page("tools/man/pagefs.conf.5");
	for (const struct option_spec *spec = mount_option_specs; spec->name;
	     spec++) {
		if (spec->bits & OPTION_HIDDEN)
			continue;
		if (!has_item(spec->name) && !names_option(daemon, spec->name))
			fail_msg("neither page names %s", spec->name);
		if (spec->initial && spec->type != OPTION_LIST &&
		    !(spec->bits & OPTION_COMMAND_LINE_ONLY) &&
		    !strstr(page, spec->initial))
			fail_msg("the default of %s, %s, is not named",
				 spec->name, spec->initial);
	}
}

static void pagefs_conf_5_names_no_option_that_there_is_not(void **state)
{
	char name[64];

	(void)state;
	read_page("tools/man/pagefs.conf.5");
	for (const char *at = page; (at = strstr(at, "\n.It Cm ")); at++) {
		sscanf(at + 8, "%63s", name);
		if (!options_find(mount_option_specs, name))
			fail_msg("there is no option '%s'", name);
	}
}

static void the_readme_names_options_that_there_are(void **state)
{
	char name[64];

	(void)state;
	read_page("README.md");
	for (const char *at = page; (at = strstr(at, "\n| `--")); at++) {
		sscanf(at + 6, "%63[a-z-]", name);
		if (!options_find(mount_option_specs, name))
			fail_msg("there is no option '%s'", name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pagefs_1_names_every_option_of_every_tool),
		cmocka_unit_test(pagefs_1_names_no_command_that_there_is_not),
		cmocka_unit_test(
			pagefs_conf_5_and_pagefs_8_name_every_option_of_mount),
		cmocka_unit_test(
			pagefs_conf_5_names_no_option_that_there_is_not),
		cmocka_unit_test(the_readme_names_options_that_there_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
