/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/json_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
	const char *bytes;
	const char *readable;
	const char *hex; /* NULL: was UTF-8 */
} rows[] = {
	{"model/0a1b", "model/0a1b", NULL},
	{"", "", NULL},
	{"Schl\xC3\xBCssel \xE2\x82\xAC \xF0\x9F\x98\x80",
	 "Schl\xC3\xBCssel \xE2\x82\xAC \xF0\x9F\x98\x80", NULL},
	{"a\nb", "a\nb", NULL},
	{"a\xFF", "a\xEF\xBF\xBD", "61ff"},
	{"\xC3(", "\xEF\xBF\xBD(", "c328"},
	{"\xE2\x82\xAC\xE2\x82", "\xE2\x82\xAC\xEF\xBF\xBD\xEF\xBF\xBD",
	 "e282ace282"},
};

static void any_bytes_become_a_readable_string(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		json_t *object = json_object();
		json_t *hex;

		json_add_bytes(object, "key", rows[i].bytes);
		hex = json_object_get(object, "key_hex");
		assert_string_equal(
			json_string_value(json_object_get(object, "key")),
			rows[i].readable);
		if (rows[i].hex)
			assert_string_equal(json_string_value(hex),
					    rows[i].hex);
		else
			assert_null(hex);
		json_decref(object);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_bytes_become_a_readable_string),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
