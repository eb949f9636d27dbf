/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/internal.h"
#include "tests/cache/fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/negative.h"
#include "cache/staging.h"
#include "tools/lib/clock.h"
#include "tools/lib/fault.h"

/*
 * A batch whose records are in a bucket, while the index does not know: it was
 * killed there, or its transaction failed.  What happens to the names then must
 * not be undone by a rebuild.
 */

#define LEN 30000

static struct fixture f;

static int prepare(void **state)
{
	(void)state;
	fixture_prepare(&f, true);
	f.config.writeback_max_ms = 4;
	return 0;
}

static int close_it(void **state)
{
	(void)state;
	fault_disarm_all();
	fixture_close(&f);
	return 0;
}

/* From here on records are written, and their transactions fail. */
static void cut_batches(void)
{
	fault_arm("cache.batch_finish", FAULT_EVERY, EIO);
}

static void write_records(void)
{
	assert_int_equal(cache_sync(f.cache), -EIO);
	assert_true(fault_hits("cache.batch_finish") > 0);
}

static void lose_index(void)
{
	char index[128];

	fault_disarm_all();
	assert_int_equal(cache_sync(f.cache), 0);
	cache_close(f.cache, false);
	f.cache = NULL;
	fixture_remove(f.memory_dir);
	assert_int_equal(mkdir(f.memory_dir, 0700), 0);
	snprintf(index, sizeof(index), "%s/index", f.disk_dir);
	fixture_remove(index);
	fixture_start(&f);
}

/* What a child does to the cache before it ends as kill -9 ends it: without a
 * word. */
static void in_killed_child(void (*work)(void))
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		fixture_start(&f);
		cut_batches();
		work();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	fixture_start(&f);
}

static void put_and_write(void)
{
	fixture_put(&f, "p", 1, LEN);
	write_records();
}

static void put_write_and_delete(void)
{
	put_and_write();
	assert_int_equal(fixture_unlink(&f, "p"), 0);
}

static void put_write_and_rename(void)
{
	put_and_write();
	assert_int_equal(fixture_rename(&f, "p", "q", 0), 0);
}

/* ---- tests ---- */

static void a_page_deleted_after_a_cut_batch_stays_deleted(void **state)
{
	(void)state;
	fixture_start(&f);
	cut_batches();
	put_write_and_delete();
	lose_index();
	assert_int_equal(fixture_get(&f, "p", 1, LEN), CACHE_MISS);
}

static void a_page_renamed_after_a_cut_batch_has_one_name(void **state)
{
	(void)state;
	fixture_start(&f);
	cut_batches();
	put_write_and_rename();
	lose_index();
	assert_int_equal(fixture_get(&f, "p", 1, LEN), CACHE_MISS);
	assert_int_equal(fixture_get(&f, "q", 1, LEN), 0);
}

static void a_page_deleted_before_the_kill_stays_deleted(void **state)
{
	(void)state;
	in_killed_child(put_write_and_delete);
	assert_int_equal(fixture_get(&f, "p", 1, LEN), CACHE_MISS);
	lose_index();
	assert_int_equal(fixture_get(&f, "p", 1, LEN), CACHE_MISS);
}

static void a_page_deleted_after_the_kill_stays_deleted(void **state)
{
	(void)state;
	in_killed_child(put_and_write);
	fault_arm("io.write", FAULT_EVERY, EIO);
	assert_int_equal(fixture_get(&f, "p", 1, LEN), 0);
	assert_int_equal(fixture_unlink(&f, "p"), 0);
	lose_index();
	assert_int_equal(fixture_get(&f, "p", 1, LEN), CACHE_MISS);
}

static void a_page_renamed_before_the_kill_has_one_name(void **state)
{
	(void)state;
	in_killed_child(put_write_and_rename);
	assert_int_equal(fixture_get(&f, "q", 1, LEN), 0);
	lose_index();
	assert_int_equal(fixture_get(&f, "p", 1, LEN), CACHE_MISS);
	assert_int_equal(fixture_get(&f, "q", 1, LEN), 0);
}

/* What replaces the page has a name that is known by then. */
static void what_took_its_name_can_be_deleted(void **state)
{
	(void)state;
	fixture_start(&f);
	cut_batches();
	put_and_write();
	fixture_put(&f, "q", 2, LEN);
	assert_int_equal(fixture_rename(&f, "q", "p", 0), 0);
	assert_int_equal(fixture_unlink(&f, "p"), 0);
	lose_index();
	assert_int_equal(fixture_get(&f, "p", 1, LEN), CACHE_MISS);
	assert_int_equal(fixture_get(&f, "p", 2, LEN), CACHE_MISS);
}

static void a_directory_moved_twice_in_the_journal_is_moved_once(void **state)
{
	(void)state;
	fixture_start(&f);
	fixture_mkdir(&f, "a");
	fixture_put(&f, "a/x", 1, LEN);
	assert_int_equal(cache_sync(f.cache), 0);
	cut_batches();
	assert_int_equal(fixture_rename(&f, "a", "b", 0), 0);
	write_records();
	lose_index();
	assert_int_equal(fixture_get(&f, "b/x", 1, LEN), 0);
}

/* The bytes of a batch that is written again are not live twice. */
static void a_cut_batch_leaves_dead_bytes(void **state)
{
	struct buckets_stats buckets;

	(void)state;
	in_killed_child(put_and_write);
	assert_int_equal(cache_sync(f.cache), 0);
	buckets_get_stats(cache_buckets(f.cache), &buckets);
	assert_int_equal(buckets.live_bytes, round_up_block(LEN));
	assert_true(buckets.file_bytes > 2 * buckets.live_bytes);
	lose_index();
	assert_int_equal(fixture_get(&f, "p", 1, LEN), 0);
	buckets_get_stats(cache_buckets(f.cache), &buckets);
	assert_int_equal(buckets.live_bytes, round_up_block(LEN));
}

/* A pending page's second name replaces one that the negative cache hid. */
static void a_hidden_name_that_was_replaced_stays_away(void **state)
{
	struct cache_name p, q;
	struct cache_found found;

	(void)state;
	fixture_start(&f);
	fixture_put(&f, "p", 1, LEN);
	assert_int_equal(cache_sync(f.cache), 0);
	fault_arm("io.write", FAULT_EVERY, EIO);
	fixture_put(&f, "q", 2, LEN);
	p = fixture_name(&f, "p");
	q = fixture_name(&f, "q");
	negative_insert(cache_negative(f.cache),
			negative_key(p.dir, p.name, p.len),
			clock_monotonic_ns(), false);
	assert_int_equal(cache_link(f.cache, &q, &p, &found), 0);
	assert_int_equal(fixture_unlink(&f, "p"), 0);
	lose_index();
	assert_int_equal(fixture_get(&f, "p", 1, LEN), CACHE_MISS);
	assert_int_equal(fixture_get(&f, "q", 2, LEN), 0);
}

static void grow(const char *key, uint64_t len)
{
	struct cache_name name = fixture_name(&f, key);
	struct cache_creator creator = fixture_creator();
	struct cache_writer *writer;
	bool committed;

	assert_int_equal(
		cache_stage_open(f.cache, &name, 0, &creator, 7, &writer), 0);
	assert_int_equal(
		cache_stage_truncate(cache_writer_staging(writer), len), 0);
	cache_stage_close(writer, &committed);
	assert_true(committed);
}

/* All chunks of the new version are the old one's, on disk or on their way. */
static void a_page_without_new_chunks_can_be_renamed(void **state)
{
	struct cache_found found;

	(void)state;
	fixture_start(&f);
	fixture_put(&f, "p", 1, LEN);
	assert_int_equal(cache_sync(f.cache), 0);
	grow("p", 3 * LEN);
	fault_arm("io.write", FAULT_EVERY, EIO);
	fixture_put(&f, "q", 2, LEN);
	grow("q", 3 * LEN);
	fault_disarm_all();
	assert_int_equal(cache_sync(f.cache), 0);
	assert_int_equal(fixture_rename(&f, "p", "r", 0), 0);
	assert_int_equal(fixture_rename(&f, "q", "s", 0), 0);
	lose_index();
	assert_int_equal(fixture_lookup(&f, "r", &found), 0);
	assert_int_equal(found.entry.size_bytes, 3 * LEN);
	assert_int_equal(fixture_lookup(&f, "s", &found), 0);
	assert_int_equal(found.entry.size_bytes, 3 * LEN);
	assert_int_equal(fixture_lookup(&f, "p", &found), CACHE_MISS);
	assert_int_equal(fixture_lookup(&f, "q", &found), CACHE_MISS);
}

#define with(test) cmocka_unit_test_setup_teardown(test, prepare, close_it)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with(a_page_deleted_after_a_cut_batch_stays_deleted),
		with(a_page_renamed_after_a_cut_batch_has_one_name),
		with(a_page_deleted_before_the_kill_stays_deleted),
		with(a_page_deleted_after_the_kill_stays_deleted),
		with(a_page_renamed_before_the_kill_has_one_name),
		with(what_took_its_name_can_be_deleted),
		with(a_directory_moved_twice_in_the_journal_is_moved_once),
		with(a_cut_batch_leaves_dead_bytes),
		with(a_hidden_name_that_was_replaced_stays_away),
		with(a_page_without_new_chunks_can_be_renamed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
