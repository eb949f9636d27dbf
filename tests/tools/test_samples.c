/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_samples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void an_empty_set_has_zeros(void **state)
{
	struct samples samples = {0};

	(void)state;
	assert_int_equal(samples_percentile(&samples, 0.5), 0);
	assert_int_equal(samples_mean(&samples), 0);
	samples_release(&samples);
}

static void percentiles_are_those_of_the_sorted_values(void **state)
{
	struct samples samples = {0};

	(void)state;
	for (uint64_t i = 0; i < 10001; i++)
		assert_int_equal(samples_add(&samples, i * 7919 % 10001), 0);
	assert_int_equal(samples_percentile(&samples, 0), 0);
	assert_int_equal(samples_percentile(&samples, 0.5), 5000);
	assert_int_equal(samples_percentile(&samples, 0.99), 9900);
	assert_int_equal(samples_percentile(&samples, 1), 10000);
	assert_int_equal(samples_mean(&samples), 5000);
	samples_release(&samples);
}

static void one_value_is_every_percentile(void **state)
{
	struct samples samples = {0};

	(void)state;
	samples_add(&samples, 42);
	assert_int_equal(samples_percentile(&samples, 0), 42);
	assert_int_equal(samples_percentile(&samples, 0.99), 42);
	assert_int_equal(samples_mean(&samples), 42);
	samples_release(&samples);
}

static void merging_leaves_the_other_set_as_it_was(void **state)
{
	struct samples into = {0}, from = {0}, empty = {0};

	(void)state;
	samples_add(&into, 1);
	samples_add(&from, 3);
	samples_add(&from, 2);
	assert_int_equal(samples_merge(&into, &from), 0);
	assert_int_equal(samples_merge(&into, &empty), 0);
	assert_int_equal(into.count, 3);
	assert_int_equal(from.count, 2);
	assert_int_equal(samples_percentile(&into, 0.5), 2);
	samples_release(&into);
	samples_release(&from);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_set_has_zeros),
		cmocka_unit_test(percentiles_are_those_of_the_sorted_values),
		cmocka_unit_test(one_value_is_every_percentile),
		cmocka_unit_test(merging_leaves_the_other_set_as_it_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
