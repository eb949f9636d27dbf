/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define KI UINT64_C(1024)

static void sizes_are_read_as_people_write_them(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} rows[] = {
		{"0", 0},
		{"1", 1},
		{"4096", 4096},
		{"4096B", 4096},
		{"64K", 64 * KI},
		{"64k", 64 * KI},
		{"64 KiB", 64 * KI},
		{"3M", 3 * KI * KI},
		{"3.5MiB", 3670016},
		{"0.5K", 512},
		{"1.0001K", 1024},
		{"2G", 2 * KI * KI * KI},
		{"1TiB", KI * KI * KI * KI},
		{"1KB", 1000},
		{"1.5mb", 1500000},
		{"2GB", 2000000000},
		{"1TB", UINT64_C(1000000000000)},
		{"18446744073709551615", UINT64_MAX},
		{"16777215T", 16777215 * KI * KI * KI * KI},
		{"0.33333333333333333333333333T", UINT64_C(366503875925)},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t bytes = 7;

		assert_int_equal(size_parse(rows[i].text, &bytes), SIZE_OK);
		assert_true(bytes == rows[i].bytes);
	}
}

static void each_mistake_has_its_outcome(void **state)
{
	static const struct {
		const char *text;
		enum size_outcome outcome;
	} rows[] = {
		{"", SIZE_EMPTY},
		{"-1", SIZE_NO_NUMBER},
		{"+1", SIZE_NO_NUMBER},
		{" 1", SIZE_NO_NUMBER},
		{"M", SIZE_NO_NUMBER},
		{".5M", SIZE_NO_NUMBER},
		{"1.M", SIZE_NO_NUMBER},
		{"1.5", SIZE_NO_UNIT},
		{"1.5B", SIZE_NO_UNIT},
		{"1X", SIZE_BAD_UNIT},
		{"1MM", SIZE_BAD_UNIT},
		{"1M 2", SIZE_BAD_UNIT},
		{"0x10", SIZE_BAD_UNIT},
		{"1e3", SIZE_BAD_UNIT},
		{"18446744073709551616", SIZE_TOO_LARGE},
		{"16777216T", SIZE_TOO_LARGE},
		{"99999999999999999999999G", SIZE_TOO_LARGE},
		{"50%", SIZE_NO_PERCENT},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t bytes = 7;

		assert_int_equal(size_parse(rows[i].text, &bytes),
				 rows[i].outcome);
		assert_true(bytes == 7);
		assert_true(strlen(size_outcome_text(rows[i].outcome)) > 0);
	}
}

static void a_percentage_is_a_part_of_the_whole(void **state)
{
	struct size_or_percent size;

	(void)state;
	assert_int_equal(size_or_percent_parse("12.5%", &size), SIZE_OK);
	assert_true(size_resolve(size, 1000) == 125);
	assert_int_equal(size_or_percent_parse("100%", &size), SIZE_OK);
	assert_true(size_resolve(size, UINT64_MAX) == UINT64_MAX);
	assert_int_equal(size_or_percent_parse("3K", &size), SIZE_OK);
	assert_true(size_resolve(size, 1000) == 3072);
	assert_int_equal(size_or_percent_parse("100.1%", &size),
			 SIZE_BAD_PERCENT);
	assert_int_equal(size_or_percent_parse("5%%", &size), SIZE_BAD_UNIT);
}

static void a_formatted_size_reads_back_as_the_same(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} rows[] = {
		{0, "0"},
		{1000, "1000"},
		{1024, "1K"},
		{1025, "1025"},
		{1536, "1.5K"},
		{3670016, "3.5M"},
		{256 * KI * KI, "256M"},
		{KI * KI * KI * KI, "1T"},
		{UINT64_MAX, "18446744073709551615"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[SIZE_TEXT_MAX];
		uint64_t bytes;

		size_format(rows[i].bytes, text, sizeof(text));
		assert_string_equal(text, rows[i].text);
		assert_int_equal(size_parse(text, &bytes), SIZE_OK);
		assert_true(bytes == rows[i].bytes);
	}
}

static void a_rounded_size_is_short(void **state)
{
	char text[SIZE_TEXT_MAX];

	(void)state;
	assert_string_equal(size_format_rounded(999, text, sizeof(text)),
			    "999 B");
	assert_string_equal(size_format_rounded(3670016, text, sizeof(text)),
			    "3.5 MiB");
	assert_string_equal(size_format_rounded(512 * KI, text, sizeof(text)),
			    "512 KiB");
	assert_string_equal(size_format_rounded(UINT64_MAX, text, sizeof(text)),
			    "16777216 TiB");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_read_as_people_write_them),
		cmocka_unit_test(each_mistake_has_its_outcome),
		cmocka_unit_test(a_percentage_is_a_part_of_the_whole),
		cmocka_unit_test(a_formatted_size_reads_back_as_the_same),
		cmocka_unit_test(a_rounded_size_is_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
