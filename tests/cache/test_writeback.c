/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/internal.h"
#include "tests/cache/fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/lib/clock.h"
#include "tools/lib/fault.h"

static struct fixture f;

static int open_disk(void **state)
{
	(void)state;
	fixture_open(&f, true);
	return 0;
}

static int close_it(void **state)
{
	(void)state;
	fault_disarm_all();
	fixture_close(&f);
	return 0;
}

static struct cache_stats stats(void)
{
	struct cache_stats ret;

	cache_get_stats(f.cache, &ret);
	return ret;
}

static bool on_disk(const char *key)
{
	struct cache_found found;
	struct cache_facts facts;

	assert_int_equal(fixture_lookup(&f, key, &found), 0);
	assert_int_equal(cache_get_facts(f.cache, &found.entry, &facts), 0);
	assert_int_equal(facts.on_disk,
			 (found.entry.flags & META_ON_DISK) != 0);
	return facts.on_disk;
}

static uint64_t file_bytes(void)
{
	struct buckets_stats ret;

	buckets_get_stats(cache_buckets(f.cache), &ret);
	return ret.file_bytes;
}

/* ---- tests ---- */

static void a_single_small_page_is_on_disk_in_time(void **state)
{
	uint64_t start_ns;

	(void)state;
	fixture_put(&f, "warm", 1, 100);
	assert_int_equal(cache_sync(f.cache), 0);
	fixture_put(&f, "p", 1, 5000);
	start_ns = clock_monotonic_ns();
	while (!on_disk("p") &&
	       clock_monotonic_ns() - start_ns < 2 * CLOCK_NS_PER_SECOND)
		usleep(5000);
	assert_true(on_disk("p"));
	if (!getenv("PAGEFS_TEST_SHORT"))
		assert_true(clock_monotonic_ns() - start_ns <
			    250 * CLOCK_NS_PER_MS);
	/* Counters come to zero with the queue. */
	assert_int_equal(cache_sync(f.cache), 0);
	assert_int_equal(stats().pending_pages, 0);
	assert_int_equal(stats().pending_bytes, 0);
}

static void sync_leaves_nothing_in_the_queue(void **state)
{
	struct arena_stats arena;
	char key[32];

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		snprintf(key, sizeof(key), "p%u", i);
		fixture_put(&f, key, i, 300000 + i);
	}
	assert_int_equal(cache_sync(f.cache), 0);
	for (unsigned i = 0; i < 40; i++) {
		snprintf(key, sizeof(key), "p%u", i);
		assert_true(on_disk(key));
	}
	arena_get_stats(cache_arena(f.cache), &arena);
	assert_int_equal(arena.dirty_bytes, 0);
	assert_int_equal(stats().written_pages, 40);
}

static void a_page_of_many_chunks_is_written(void **state)
{
	(void)state;
	fixture_put(&f, "large", 7, 20u << 20);
	assert_int_equal(cache_sync(f.cache), 0);
	assert_true(on_disk("large"));
	assert_int_equal(fixture_get(&f, "large", 7, 20u << 20), 0);
}

static void a_deleted_page_is_not_written(void **state)
{
	uint64_t before;

	(void)state;
	fixture_put(&f, "first", 1, 100);
	assert_int_equal(cache_sync(f.cache), 0);
	before = file_bytes();
	fault_arm("io.write", FAULT_EVERY, EIO);
	fixture_put(&f, "p", 1, 1u << 20);
	assert_int_equal(fixture_unlink(&f, "p"), 0);
	fault_disarm_all();
	assert_int_equal(cache_sync(f.cache), 0);
	assert_true(file_bytes() - before < 1u << 20);
	assert_int_equal(stats().pending_pages, 0);
}

static void temp_and_rename_make_one_record(void **state)
{
	struct buckets_stats before, after;
	unsigned bytes = 1u << 20; /* one chunk */

	(void)state;
	f.config.writeback_max_ms = 5000;
	fixture_reopen(&f, true);
	fixture_put(&f, "first", 1, 100);
	assert_int_equal(cache_sync(f.cache), 0);
	buckets_get_stats(cache_buckets(f.cache), &before);
	fixture_put(&f, "k.tmp", 2, bytes);
	assert_int_equal(fixture_rename(&f, "k.tmp", "k", 0), 0);
	assert_int_equal(cache_sync(f.cache), 0);
	buckets_get_stats(cache_buckets(f.cache), &after);
	assert_int_equal(after.records_written - before.records_written, 1);
	assert_true(on_disk("k"));
	assert_int_equal(fixture_get(&f, "k", 2, bytes), 0);
}

static void a_failing_disk_keeps_pages_in_memory(void **state)
{
	(void)state;
	fault_arm("io.write", FAULT_EVERY, EIO);
	fixture_put(&f, "p", 1, 100000);
	assert_int_equal(cache_sync(f.cache), -EIO);
	assert_true(stats().disk_alarm);
	assert_true(stats().write_errors > 0);
	assert_false(on_disk("p"));
	assert_int_equal(fixture_get(&f, "p", 1, 100000), 0);
	fault_disarm_all();
	assert_int_equal(cache_sync(f.cache), 0);
	assert_false(stats().disk_alarm);
	assert_true(on_disk("p"));
}

static void what_is_left_at_stop_is_there_at_the_next_start(void **state)
{
	(void)state;
	f.config.stop_timeout_ms = 300;
	fixture_reopen(&f, true);
	fault_arm("io.write", FAULT_EVERY, EIO);
	fixture_put(&f, "p", 1, 100000);
	fixture_reopen(&f, true);
	assert_int_equal(fixture_get(&f, "p", 1, 100000), 0);
	assert_int_equal(stats().pending_pages, 1);
	fault_disarm_all();
	assert_int_equal(cache_sync(f.cache), 0);
	assert_true(on_disk("p"));
	fixture_reopen(&f, false);
	assert_int_equal(fixture_get(&f, "p", 1, 100000), 0);
}

static void links_and_renames_of_a_pending_page_reach_the_disk(void **state)
{
	struct cache_name a, b;
	struct cache_found found;

	(void)state;
	fixture_put(&f, "a", 1, 50000);
	a = fixture_name(&f, "a");
	b = fixture_name(&f, "b");
	assert_int_equal(cache_link(f.cache, &a, &b, &found), 0);
	assert_int_equal(cache_sync(f.cache), 0);
	assert_true(on_disk("a"));
	assert_true(on_disk("b"));
	fixture_put(&f, "b", 2, 60000);
	assert_int_equal(cache_sync(f.cache), 0);
	assert_true(on_disk("b"));
	assert_int_equal(fixture_get(&f, "a", 1, 50000), 0);
	assert_int_equal(fixture_get(&f, "b", 2, 60000), 0);
}

#define with(test) cmocka_unit_test_setup_teardown(test, open_disk, close_it)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with(a_single_small_page_is_on_disk_in_time),
		with(sync_leaves_nothing_in_the_queue),
		with(a_page_of_many_chunks_is_written),
		with(a_deleted_page_is_not_written),
		with(temp_and_rename_make_one_record),
		with(a_failing_disk_keeps_pages_in_memory),
		with(what_is_left_at_stop_is_there_at_the_next_start),
		with(links_and_renames_of_a_pending_page_reach_the_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
