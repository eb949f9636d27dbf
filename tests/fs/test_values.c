/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/hidden.h"
#include "fs/values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/lib/strbuf.h"

static struct values values;

static int set_up(void **state)
{
	(void)state;
	values.count = 0;
	values_add(&values, VALUE_COUNTER, "bytes_total", "Bytes.", 12e12);
	values_add(&values, VALUE_GAUGE, "ratio", "A part.", 0.25);
	values_add_text(&values, "engine", "Which.", "a \"b\"\n");
	return 0;
}

static void prints(void (*print)(const struct values *v, struct strbuf *out),
		   const char *expected)
{
	struct strbuf out;

	strbuf_init(&out, 0);
	print(&values, &out);
	assert_string_equal(strbuf_text(&out), expected);
	strbuf_release(&out);
}

static void lines_are_for_people(void **state)
{
	(void)state;
	values.value[2].text[5] = '\0';
	prints(values_print_lines,
	       "bytes_total 12000000000000\nratio 0.25\nengine a \"b\"\n");
}

static void json_is_quoted(void **state)
{
	(void)state;
	prints(values_print_json,
	       "{\n \"bytes_total\": 12000000000000,\n \"ratio\": 0.25,\n "
	       "\"engine\": \"a \\\"b\\\"\\n\"\n}\n");
}

static void a_text_is_cut_between_characters_and_always_utf_8(void **state)
{
	char path[VALUE_TEXT_MAX + 8] = "";

	(void)state;
	values.count = 0;
	values_add_text(&values, "dir", "Where.", "/a\xff/\xc3\xa9/\xe2\x82");
	assert_string_equal(values.value[0].text, "/a?/\xc3\xa9/??");
	memset(path, 'x', VALUE_TEXT_MAX - 2);
	memcpy(path + VALUE_TEXT_MAX - 2, "\xc3\xa9", 3);
	values_add_text(&values, "dir", "Where.", path);
	path[VALUE_TEXT_MAX - 2] = '\0';
	assert_string_equal(values.value[1].text, path);
}

static void metrics_have_help_and_type(void **state)
{
	(void)state;
	values.count = 1;
	prints(values_print_metrics, "# HELP pagefs_bytes_total Bytes.\n"
				     "# TYPE pagefs_bytes_total counter\n"
				     "pagefs_bytes_total 12000000000000\n");
}

static void take(void *arg, uint64_t dir, const char *name, size_t len)
{
	unsigned *count = arg;

	assert_int_equal(dir, 3);
	assert_int_equal(len, 1);
	assert_memory_equal(name, "b", 1);
	(*count)++;
}

static void hidden_names_are_given_back_until_their_end(void **state)
{
	struct hidden *hidden;
	unsigned count = 0;

	(void)state;
	assert_int_equal(hidden_new(&hidden), 0);
	assert_true(hidden_add(hidden, 3, "a", 1, 100, 10));
	assert_true(hidden_add(hidden, 3, "b", 1, 105, 10));
	hidden_take(hidden, 111, take, &count);
	assert_int_equal(count, 1);
	hidden_take(hidden, 111, take, &count);
	assert_int_equal(count, 1);
	hidden_free(hidden);
}

static void past_its_bound_nothing_is_hidden(void **state)
{
	struct hidden *hidden;

	(void)state;
	assert_int_equal(hidden_new(&hidden), 0);
	for (unsigned i = 0; i < HIDDEN_MAX; i++)
		assert_true(hidden_add(hidden, 3, "a", 1, 0, 100));
	assert_false(hidden_add(hidden, 3, "b", 1, 50, 100));
	assert_true(hidden_add(hidden, 3, "b", 1, 100, 100));
	hidden_free(hidden);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(lines_are_for_people, set_up),
		cmocka_unit_test_setup(json_is_quoted, set_up),
		cmocka_unit_test_setup(
			a_text_is_cut_between_characters_and_always_utf_8,
			set_up),
		cmocka_unit_test_setup(metrics_have_help_and_type, set_up),
		cmocka_unit_test(hidden_names_are_given_back_until_their_end),
		cmocka_unit_test(past_its_bound_nothing_is_hidden),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
