/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/strbuf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void an_empty_buffer_is_an_empty_string(void **state)
{
	struct strbuf buf;

	(void)state;
	strbuf_init(&buf, 0);
	assert_string_equal(strbuf_text(&buf), "");
	assert_int_equal(buf.len, 0);
	strbuf_release(&buf);
}

static void pieces_are_added_in_order(void **state)
{
	struct strbuf buf;

	(void)state;
	strbuf_init(&buf, 0);
	strbuf_puts(&buf, "a");
	strbuf_putc(&buf, 'b');
	strbuf_add(&buf, "cd", 1);
	strbuf_printf(&buf, "-%d-%s", 7, "x");
	assert_string_equal(strbuf_text(&buf), "abc-7-x");
	assert_int_equal(buf.len, 7);
	strbuf_reset(&buf);
	assert_string_equal(strbuf_text(&buf), "");
	strbuf_release(&buf);
}

static void it_grows_to_what_is_added(void **state)
{
	struct strbuf buf;

	(void)state;
	strbuf_init(&buf, 0);
	for (int i = 0; i < 10000; i++)
		strbuf_printf(&buf, "%04d\n", i);
	assert_int_equal(strbuf_error(&buf), 0);
	assert_int_equal(buf.len, 50000);
	assert_memory_equal(strbuf_text(&buf) + 49995, "9999\n", 6);
	strbuf_release(&buf);
}

static void nothing_is_added_past_the_bound_and_the_error_sticks(void **state)
{
	struct strbuf buf;

	(void)state;
	strbuf_init(&buf, 5);
	strbuf_puts(&buf, "12345");
	assert_int_equal(strbuf_error(&buf), 0);
	strbuf_putc(&buf, '6');
	assert_int_equal(strbuf_error(&buf), -EFBIG);
	strbuf_add(&buf, "", 0);
	strbuf_printf(&buf, "%s", "");
	assert_string_equal(strbuf_text(&buf), "12345");
	assert_int_equal(strbuf_error(&buf), -EFBIG);
	assert_null(strbuf_detach(&buf));
	strbuf_puts(&buf, "again");
	assert_string_equal(strbuf_text(&buf), "again");
	strbuf_release(&buf);
}

static void a_detached_text_belongs_to_the_caller(void **state)
{
	struct strbuf buf;
	char *text;

	(void)state;
	strbuf_init(&buf, 0);
	strbuf_puts(&buf, "mine");
	text = strbuf_detach(&buf);
	assert_string_equal(text, "mine");
	assert_string_equal(strbuf_text(&buf), "");
	free(text);
	text = strbuf_detach(&buf);
	assert_string_equal(text, "");
	free(text);
	strbuf_release(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_buffer_is_an_empty_string),
		cmocka_unit_test(pieces_are_added_in_order),
		cmocka_unit_test(it_grows_to_what_is_added),
		cmocka_unit_test(
			nothing_is_added_past_the_bound_and_the_error_sticks),
		cmocka_unit_test(a_detached_text_belongs_to_the_caller),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
