/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/internal.h"
#include "tests/cache/fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/lib/clock.h"
#include "tools/lib/fault.h"

static struct fixture f;

static int prepare_disk(void **state)
{
	(void)state;
	fixture_prepare(&f, true);
	return 0;
}

static int prepare_memory(void **state)
{
	(void)state;
	fixture_prepare(&f, false);
	return 0;
}

static int close_it(void **state)
{
	(void)state;
	fixture_close(&f);
	return 0;
}

/* Runs `work` on the cache in a process that is killed when it is done. */
static void in_killed_process(void (*work)(void))
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child) {
		fixture_start(&f);
		work();
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* A reboot: the tmpfs is gone. */
static void lose_memory(void)
{
	fixture_remove(f.memory_dir);
	assert_int_equal(mkdir(f.memory_dir, 0700), 0);
}

static void reboot(void)
{
	cache_close(f.cache, true);
	f.cache = NULL;
	lose_memory();
	fixture_start(&f);
}

static struct cache_stats stats(void)
{
	struct cache_stats ret;

	cache_get_stats(f.cache, &ret);
	return ret;
}

/* ---- tests ---- */

static void put_some(void)
{
	fixture_mkdir(&f, "d");
	fixture_put(&f, "d/a", 1, 100000);
	fixture_put(&f, "d/b", 2, 200000);
	fixture_put(&f, "d/b", 3, 200000);
	fixture_put(&f, "c.tmp", 4, 5000);
	fixture_rename(&f, "c.tmp", "c", 0);
	fixture_put(&f, "gone", 5, 5000);
	fixture_unlink(&f, "gone");
}

static void assert_some(void)
{
	assert_int_equal(fixture_get(&f, "d/a", 1, 100000), 0);
	assert_int_equal(fixture_get(&f, "d/b", 3, 200000), 0);
	assert_int_equal(fixture_get(&f, "c", 4, 5000), 0);
	assert_int_equal(fixture_get(&f, "c.tmp", 4, 5000), CACHE_MISS);
	assert_int_equal(fixture_get(&f, "gone", 5, 5000), CACHE_MISS);
}

static void memory_outlives_a_clean_stop(void **state)
{
	(void)state;
	fixture_start(&f);
	put_some();
	fixture_reopen(&f, true);
	assert_some();
}

static void memory_outlives_kill_9(void **state)
{
	(void)state;
	in_killed_process(put_some);
	fixture_start(&f);
	assert_some();
	fixture_reopen(&f, true);
	assert_some();
}

static void a_reboot_finds_what_is_on_disk(void **state)
{
	(void)state;
	fixture_start(&f);
	put_some();
	assert_int_equal(cache_sync(f.cache), 0);
	reboot();
	assert_some();
	assert_int_equal(stats().lost_pages, 0);
}

static void put_and_fail(void)
{
	fixture_put(&f, "safe", 1, 1000);
	cache_sync(f.cache);
	fault_arm("io.write", FAULT_EVERY, EIO);
	fixture_put(&f, "unsafe", 2, 1000);
	fixture_put(&f, "empty", 3, 0);
}

static void a_reboot_loses_what_was_in_memory_alone(void **state)
{
	(void)state;
	in_killed_process(put_and_fail);
	lose_memory();
	fixture_start(&f);
	assert_int_equal(fixture_get(&f, "safe", 1, 1000), 0);
	assert_int_equal(fixture_get(&f, "unsafe", 2, 1000), CACHE_MISS);
	assert_int_equal(fixture_get(&f, "empty", 3, 0), 0);
	assert_int_equal(stats().lost_pages, 1);
	assert_int_equal(cache_sync(f.cache), 0);
	assert_int_equal(stats().pending_pages, 0);
}

static void without_a_disk_a_fresh_arena_starts_empty(void **state)
{
	struct cache_space space;

	(void)state;
	fixture_start(&f);
	put_some();
	reboot();
	assert_int_equal(fixture_get(&f, "c", 4, 5000), CACHE_MISS);
	cache_get_space(f.cache, &space);
	assert_int_equal(space.pages, 0);
	assert_int_equal(space.free_bytes, space.total_bytes);
}

static void hold_open_and_unlink(void)
{
	struct cache_name name;
	struct cache_creator creator = fixture_creator();
	struct cache_writer *writer;
	uint64_t offset = 0;

	fixture_put(&f, "p", 1, 3u << 20);
	cache_sync(f.cache);
	name = fixture_name(&f, "p");
	/* The writer holds the version below. */
	assert_int_equal(
		cache_stage_open(f.cache, &name, 0, &creator, 7, &writer), 0);
	assert_int_equal(cache_stage_write(writer, "x", 1, &offset), 1);
	assert_int_equal(cache_stage_sync(writer), 0);
	fixture_unlink(&f, "p");
	fixture_put(&f, "q", 2, 1000);
	cache_sync(f.cache);
}

static void what_was_unlinked_while_open_is_swept(void **state)
{
	struct buckets_stats disk;

	(void)state;
	in_killed_process(hold_open_and_unlink);
	fixture_start(&f);
	assert_int_equal(fixture_get(&f, "q", 2, 1000), 0);
	buckets_get_stats(cache_buckets(f.cache), &disk);
	assert_int_equal(disk.live_bytes, 4096);
}

static void a_missing_bucket_makes_misses(void **state)
{
	char command[256];

	(void)state;
	fixture_start(&f);
	put_some();
	assert_int_equal(cache_sync(f.cache), 0);
	cache_close(f.cache, false);
	f.cache = NULL;
	lose_memory();
	snprintf(command, sizeof(command), "rm %s/buckets/*", f.disk_dir);
	assert_int_equal(system(command), 0);
	fixture_start(&f);
	assert_int_equal(fixture_get(&f, "d/a", 1, 100000), CACHE_MISS);
	assert_int_equal(stats().lost_pages, 3);
	fixture_put(&f, "d/a", 9, 1000);
	assert_int_equal(cache_sync(f.cache), 0);
	assert_int_equal(fixture_get(&f, "d/a", 9, 1000), 0);
}

static void versions_go_on_where_they_stopped(void **state)
{
	struct cache_found before, after;

	(void)state;
	fixture_start(&f);
	fixture_put(&f, "a", 1, 10);
	assert_int_equal(fixture_lookup(&f, "a", &before), 0);
	fixture_reopen(&f, true);
	fixture_put(&f, "b", 1, 10);
	assert_int_equal(fixture_lookup(&f, "b", &after), 0);
	assert_true(after.entry.version.clock > before.entry.version.clock);
	assert_int_equal(after.entry.version.node, before.entry.version.node);
}

#define with(test) cmocka_unit_test_setup_teardown(test, prepare_disk, close_it)
#define without(test)                                                          \
	cmocka_unit_test_setup_teardown(test, prepare_memory, close_it)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with(memory_outlives_a_clean_stop),
		without(memory_outlives_a_clean_stop),
		with(memory_outlives_kill_9),
		without(memory_outlives_kill_9),
		with(a_reboot_finds_what_is_on_disk),
		with(a_reboot_loses_what_was_in_memory_alone),
		without(without_a_disk_a_fresh_arena_starts_empty),
		with(what_was_unlinked_while_open_is_swept),
		with(a_missing_bucket_makes_misses),
		with(versions_go_on_where_they_stopped),
		without(versions_go_on_where_they_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
