/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/negative.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>

#include "tools/lib/clock.h"

#define S CLOCK_NS_PER_SECOND

static struct negative *negative;

static struct key_id key(uint64_t n)
{
	return negative_key(n, "name", 4);
}

static int make(void **state)
{
	(void)state;
	return negative_new(1 * S, 4, &negative);
}

static int drop(void **state)
{
	(void)state;
	negative_free(negative);
	return 0;
}

static struct negative_stats stats(void)
{
	struct negative_stats ret;

	negative_get_stats(negative, &ret);
	return ret;
}

static void a_key_is_remembered_for_its_ttl(void **state)
{
	(void)state;
	assert_int_equal(negative_left(negative, key(1), 100), 0);
	assert_true(negative_insert(negative, key(1), 100, false));
	assert_int_equal(negative_left(negative, key(1), 100), S);
	assert_int_equal(negative_left(negative, key(1), 99 + S), 1);
	assert_int_equal(negative_left(negative, key(1), 100 + S), 0);
	assert_int_equal(stats().entries, 0);
	assert_int_equal(stats().expired, 1);
	assert_int_equal(stats().hits, 2);
}

static void names_and_directories_make_different_keys(void **state)
{
	struct key_id a = negative_key(1, "ab", 2);
	struct key_id b = negative_key(1, "a", 1);
	struct key_id c = negative_key(2, "ab", 2);

	(void)state;
	assert_true(a.lo != b.lo && a.lo != c.lo && b.lo != c.lo);
}

static void a_success_removes_the_key_at_once(void **state)
{
	(void)state;
	negative_insert(negative, key(1), 0, false);
	assert_true(negative_remove(negative, key(1)));
	assert_false(negative_remove(negative, key(1)));
	assert_int_equal(negative_left(negative, key(1), 0), 0);
}

static void at_the_bound_the_nearest_end_goes_first(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		negative_insert(negative, key(i), i, false);
	/* A new end: key 0 is the farthest now. */
	negative_insert(negative, key(0), 10, false);
	negative_insert(negative, key(4), 11, false);
	assert_int_equal(negative_left(negative, key(1), 12), 0);
	for (uint64_t i = 0; i < 5; i++)
		if (i != 1)
			assert_true(negative_left(negative, key(i), 12));
	assert_int_equal(stats().evicted_early, 1);
	/* What has ended makes room without counting as early. */
	negative_insert(negative, key(5), 5 + S, false);
	assert_int_equal(stats().evicted_early, 1);
	assert_int_equal(stats().expired, 2);
}

static void a_held_key_stays_until_it_is_looked_up(void **state)
{
	(void)state;
	negative_insert(negative, key(0), 0, true);
	for (uint64_t i = 1; i < 10; i++)
		negative_insert(negative, key(i), i, false);
	assert_int_equal(negative_left(negative, key(0), 10), S - 10);
	/* Also past its end. */
	assert_int_equal(negative_left(negative, key(0), S + 5), 1);
	negative_release(negative, key(0));
	assert_int_equal(negative_left(negative, key(0), S + 5), 0);
	/* One that nobody looks up goes in the end. */
	negative_insert(negative, key(0), 0, true);
	assert_int_equal(negative_left(negative, key(0), 4 * S), 0);
}

static void with_all_held_the_cache_is_larger_than_its_bound(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 100; i++)
		assert_true(negative_insert(negative, key(i), 0, true));
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(negative_left(negative, key(i), 0), S);
	assert_int_equal(stats().evicted_early, 0);
}

static void off_means_off(void **state)
{
	struct negative *off;

	(void)state;
	assert_int_equal(negative_new(0, 10, &off), 0);
	assert_false(negative_enabled(off));
	assert_false(negative_insert(off, key(1), 0, true));
	assert_int_equal(negative_left(off, key(1), 0), 0);
	negative_free(off);
	assert_int_equal(negative_new(S, 0, &off), 0);
	assert_false(negative_insert(off, key(1), 0, false));
	negative_free(off);
}

static void no_entry_outlives_a_shorter_ttl(void **state)
{
	uint64_t now_ns = clock_monotonic_ns();

	(void)state;
	negative_insert(negative, key(1), now_ns, false);
	negative_configure(negative, S / 10, 4);
	assert_true(negative_left(negative, key(1), now_ns) < S / 2);
	negative_configure(negative, 100 * S, 4);
	assert_true(negative_left(negative, key(1), now_ns) < S / 2);
	for (uint64_t i = 0; i < 4; i++)
		negative_insert(negative, key(i), now_ns, false);
	negative_configure(negative, S, 2);
	assert_int_equal(stats().entries, 2);
}

static void count_entry(void *arg, struct key_id id, uint64_t left_ns)
{
	(void)id;
	assert_true(left_ns);
	++*(int *)arg;
}

static void batches_do_what_single_calls_do(void **state)
{
	struct key_id keys[3] = {key(1), key(2), key(3)};
	uint64_t left[3];
	int count = 0;

	(void)state;
	negative_insert_batch(negative, keys, 3, 0);
	negative_remove_batch(negative, keys + 1, 1);
	negative_left_batch(negative, keys, 3, S / 2, left);
	assert_int_equal(left[0], S / 2);
	assert_int_equal(left[1], 0);
	assert_int_equal(left[2], S / 2);
	negative_each(negative, 0, count_entry, &count);
	assert_int_equal(count, 2);
	assert_int_equal(negative_clear(negative), 2);
	assert_int_equal(negative_clear(negative), 0);
}

static void many_keys_are_found_again(void **state)
{
	struct negative *large;

	(void)state;
	assert_int_equal(negative_new(S, 65536, &large), 0);
	for (uint64_t i = 0; i < 70000; i++)
		negative_insert(large, key(i), i, false);
	for (uint64_t i = 0; i < 70000; i++)
		assert_int_equal(negative_left(large, key(i), 70000) != 0,
				 i >= 70000 - 65536);
	negative_free(large);
}

static void *hammer(void *arg)
{
	uint64_t seed = (uint64_t)(uintptr_t)arg;

	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t n = (i * 7 + seed * 13) % 64;

		switch ((i + seed) % 5) {
		case 0:
			negative_insert(negative, key(n), i, i % 3 == 0);
			break;
		case 1:
			negative_remove(negative, key(n));
			break;
		case 2:
			negative_release(negative, key(n));
			break;
		case 3:
			if (i % 1000 == 0)
				negative_configure(negative, S, 8 + i % 16);
			break;
		default:
			negative_left(negative, key(n), i);
		}
	}
	return NULL;
}

static void threads_may_do_anything_at_once(void **state)
{
	pthread_t threads[4];

	(void)state;
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, hammer, (void *)i);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	negative_clear(negative);
	assert_int_equal(stats().entries, 0);
}

#define with(test) cmocka_unit_test_setup_teardown(test, make, drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with(a_key_is_remembered_for_its_ttl),
		with(names_and_directories_make_different_keys),
		with(a_success_removes_the_key_at_once),
		with(at_the_bound_the_nearest_end_goes_first),
		with(a_held_key_stays_until_it_is_looked_up),
		with(with_all_held_the_cache_is_larger_than_its_bound),
		with(off_means_off),
		with(no_entry_outlives_a_shorter_ttl),
		with(batches_do_what_single_calls_do),
		with(many_keys_are_found_again),
		with(threads_may_do_anything_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
