/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cache/stage.h"

static void assert_ranges(const struct stage_ranges *ranges, unsigned count,
			  const struct stage_range *expected)
{
	assert_int_equal(ranges->count, count);
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(ranges->range[i].from, expected[i].from);
		assert_int_equal(ranges->range[i].to, expected[i].to);
	}
}

static void ranges_that_touch_become_one(void **state)
{
	static const struct {
		const char *what;
		struct stage_range added[4];
		unsigned count;
		struct stage_range expected[3];
	} rows[] = {
		{"one after the other", {{0, 10}, {10, 20}}, 1, {{0, 20}}},
		{"the other way round", {{10, 20}, {0, 10}}, 1, {{0, 20}}},
		{"apart", {{0, 10}, {11, 20}}, 2, {{0, 10}, {11, 20}}},
		{"in between",
		 {{0, 5}, {20, 25}, {10, 15}},
		 3,
		 {{0, 5}, {10, 15}, {20, 25}}},
		{"over several",
		 {{0, 5}, {10, 15}, {20, 25}, {3, 21}},
		 1,
		 {{0, 25}}},
		{"within", {{0, 50}, {10, 20}}, 1, {{0, 50}}},
		{"nothing", {{0, 5}, {7, 7}}, 1, {{0, 5}}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct stage_ranges ranges = {0};

		for (unsigned j = 0; j < 4; j++)
			stage_ranges_add(&ranges, rows[i].added[j].from,
					 rows[i].added[j].to);
		assert_ranges(&ranges, rows[i].count, rows[i].expected);
	}
}

static void a_gap_is_found_and_bounded(void **state)
{
	struct stage_ranges ranges = {0};
	struct stage_range gap;

	(void)state;
	stage_ranges_add(&ranges, 10, 20);
	stage_ranges_add(&ranges, 30, 40);
	assert_true(stage_ranges_gap(&ranges, 0, 100, &gap));
	assert_int_equal(gap.from, 0);
	assert_int_equal(gap.to, 10);
	assert_true(stage_ranges_gap(&ranges, 10, 100, &gap));
	assert_int_equal(gap.from, 20);
	assert_int_equal(gap.to, 30);
	assert_true(stage_ranges_gap(&ranges, 15, 25, &gap));
	assert_int_equal(gap.to, 25);
	assert_true(stage_ranges_gap(&ranges, 35, 50, &gap));
	assert_int_equal(gap.from, 40);
	assert_int_equal(gap.to, 50);
	assert_false(stage_ranges_gap(&ranges, 12, 20, &gap));
	assert_true(stage_ranges_cover(&ranges, 30, 40));
	assert_false(stage_ranges_cover(&ranges, 30, 41));
	assert_int_equal(stage_ranges_end(&ranges), 40);
}

static void what_is_cut_off_is_forgotten(void **state)
{
	struct stage_ranges ranges = {0};

	(void)state;
	stage_ranges_add(&ranges, 10, 20);
	stage_ranges_add(&ranges, 30, 40);
	stage_ranges_cut(&ranges, 35);
	assert_int_equal(stage_ranges_end(&ranges), 35);
	stage_ranges_cut(&ranges, 30);
	assert_int_equal(stage_ranges_end(&ranges), 20);
	stage_ranges_cut(&ranges, 0);
	assert_int_equal(ranges.count, 0);
	assert_int_equal(stage_ranges_end(&ranges), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_that_touch_become_one),
		cmocka_unit_test(a_gap_is_found_and_bounded),
		cmocka_unit_test(what_is_cut_off_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
