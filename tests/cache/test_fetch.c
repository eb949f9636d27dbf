/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cache/scene.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/fetch.h"
#include "tools/lib/clock.h"
#include "tools/lib/fault.h"

#define MIB (1u << 20)

static const unsigned engines[] = {SCENE_DISK, SCENE_DISK | SCENE_THREADS};

static struct cache_stats stats_of(struct scene *scene)
{
	struct cache_stats stats;

	cache_get_stats(scene->cache, &stats);
	return stats;
}

static uint64_t reads_of(struct scene *scene)
{
	struct io_stats stats;

	io_get_stats(scene->cache->io, &stats);
	return stats.reads;
}

static void the_states_of_a_fetch_follow_its_table(void **state)
{
	const enum fetch_state allowed[][2] = {
		{FETCH_STARTING, FETCH_READING}, {FETCH_STARTING, FETCH_HUNGRY},
		{FETCH_STARTING, FETCH_ENDED},	 {FETCH_HUNGRY, FETCH_READING},
		{FETCH_HUNGRY, FETCH_ENDED},	 {FETCH_READING, FETCH_LOADED},
		{FETCH_READING, FETCH_ENDED},	 {FETCH_LOADED, FETCH_ENDED},
	};

	(void)state;
	for (unsigned from = 0; from < FETCH_STATES; from++) {
		for (unsigned to = 0; to < FETCH_STATES; to++) {
			bool may = false;

			for (size_t i = 0;
			     i < sizeof(allowed) / sizeof(allowed[0]); i++)
				may = may || (allowed[i][0] == from &&
					      allowed[i][1] == to);
			assert_int_equal(may, fetch_may_move(from, to));
		}
		assert_non_null(fetch_state_name(from));
	}
}

/* ---- sharing ---- */

struct crowd {
	struct scene *scene;
	pthread_barrier_t *barrier;
	int wrong;
};

static void *one_of_the_crowd(void *arg)
{
	struct crowd *one = arg;

	pthread_barrier_wait(one->barrier);
	one->wrong = scene_check(one->scene, "k", MIB);
	return NULL;
}

static void a_hundred_readers_of_a_cold_page_cause_one_read(void **state)
{
	enum {
		READERS = 100
	};

	(void)state;
	for (int e = 0; e < 2; e++) {
		struct crowd crowd[READERS];
		pthread_t threads[READERS];
		pthread_barrier_t barrier;
		struct scene scene;
		uint64_t before;

		scene_init(&scene, 32 * MIB, engines[e]);
		scene_put(&scene, "k", MIB, SCENE_ON_DISK);
		before = reads_of(&scene);
		pthread_barrier_init(&barrier, NULL, READERS);
		for (int i = 0; i < READERS; i++) {
			crowd[i] = (struct crowd){&scene, &barrier, -1};
			assert_int_equal(0, pthread_create(&threads[i], NULL,
							   one_of_the_crowd,
							   &crowd[i]));
		}
		for (int i = 0; i < READERS; i++) {
			pthread_join(threads[i], NULL);
			assert_int_equal(0, crowd[i].wrong);
		}
		pthread_barrier_destroy(&barrier);
		assert_int_equal(1, reads_of(&scene) - before);
		scene_release(&scene);
	}
}

/* Two versions of an object that share a chunk, or a page and a writer. */
static void whoever_wants_a_chunk_shares_its_fetch(void **state)
{
	struct scene scene;
	struct meta_entry entry;
	struct slot_class class;
	struct cache_slot slot;
	struct cache_page *page;

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	entry = scene_put(&scene, "k", MIB, SCENE_ON_DISK);
	class = cache_class(scene.cache, MIB, &entry);
	assert_int_equal(
		0, cache_chunk_fetch_wait(scene.cache, &class, entry.object, 0,
					  entry.version.clock,
					  clock_deadline_ns(MIB), &slot));
	assert_int_equal(0, scene_page(&scene, "k", &page));
	assert_int_equal(1, stats_of(&scene).fetches);
	arena_unpin(scene.cache->arena, slot.slot);
	cache_page_close(page);
	assert_int_equal(CACHE_HOLE, cache_chunk_fetch_wait(
					     scene.cache, &class, entry.object,
					     7, entry.version.clock,
					     clock_deadline_ns(MIB), &slot));
	scene_release(&scene);
}

/* ---- a disk that is slow ---- */

static uint64_t quarantined(struct scene *scene)
{
	struct arena_stats stats;

	arena_get_stats(scene->cache->arena, &stats);
	return stats.quarantined_bytes;
}

static void a_late_read_is_answered_and_its_slot_kept_from_others(void **state)
{
	(void)state;
	for (int e = 0; e < 2; e++) {
		struct scene scene;
		struct cache_page *page;
		uint64_t start_ns, took_ns;
		char name[16];

		scene_init(&scene, 32 * MIB, engines[e]);
		scene_put(&scene, "late", MIB, SCENE_ON_DISK);
		fault_arm("io.read.late", 1, 3500);
		start_ns = clock_monotonic_ns();
		assert_int_equal(CACHE_FAILED,
				 scene_page(&scene, "late", &page));
		took_ns = clock_monotonic_ns() - start_ns;
		assert_true(took_ns > 2 * CLOCK_NS_PER_SECOND);
		assert_true(took_ns < 3 * CLOCK_NS_PER_SECOND);
		assert_int_equal(CACHE_HIDDEN,
				 scene_page(&scene, "late", &page));
		assert_int_equal(MIB, quarantined(&scene));
		/* Every other slot is wanted meanwhile, and that one too. */
		for (int i = 0; i < 40; i++) {
			snprintf(name, sizeof(name), "%d", i);
			scene_put(&scene, name, MIB, 3);
		}
		assert_int_equal(MIB, quarantined(&scene));
		for (int i = 0; i < 3000 && quarantined(&scene); i++)
			usleep(1000);
		assert_int_equal(0, quarantined(&scene));
		for (int i = 0; i < 40; i++) {
			snprintf(name, sizeof(name), "%d", i);
			assert_int_equal(0, scene_check(&scene, name, MIB));
		}
		fault_disarm_all();
		assert_int_equal(1, stats_of(&scene).timeouts);
		assert_int_equal(0, scene_check(&scene, "late", MIB));
		scene_release(&scene);
	}
}

struct failing {
	struct scene *scene;
	char name[16];
	int outcome;
};

static void *open_and_fail(void *arg)
{
	struct failing *failing = arg;
	struct cache_page *page;

	failing->outcome = scene_page(failing->scene, failing->name, &page);
	return NULL;
}

static void *one_check(void *arg)
{
	struct failing *failing = arg;

	failing->outcome = scene_check(failing->scene, failing->name, MIB);
	return NULL;
}

static void a_disk_with_too_much_in_quarantine_is_not_asked(void **state)
{
	enum {
		COUNT = 4
	};
	struct failing failing[COUNT];
	pthread_t threads[COUNT];
	struct cache_page *page;
	struct scene scene;
	uint64_t start_ns;

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	scene_put(&scene, "next", MIB, SCENE_ON_DISK);
	for (int i = 0; i < COUNT; i++) {
		failing[i].scene = &scene;
		snprintf(failing[i].name, sizeof(failing[i].name), "%d", i);
		scene_put(&scene, failing[i].name, MIB, SCENE_ON_DISK);
	}
	fault_arm("io.read.late", FAULT_EVERY, 4000);
	for (int i = 0; i < COUNT; i++)
		pthread_create(&threads[i], NULL, open_and_fail, &failing[i]);
	for (int i = 0; i < COUNT; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(CACHE_FAILED, failing[i].outcome);
	}
	fault_disarm_all();
	start_ns = clock_monotonic_ns();
	assert_int_equal(CACHE_FAILED, scene_page(&scene, "next", &page));
	assert_true(clock_monotonic_ns() - start_ns < CLOCK_NS_PER_SECOND);
	assert_int_equal(1, stats_of(&scene).refused_reads);
	assert_int_equal(COUNT, stats_of(&scene).timeouts);
	for (int i = 0; i < 4000 && quarantined(&scene); i++)
		usleep(1000);
	usleep(1100000); /* the negative cache */
	assert_int_equal(0, scene_check(&scene, "next", MIB));
	scene_release(&scene);
}

/* ---- a disk that fails, buckets that are damaged ---- */

static void
eio_is_a_failed_get_that_is_over_with_the_negative_cache(void **state)
{
	(void)state;
	for (int e = 0; e < 2; e++) {
		struct scene scene;
		struct cache_page *page;

		scene_init(&scene, 32 * MIB, engines[e]);
		scene_put(&scene, "k", MIB, SCENE_ON_DISK);
		fault_arm("io.read", 1, EIO);
		assert_int_equal(CACHE_FAILED, scene_page(&scene, "k", &page));
		assert_true(scene.changed > 0);
		assert_int_equal(CACHE_HIDDEN, scene_page(&scene, "k", &page));
		fault_disarm_all();
		usleep(1100000);
		assert_int_equal(0, scene_check(&scene, "k", MIB));
		assert_int_equal(1, stats_of(&scene).failures);
		scene_release(&scene);
	}
}

static void
without_a_negative_cache_a_failed_get_is_said_each_time(void **state)
{
	struct scene scene;
	struct cache_page *page;

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	negative_configure(scene.cache->negative, 0, 0);
	scene_put(&scene, "k", MIB, SCENE_ON_DISK);
	fault_arm("io.read", FAULT_EVERY, EIO);
	assert_int_equal(CACHE_FAILED, scene_page(&scene, "k", &page));
	assert_int_equal(CACHE_FAILED, scene_page(&scene, "k", &page));
	fault_disarm_all();
	assert_int_equal(0, scene_check(&scene, "k", MIB));
	scene_release(&scene);
}

/* Waits until the name is gone although nothing hides it. */
static void wait_until_lost(struct scene *scene, uint64_t count)
{
	for (int i = 0; i < 5000; i++) {
		if (stats_of(scene).lost_pages >= count)
			return;
		usleep(1000);
	}
	fail_msg("the page was not dropped");
}

static void damage(struct scene *scene, void (*how)(const char *path))
{
	char path[256];

	scene_bucket_path(scene, path);
	how(path);
}

static void flip_bytes(const char *path)
{
	int fd = open(path, O_RDWR);
	char byte;

	assert_true(fd >= 0);
	for (off_t at = 40000; at < 1000000; at += 130000) {
		assert_int_equal(1, pread(fd, &byte, 1, at));
		byte ^= 0x10;
		assert_int_equal(1, pwrite(fd, &byte, 1, at));
	}
	close(fd);
}

static void cut_short(const char *path)
{
	assert_int_equal(0, truncate(path, 300000));
}

static void damaged_bytes_are_never_shown(void **state)
{
	static void (*const hows[])(const char *) = {flip_bytes, cut_short};

	(void)state;
	for (size_t how = 0; how < 2; how++) {
		for (int e = 0; e < 2; e++) {
			struct scene scene;
			struct cache_page *page;

			scene_init(&scene, 32 * MIB, engines[e]);
			scene_put(&scene, "k", MIB, SCENE_ON_DISK);
			damage(&scene, hows[how]);
			assert_int_equal(CACHE_FAILED,
					 scene_page(&scene, "k", &page));
			wait_until_lost(&scene, 1);
			assert_int_equal(1, stats_of(&scene).checksum_errors);
			/* Hidden or gone, but not open. */
			assert_true(scene_page(&scene, "k", &page) > 0);
			scene_release(&scene);
		}
	}
}

/* The row of a chunk says a bucket that isn't there. */
static void mislead(struct scene *scene, const struct chunk_id *id)
{
	uint64_t sums[MIB / CHECK_BYTES];
	struct chunk_rows rows;
	struct meta_txn *txn;

	assert_int_equal(0, meta_begin_write(scene->cache->meta, &txn));
	assert_int_equal(0, chunk_rows(scene->cache, txn, id, &rows));
	for (size_t i = 0; i < MIB / CHECK_BYTES; i++)
		sums[i] = meta_checksum(&rows.disk, i);
	rows.disk.checksums = sums;
	rows.disk.bucket = 99;
	assert_int_equal(0, meta_chunk_put(txn, META_DISK, &rows.disk));
	assert_int_equal(0, cache_commit(scene->cache, txn));
}

static void a_missing_bucket_is_a_failed_get(void **state)
{
	struct scene scene;
	struct cache_page *page;
	struct meta_entry entry;
	struct chunk_id id;

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	entry = scene_put(&scene, "k", MIB, SCENE_ON_DISK);
	id = (struct chunk_id){entry.object, 0, entry.version};
	mislead(&scene, &id);
	assert_int_equal(CACHE_FAILED, scene_page(&scene, "k", &page));
	wait_until_lost(&scene, 1);
	scene_release(&scene);
}

static void a_damaged_record_leaves_the_copy_in_memory(void **state)
{
	struct scene scene;
	struct meta_entry entry;
	struct bucket_place place = {0};
	struct chunk_id id;

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	entry = scene_put(&scene, "k", MIB, 3);
	id = (struct chunk_id){entry.object, 0, entry.version};
	place = scene_place(&scene, &id);
	fetches_condemn_place(scene.cache->fetches, &id, &place);
	for (int i = 0; i < 2000 && scene_place(&scene, &id).len_bytes; i++)
		usleep(1000);
	assert_int_equal(0, scene_check(&scene, "k", MIB));
	assert_int_equal(0, stats_of(&scene).lost_pages);
	scene_release(&scene);
}

/* ---- what happens meanwhile ---- */

static void a_page_deleted_while_it_is_fetched_leaves_no_slot(void **state)
{
	(void)state;
	for (int round = 0; round < 20; round++) {
		struct scene scene;
		struct failing failing;
		struct arena_stats stats;
		struct cache_name name = scene_name("k");
		pthread_t thread;

		scene_init(&scene, 32 * MIB, SCENE_DISK);
		scene_put(&scene, "k", MIB, SCENE_ON_DISK);
		failing.scene = &scene;
		strcpy(failing.name, "k");
		pthread_create(&thread, NULL, one_check, &failing);
		usleep((unsigned)round * 150);
		cache_unlink(scene.cache, &name);
		pthread_join(thread, NULL);
		assert_true(failing.outcome == 0 ||
			    failing.outcome == CACHE_MISS ||
			    failing.outcome == CACHE_STALE);
		for (int i = 0; i < 2000; i++) {
			arena_get_stats(scene.cache->arena, &stats);
			if (!stats.live_slots)
				break;
			usleep(1000);
		}
		assert_int_equal(0, stats.live_slots);
		scene_release(&scene);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_states_of_a_fetch_follow_its_table),
		cmocka_unit_test(
			a_hundred_readers_of_a_cold_page_cause_one_read),
		cmocka_unit_test(whoever_wants_a_chunk_shares_its_fetch),
		cmocka_unit_test(
			a_late_read_is_answered_and_its_slot_kept_from_others),
		cmocka_unit_test(
			a_disk_with_too_much_in_quarantine_is_not_asked),
		cmocka_unit_test(
			eio_is_a_failed_get_that_is_over_with_the_negative_cache),
		cmocka_unit_test(
			without_a_negative_cache_a_failed_get_is_said_each_time),
		cmocka_unit_test(damaged_bytes_are_never_shown),
		cmocka_unit_test(a_missing_bucket_is_a_failed_get),
		cmocka_unit_test(a_damaged_record_leaves_the_copy_in_memory),
		cmocka_unit_test(
			a_page_deleted_while_it_is_fetched_leaves_no_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
