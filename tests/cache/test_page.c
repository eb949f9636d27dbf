/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cache/scene.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/reads.h"
#include "tools/lib/clock.h"

#define MIB (1u << 20)
#define GIB (1ull << 30)

static struct cache_stats stats_of(struct scene *scene)
{
	struct cache_stats stats;

	cache_get_stats(scene->cache, &stats);
	return stats;
}

/* ---- opening ---- */

static void a_page_in_memory_is_open_at_once(void **state)
{
	struct scene scene;
	struct cache_page *page;

	(void)state;
	scene_init(&scene, 64 * MIB, SCENE_DISK);
	scene_put(&scene, "k", 3 * MIB + 17, SCENE_IN_MEMORY);
	assert_int_equal(0, scene_page(&scene, "k", &page));
	assert_int_equal(0, scene_check_page(page, "k", 300000));
	assert_int_equal(1, stats_of(&scene).hits_memory);
	assert_int_equal(1, stats_of(&scene).open_pages);
	cache_page_close(page);
	assert_int_equal(0, stats_of(&scene).open_pages);
	scene_release(&scene);
}

static void a_page_on_disk_is_complete_when_it_is_open(void **state)
{
	const unsigned engines[] = {0, SCENE_THREADS};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct scene scene;

		scene_init(&scene, 64 * MIB, SCENE_DISK | engines[i]);
		scene_put(&scene, "k", 2 * MIB - 17, SCENE_ON_DISK);
		assert_int_equal(0, scene_check(&scene, "k", MIB));
		assert_int_equal(1, stats_of(&scene).hits_disk);
		assert_int_equal(0, scene_check(&scene, "k", MIB));
		assert_int_equal(1, stats_of(&scene).hits_memory);
		assert_int_equal(1, stats_of(&scene).fetches);
		scene_release(&scene);
	}
}

static void pages_of_all_sizes_come_from_either_tier(void **state)
{
	const uint64_t sizes[] = {1,	   4095,	4096,	 4097,
				  65536,   262143,	262145,	 MIB,
				  2 * MIB, 2 * MIB + 1, 5 * MIB, 9 * MIB + 5};
	const size_t count = sizeof(sizes) / sizeof(sizes[0]);
	struct scene scene;
	char name[32];

	(void)state;
	scene_init(&scene, 64 * MIB, SCENE_DISK);
	for (size_t i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "%zu", i);
		scene_put(&scene, name, sizes[i], 1 + (unsigned)i % 3);
	}
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < count; i++) {
			snprintf(name, sizeof(name), "%zu", i);
			assert_int_equal(0, scene_check(&scene, name, 200001));
		}
	}
	scene_release(&scene);
}

static void an_empty_page_opens_and_reads_nothing(void **state)
{
	struct scene scene;
	struct cache_page *page;
	char byte;

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	scene_put(&scene, "k", 0, SCENE_IN_MEMORY);
	assert_int_equal(0, scene_page(&scene, "k", &page));
	assert_int_equal(0, scene_read(page, 0, &byte, 1));
	assert_int_equal(-ENXIO, cache_page_seek(page, 0, SEEK_DATA));
	cache_page_close(page);
	assert_int_equal(1, stats_of(&scene).hits_empty);
	scene_release(&scene);
}

static void opens_of_one_version_share_a_page(void **state)
{
	struct scene scene;
	struct cache_page *first, *second;

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	scene_put(&scene, "k", MIB, SCENE_IN_MEMORY);
	assert_int_equal(0, scene_page(&scene, "k", &first));
	assert_int_equal(0, scene_page(&scene, "k", &second));
	assert_ptr_equal(first, second);
	cache_page_close(first);
	assert_int_equal(0, scene_check_page(second, "k", MIB));
	cache_page_close(second);
	scene_release(&scene);
}

struct stale {
	int outcome;
};

static void stale_opened(void *arg, int outcome, struct cache_page *page)
{
	assert_null(page);
	((struct stale *)arg)->outcome = outcome;
}

static void
an_overwritten_version_is_stale_but_its_readers_keep_it(void **state)
{
	struct scene scene;
	struct cache_page *page;
	struct meta_entry old;
	struct cache_name name = scene_name("k");
	struct stale stale = {-1};

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	old = scene_put(&scene, "k", MIB, SCENE_IN_MEMORY);
	assert_int_equal(0, scene_page(&scene, "k", &page));
	scene_put(&scene, "k", MIB / 2, SCENE_IN_MEMORY);
	assert_int_equal(0, scene_check_page(page, "k", MIB));
	cache_page_close(page);
	cache_page_open(scene.cache, &name, &old, stale_opened, &stale);
	assert_int_equal(CACHE_STALE, stale.outcome);
	assert_int_equal(0, scene_check(&scene, "k", MIB));
	scene_release(&scene);
}

static void
an_unlinked_page_stays_readable_and_its_slots_come_back(void **state)
{
	struct scene scene;
	struct cache_page *page;
	struct arena_stats arena;
	struct cache_name name = scene_name("k");

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	scene_put(&scene, "k", MIB, SCENE_IN_MEMORY);
	assert_int_equal(0, scene_page(&scene, "k", &page));
	assert_int_equal(0, cache_unlink(scene.cache, &name));
	assert_int_equal(0, scene_check_page(page, "k", MIB));
	cache_page_close(page);
	for (int i = 0; i < 2000; i++) {
		arena_get_stats(scene.cache->arena, &arena);
		if (!arena.live_slots)
			break;
		usleep(1000);
	}
	assert_int_equal(0, arena.live_slots);
	scene_release(&scene);
}

static void
a_page_whose_rows_are_gone_is_a_miss_and_loses_its_name(void **state)
{
	struct scene scene;
	struct cache_page *page;
	struct meta_entry entry;
	struct meta_txn *txn;
	struct chunk_id id;

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	entry = scene_put(&scene, "k", MIB, SCENE_ON_DISK);
	id = (struct chunk_id){entry.object, 0, entry.version};
	assert_int_equal(0, meta_begin_write(scene.cache->meta, &txn));
	assert_int_equal(0, meta_chunk_del(txn, META_DISK, &id));
	assert_int_equal(0, meta_commit(txn));
	assert_int_equal(CACHE_MISS, scene_page(&scene, "k", &page));
	assert_int_equal(1, stats_of(&scene).misses);
	assert_int_equal(1, stats_of(&scene).lost_pages);
	assert_true(scene.changed > 0);
	assert_int_equal(CACHE_MISS, scene_page(&scene, "k", &page));
	assert_int_equal(1, stats_of(&scene).misses);
	scene_release(&scene);
}

static void nothing_opens_while_stopping(void **state)
{
	struct scene scene;
	struct cache_page *page;

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	scene_put(&scene, "k", MIB, SCENE_IN_MEMORY);
	cache_shutdown_begin(scene.cache);
	assert_int_equal(CACHE_BUSY, scene_page(&scene, "k", &page));
	scene_release(&scene);
}

/* ---- sparse and large pages ---- */

static void check_parts(struct cache_page *page, unsigned shift, unsigned every)
{
	const uint64_t size = cache_page_entry(page)->size_bytes;
	const uint64_t chunk = 1ull << shift;
	char *got = malloc(MIB), *want = malloc(MIB);
	uint64_t offset = 12345;

	for (int i = 0; i < 300; i++) {
		size_t len = 1 + (size_t)(offset * 31 % (MIB - 1));
		size_t there = len < size - offset ? len : size - offset;

		assert_int_equal(there, scene_read(page, offset, got, len));
		for (size_t at = 0; at < there;) {
			uint64_t index = (offset + at) / chunk;
			uint64_t end = (index + 1) * chunk - offset;
			size_t n = (end < there ? end : there) - at;

			memset(want + at, 0, n);
			if (index % every == 0)
				scene_bytes("s", offset + at, want + at, n);
			at += n;
		}
		assert_memory_equal(want, got, there);
		offset = (offset * 6364136223846793005ull +
			  1442695040888963407ull) %
			 size;
	}
	free(got);
	free(want);
}

static void a_sparse_page_of_a_gib_is_read_in_parts(void **state)
{
	const unsigned wheres[] = {SCENE_IN_MEMORY, SCENE_ON_DISK};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct scene scene;
		struct cache_page *page;

		scene_init(&scene, 128 * MIB, SCENE_DISK);
		scene_put_sparse(&scene, "s", GIB + 777, 20, 40, wheres[i]);
		assert_int_equal(0, scene_page(&scene, "s", &page));
		check_parts(page, 20, 40);
		cache_page_close(page);
		scene_release(&scene);
	}
}

static void a_page_larger_than_memory_is_read_on_demand(void **state)
{
	struct scene scene;
	struct cache_page *page;

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	scene_put_sparse(&scene, "s", 100 * MIB + 1, 20, 1, SCENE_ON_DISK);
	assert_int_equal(0, scene_page(&scene, "s", &page));
	assert_int_equal(0, scene_check_page(page, "s", MIB));
	check_parts(page, 20, 1);
	cache_page_close(page);
	scene_release(&scene);
}

static void
a_chunk_that_went_from_an_open_page_does_not_read_as_zeroes(void **state)
{
	struct scene scene;
	struct cache_page *page;
	char byte;

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	scene_put_sparse(&scene, "s", 100 * MIB, 20, 3, SCENE_ON_DISK);
	assert_int_equal(0, scene_page(&scene, "s", &page));
	assert_int_equal(1, scene_read(page, 3 * MIB, &byte, 1));
	/* What bucket eviction does with the last copy. */
	scene_lose(&scene, cache_page_entry(page), 60);
	assert_int_equal(-EIO, scene_read(page, 60 * MIB, &byte, 1));
	cache_page_close(page);
	scene_release(&scene);
}

static void data_and_holes_are_found(void **state)
{
	struct scene scene;
	struct cache_page *page;

	(void)state;
	scene_init(&scene, 64 * MIB, SCENE_DISK);
	scene_put_sparse(&scene, "s", 10 * MIB + 5, 20, 5, SCENE_IN_MEMORY);
	assert_int_equal(0, scene_page(&scene, "s", &page));
	assert_int_equal(0, cache_page_seek(page, 0, SEEK_DATA));
	assert_int_equal(MIB, cache_page_seek(page, 0, SEEK_HOLE));
	assert_int_equal(5 * MIB, cache_page_seek(page, MIB, SEEK_DATA));
	assert_int_equal(MIB + 1, cache_page_seek(page, MIB + 1, SEEK_HOLE));
	assert_int_equal(6 * MIB,
			 cache_page_seek(page, 5 * MIB + 9, SEEK_HOLE));
	assert_int_equal(10 * MIB + 5,
			 cache_page_seek(page, 10 * MIB, SEEK_HOLE));
	assert_int_equal(-ENXIO,
			 cache_page_seek(page, 10 * MIB + 5, SEEK_DATA));
	assert_int_equal(-EINVAL, cache_page_seek(page, 0, SEEK_SET));
	cache_page_close(page);
	scene_release(&scene);
}

/* ---- the budget of pins ---- */

static uint64_t pinned_bytes(struct scene *scene)
{
	struct arena_stats arena;

	arena_get_stats(scene->cache->arena, &arena);
	return arena.pinned_bytes;
}

static uint64_t hits_of(struct scene *scene, const struct meta_entry *entry)
{
	struct cache_facts facts;

	assert_int_equal(0, cache_get_facts(scene->cache, entry, &facts));
	return facts.hits;
}

static void hits_are_the_opens_of_a_page_however_many_at_a_time(void **state)
{
	struct cache_page *pages[3];
	struct meta_entry entry, other;
	struct scene scene;

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	entry = scene_put(&scene, "k", MIB, SCENE_ON_DISK);
	other = scene_put(&scene, "other", MIB, SCENE_ON_DISK);
	assert_int_equal(0, hits_of(&scene, &entry));
	for (int i = 0; i < 3; i++)
		assert_int_equal(0, scene_page(&scene, "k", &pages[i]));
	assert_int_equal(3, hits_of(&scene, &entry));
	for (int i = 0; i < 3; i++)
		cache_page_close(pages[i]);
	assert_int_equal(3, hits_of(&scene, &entry));
	assert_int_equal(0, scene_check(&scene, "k", MIB));
	assert_int_equal(4, hits_of(&scene, &entry));
	assert_int_equal(0, hits_of(&scene, &other));
	scene_release(&scene);
}

static void past_half_of_the_arena_pages_on_disk_are_not_pinned(void **state)
{
	struct scene scene;
	struct cache_page *pages[60];
	char name[16];

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	for (int i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "%d", i);
		scene_put(&scene, name, MIB, SCENE_ON_DISK);
	}
	for (int i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "%d", i);
		assert_int_equal(0, scene_page(&scene, name, &pages[i]));
	}
	assert_true(pinned_bytes(&scene) <= 16 * MIB);
	for (int i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "%d", i);
		assert_int_equal(0, scene_check_page(pages[i], name, MIB));
		cache_page_close(pages[i]);
	}
	scene_release(&scene);
}

static void past_four_fifths_pages_only_in_memory_are_busy(void **state)
{
	struct scene scene;
	struct cache_page *pages[30];
	char name[16];
	int count = 0, outcome = 0;

	(void)state;
	scene_init(&scene, 32 * MIB, 0);
	for (int i = 0; i < 28; i++) {
		snprintf(name, sizeof(name), "%d", i);
		scene_put(&scene, name, MIB, SCENE_IN_MEMORY);
	}
	for (int i = 0; i < 28 && !outcome; i++) {
		snprintf(name, sizeof(name), "%d", i);
		outcome = scene_page(&scene, name, &pages[i]);
		count += !outcome;
	}
	assert_int_equal(CACHE_BUSY, outcome);
	assert_int_equal(1, stats_of(&scene).busy);
	assert_true(count >= 24 && count <= 26);
	for (int i = 0; i < count; i++)
		cache_page_close(pages[i]);
	assert_int_equal(0, scene_check(&scene, name, MIB));
	scene_release(&scene);
}

/* ---- after a crash ---- */

/* Ends without a stop, with pages in memory (and on disk, where `where` says
 * so). */
static void crash_with_pages(struct scene *scene, unsigned where)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		scene_open(scene);
		scene_put(scene, "good", MIB, where);
		scene_put(scene, "bad", MIB, where);
		_exit(0);
	}
	assert_int_equal(child, waitpid(child, &status, 0));
	assert_int_equal(0, status);
}

static void flip_in_memory(struct scene *scene, const char *name)
{
	struct cache_name at = scene_name(name);
	struct cache_found found;
	struct chunk_rows rows;
	struct meta_txn *txn;
	struct chunk_id id;
	char *data;

	assert_int_equal(0, cache_lookup(scene->cache, &at, 0, &found));
	id = (struct chunk_id){found.entry.object, 0, found.entry.version};
	assert_int_equal(0, meta_begin_read(scene->cache->meta, &txn));
	assert_int_equal(0, chunk_rows(scene->cache, txn, &id, &rows));
	assert_true(rows.in_memory);
	assert_true(arena_unverified(scene->cache->arena, rows.memory.slot));
	data = arena_data(scene->cache->arena, rows.memory.slot);
	data[777777] ^= 1;
	meta_abort(txn);
}

static void
after_a_crash_what_is_in_memory_is_checked_at_its_first_open(void **state)
{
	const unsigned wheres[] = {SCENE_IN_MEMORY,
				   SCENE_IN_MEMORY | SCENE_ON_DISK};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct scene scene;
		struct cache_page *page;

		scene_prepare(&scene, 32 * MIB, SCENE_DISK);
		crash_with_pages(&scene, wheres[i]);
		scene_open(&scene);
		flip_in_memory(&scene, "bad");
		assert_int_equal(0, scene_check(&scene, "good", MIB));
		assert_int_equal(1, stats_of(&scene).hits_memory);
		if (wheres[i] & SCENE_ON_DISK) {
			assert_int_equal(0, scene_check(&scene, "bad", MIB));
			assert_int_equal(0, scene_check(&scene, "bad", MIB));
		} else {
			assert_true(scene_page(&scene, "bad", &page) > 0);
		}
		assert_true(stats_of(&scene).checksum_errors >= 1);
		assert_int_equal(0, scene_check(&scene, "good", MIB));
		scene_release(&scene);
	}
}

/* ---- cost ---- */

static void an_open_of_a_page_in_memory_is_cheap(void **state)
{
	enum {
		ROUNDS = 20000
	};
	struct scene scene;
	struct meta_entry entry;
	uint64_t start_ns;
	struct cache_name name = scene_name("k");
	struct cache_page *page = NULL;

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	entry = scene_put(&scene, "k", MIB, SCENE_IN_MEMORY);
	start_ns = clock_monotonic_ns();
	for (int i = 0; i < ROUNDS; i++) {
		cache_page_open(scene.cache, &name, &entry, scene_keep, &page);
		assert_non_null(page);
		cache_page_close(page);
	}
	print_message("open + close: %.0f ns\n",
		      (double)(clock_monotonic_ns() - start_ns) / ROUNDS);
	assert_int_equal(ROUNDS, stats_of(&scene).hits_memory);
	scene_release(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page_in_memory_is_open_at_once),
		cmocka_unit_test(a_page_on_disk_is_complete_when_it_is_open),
		cmocka_unit_test(pages_of_all_sizes_come_from_either_tier),
		cmocka_unit_test(an_empty_page_opens_and_reads_nothing),
		cmocka_unit_test(opens_of_one_version_share_a_page),
		cmocka_unit_test(
			an_overwritten_version_is_stale_but_its_readers_keep_it),
		cmocka_unit_test(
			an_unlinked_page_stays_readable_and_its_slots_come_back),
		cmocka_unit_test(
			a_page_whose_rows_are_gone_is_a_miss_and_loses_its_name),
		cmocka_unit_test(nothing_opens_while_stopping),
		cmocka_unit_test(a_sparse_page_of_a_gib_is_read_in_parts),
		cmocka_unit_test(a_page_larger_than_memory_is_read_on_demand),
		cmocka_unit_test(
			a_chunk_that_went_from_an_open_page_does_not_read_as_zeroes),
		cmocka_unit_test(data_and_holes_are_found),
		cmocka_unit_test(
			past_half_of_the_arena_pages_on_disk_are_not_pinned),
		cmocka_unit_test(
			hits_are_the_opens_of_a_page_however_many_at_a_time),
		cmocka_unit_test(
			past_four_fifths_pages_only_in_memory_are_busy),
		cmocka_unit_test(
			after_a_crash_what_is_in_memory_is_checked_at_its_first_open),
		cmocka_unit_test(an_open_of_a_page_in_memory_is_cheap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
