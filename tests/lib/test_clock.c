/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void monotonic_time_does_not_go_back(void **state)
{
	uint64_t last = clock_monotonic_ns();

	(void)state;
	for (int i = 0; i < 1000; i++) {
		uint64_t now = clock_monotonic_ns();

		assert_true(now >= last);
		last = now;
	}
}

static void real_time_is_after_2024(void **state)
{
	(void)state;
	assert_true(clock_realtime_ns() >
		    UINT64_C(1704067200) * CLOCK_NS_PER_SECOND);
}

static void
a_deadline_is_two_seconds_and_the_bytes_over_the_floor_rate(void **state)
{
	static const struct {
		uint64_t len_bytes;
		uint64_t ns;
	} rows[] = {
		{0, UINT64_C(2000000000)},
		{1, UINT64_C(2000000010)},
		{100000000, UINT64_C(3000000000)},
		{150000000, UINT64_C(3500000000)},
		/* A TiB takes three hours; its ns times 10^9 overflow. */
		{UINT64_C(1) << 40, UINT64_C(10997116277760)},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_true(clock_deadline_from_ns(5, rows[i].len_bytes) ==
			    5 + rows[i].ns);
	assert_true(clock_deadline_ns(0) > clock_monotonic_ns());
}

static void a_timespec_goes_both_ways(void **state)
{
	struct timespec time = {.tv_sec = 1700000000, .tv_nsec = 123456789};
	uint64_t ns = clock_from_timespec(time);
	struct timespec back = clock_to_timespec(ns);

	(void)state;
	assert_true(ns == UINT64_C(1700000000123456789));
	assert_int_equal(back.tv_sec, time.tv_sec);
	assert_int_equal(back.tv_nsec, time.tv_nsec);
	time.tv_sec = -1;
	assert_true(clock_from_timespec(time) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(monotonic_time_does_not_go_back),
		cmocka_unit_test(real_time_is_after_2024),
		cmocka_unit_test(
			a_deadline_is_two_seconds_and_the_bytes_over_the_floor_rate),
		cmocka_unit_test(a_timespec_goes_both_ways),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
