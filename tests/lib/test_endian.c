/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/endian.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

_Static_assert(sizeof(struct le16) == 2, "no padding");
_Static_assert(sizeof(struct le32) == 4, "no padding");
_Static_assert(sizeof(struct le64) == 8, "no padding");

static void bytes_lie_with_the_lowest_first(void **state)
{
	struct le16 a = le16_put(0x0102);
	struct le32 b = le32_put(0x01020304);
	struct le64 c = le64_put(UINT64_C(0x0102030405060708));

	(void)state;
	assert_memory_equal(&a, "\x02\x01", 2);
	assert_memory_equal(&b, "\x04\x03\x02\x01", 4);
	assert_memory_equal(&c, "\x08\x07\x06\x05\x04\x03\x02\x01", 8);
}

static void what_was_put_is_got_back(void **state)
{
	(void)state;
	assert_int_equal(le16_get(le16_put(UINT16_MAX - 1)), UINT16_MAX - 1);
	assert_int_equal(le32_get(le32_put(UINT32_MAX - 1)), UINT32_MAX - 1);
	assert_true(le64_get(le64_put(UINT64_MAX - 1)) == UINT64_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_lie_with_the_lowest_first),
		cmocka_unit_test(what_was_put_is_got_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
