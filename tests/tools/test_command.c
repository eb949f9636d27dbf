/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/tools/capture.h"
#include "tools/tools.h"

static struct capture c;

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part)) {
		print_error("'%s' is not in:\n%s\n", part, text);
		fail();
	}
}

static void every_command_has_help_with_examples(void **state)
{
	char line[64];

	(void)state;
	for (const struct tool *tool = tools; tool->name; tool++) {
		if (!strcmp(tool->name, "bench"))
			continue; /* has commands of its own */
		snprintf(line, sizeof(line), "%s --help", tool->name);
		capture_run(&c, line);
		assert_int_equal(c.code, 0);
		assert_string_equal(c.err, "");
		assert_has(c.out, "Usage: pagefs ");
		assert_has(c.out, tool->name);
		assert_has(c.out, "\nExamples:\n  pagefs ");
		assert_has(c.out, "--help");
	}
}

static void help_lists_every_command(void **state)
{
	(void)state;
	capture_run(&c, "help");
	assert_int_equal(c.code, 0);
	for (const struct tool *tool = tools; tool->name; tool++) {
		assert_has(c.out, tool->name);
		assert_has(c.out, tool->summary);
	}
}

static void help_of_a_command_is_its_own_help(void **state)
{
	static struct capture own;

	(void)state;
	capture_run(&own, "rm --help");
	capture_run(&c, "help rm");
	assert_int_equal(c.code, 0);
	assert_string_equal(c.out, own.out);
}

static void the_version_can_be_asked_for_in_three_ways(void **state)
{
	const char *const ways[] = {"version", "--version", "-V"};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		capture_run(&c, ways[i]);
		assert_int_equal(c.code, 0);
		assert_string_equal(c.out, "pagefs " PAGEFS_VERSION "\n");
	}
}

static const struct {
	const char *line;
	const char *says; /* on stderr */
} wrong[] = {
	{"", "Usage: pagefs COMMAND"},
	{"evit /mnt/kv", "did you mean 'evict'?"},
	{"nonsense", "'nonsense' is no command"},
	{"help nonsense", "'nonsense' is no command"},
	{"ls --recursve", "did you mean --recursive?"},
	{"ls --frobnicate", "unknown option --frobnicate"},
	{"ls -x", "unknown option"},
	{"get", "usage: pagefs get MOUNT/KEY [FILE]"},
	{"get a b c", "usage: pagefs get"},
	{"put a", "usage: pagefs put"},
	{"stat", "usage: pagefs stat"},
	{"clear a b", "usage: pagefs clear"},
	{"evict", "no page was named"},
	{"evict --all a b", "--all takes one mount"},
	{"rm", "nothing to remove was named"},
	{"rm --all", "--all needs -r"},
	{"put - dir/", "standard input has no name"},
	{"umount a b", "usage: pagefs umount"},
	{"umount --timeout soon /mnt/kv", "--timeout"},
	{"doctor --memory 12X", "12X"},
	{"doctor --json=maybe", "maybe"},
	{"fsck", "usage: pagefs fsck"},
	{"fsck --verify --rebuild /tmp", "either --verify or --rebuild"},
	{"bench", "Usage: pagefs bench"},
	{"bench speed", "'speed' is no benchmark"},
	{"bench offload --page-size 3.5", "3.5"},
	{"bench offload --clients 0", "--clients"},
	{"bench io --runs many", "many"},
};

static void wrong_usage_is_exit_code_2_and_says_what_is_wrong(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		capture_run(&c, wrong[i].line);
		if (c.code != 2)
			print_error("pagefs %s: %d\n", wrong[i].line, c.code);
		assert_int_equal(c.code, 2);
		assert_string_equal(c.out, "");
		assert_has(c.err, wrong[i].says);
	}
}

static void a_path_outside_of_any_mount_is_exit_code_1(void **state)
{
	const char *const lines[] = {
		"get /proc/nothing",
		"put /dev/null /proc/a",
		"ls /proc",
		"stat /proc",
		"rm /proc/nothing",
		"evict /proc/nothing",
		"clear /proc",
		"umount /proc",
		"get missing/directory",
		"ls /proc/missing/deep/key",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		capture_run(&c, lines[i]);
		assert_int_equal(c.code, 1);
		assert_has(c.err, "no pagefs mount there");
	}
}

static void fsck_of_what_is_no_disk_tier_is_exit_code_1(void **state)
{
	(void)state;
	capture_run(&c, "fsck /proc/missing");
	assert_int_equal(c.code, 1);
	assert_has(c.err, "/proc/missing");
	assert_string_equal(c.out, "");
}

static void output_that_can_not_be_written_is_a_failure(void **state)
{
	static const struct tool none[] = {{NULL, NULL, NULL}};
	char program[] = "pagefs", word[] = "help", *argv[] = {program, word};
	int old = dup(STDOUT_FILENO), code;
	FILE *full;

	(void)state;
	fflush(stdout);
	full = fopen("/dev/full", "w");
	assert_non_null(full);
	dup2(fileno(full), STDOUT_FILENO);
	code = tools_main(none, 2, argv);
	clearerr(stdout);
	dup2(old, STDOUT_FILENO);
	close(old);
	fclose(full);
	assert_int_equal(code, 1);
}

static void doctor_gives_each_finding_as_json(void **state)
{
	json_t *rows, *row;
	size_t i;
	int failures = 0;

	(void)state;
	capture_run(&c, "doctor --json --memory 16M --disk /tmp");
	rows = json_loads(c.out, 0, NULL);
	assert_true(json_is_array(rows));
	assert_true(json_array_size(rows) > 10);
	json_array_foreach(rows, i, row)
	{
		const char *outcome =
			json_string_value(json_object_get(row, "outcome"));

		assert_non_null(outcome);
		assert_non_null(json_object_get(row, "name"));
		assert_non_null(json_object_get(row, "found"));
		failures += !strcmp(outcome, "fail");
		if (strcmp(outcome, "ok") != 0) {
			assert_non_null(json_object_get(row, "costs"));
			assert_non_null(json_object_get(row, "mend"));
		}
	}
	json_decref(rows);
	assert_int_equal(c.code, failures ? 1 : 0);
}

static void doctor_prints_a_line_a_check_and_the_counts(void **state)
{
	(void)state;
	capture_run(&c, "doctor --memory 16M --disk none");
	assert_has(c.out, "fuse device");
	assert_has(c.out, "no disk tier");
	assert_has(c.out, " failures\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_command_has_help_with_examples),
		cmocka_unit_test(help_lists_every_command),
		cmocka_unit_test(help_of_a_command_is_its_own_help),
		cmocka_unit_test(the_version_can_be_asked_for_in_three_ways),
		cmocka_unit_test(
			wrong_usage_is_exit_code_2_and_says_what_is_wrong),
		cmocka_unit_test(a_path_outside_of_any_mount_is_exit_code_1),
		cmocka_unit_test(fsck_of_what_is_no_disk_tier_is_exit_code_1),
		cmocka_unit_test(output_that_can_not_be_written_is_a_failure),
		cmocka_unit_test(doctor_gives_each_finding_as_json),
		cmocka_unit_test(doctor_prints_a_line_a_check_and_the_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
