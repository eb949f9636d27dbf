/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cache/fixture.h"
#include "tests/cache/scene.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/reads.h"
#include "tools/lib/clock.h"

#define MIB (1u << 20)

static struct cache_stats stats_of(struct scene *scene)
{
	struct cache_stats stats;

	cache_get_stats(scene->cache, &stats);
	return stats;
}

static struct arena_stats arena_of(struct scene *scene)
{
	struct arena_stats stats;

	arena_get_stats(scene->cache->arena, &stats);
	return stats;
}

static const char *name_of(int i, char ret[16])
{
	snprintf(ret, 16, "k%d", i);
	return ret;
}

static void above_the_watermark_the_coldest_go_and_the_level_falls(void **state)
{
	struct scene scene;
	char name[16];

	(void)state;
	scene_prepare(&scene, 64 * MIB, SCENE_DISK);
	scene.config.eviction_high_watermark_ratio = 0.5;
	scene.config.eviction_ratio = 0.25;
	scene_open(&scene);
	for (int i = 0; i < 60; i++)
		scene_put(&scene, name_of(i, name), MIB, 3);
	for (int i = 0; i < 2000; i++) {
		struct arena_stats stats = arena_of(&scene);

		if (stats.used_bytes <= stats.capacity_bytes / 2)
			break;
		usleep(1000);
	}
	assert_true(arena_of(&scene).used_bytes <=
		    arena_of(&scene).capacity_bytes / 2);
	assert_true(stats_of(&scene).evicted_pages >= 28);
	for (int i = 0; i < 60; i++)
		assert_int_equal(0, scene_check(&scene, name_of(i, name), MIB));
	scene_release(&scene);
}

static void each_page_that_was_evicted_reads_back_byte_for_byte(void **state)
{
	const unsigned engines[] = {0, SCENE_THREADS};
	char name[16];

	(void)state;
	for (int e = 0; e < 2; e++) {
		struct scene scene;

		scene_init(&scene, 32 * MIB, SCENE_DISK | engines[e]);
		for (int i = 0; i < 80; i++)
			scene_put(&scene, name_of(i, name),
				  300000 + (unsigned)i * 7919, 3);
		assert_int_equal(0, cache_evict(scene.cache, NULL));
		assert_int_equal(0, arena_of(&scene).live_slots);
		for (int i = 0; i < 80; i++)
			assert_int_equal(
				0, scene_check(&scene, name_of(i, name), MIB));
		assert_int_equal(0, stats_of(&scene).hits_memory);
		assert_int_equal(80, stats_of(&scene).hits_disk);
		scene_release(&scene);
	}
}

static void one_page_is_evicted_by_name(void **state)
{
	struct scene scene;
	struct cache_name name = scene_name("k");
	struct cache_name none = scene_name("none");

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	scene_put(&scene, "k", 3 * MIB, 3);
	scene_put(&scene, "l", MIB, 3);
	assert_int_equal(0, cache_evict(scene.cache, &name));
	assert_int_equal(1, arena_of(&scene).live_slots);
	assert_int_equal(CACHE_MISS, cache_evict(scene.cache, &none));
	assert_int_equal(0, scene_check(&scene, "k", MIB));
	assert_int_equal(1, stats_of(&scene).hits_disk);
	scene_release(&scene);
}

static void without_a_disk_nothing_is_evicted_by_hand(void **state)
{
	struct scene scene;

	(void)state;
	scene_init(&scene, 32 * MIB, 0);
	assert_int_equal(-ENOTSUP, cache_evict(scene.cache, NULL));
	scene_release(&scene);
}

/* ---- threads ---- */

#define PAGES 60

struct reader {
	struct scene *scene;
	unsigned seed;
	uint64_t until_ns;
	unsigned reads;
	int wrong;
};

static void *read_at_random(void *arg)
{
	struct reader *reader = arg;
	char name[16];

	while (clock_monotonic_ns() < reader->until_ns && !reader->wrong) {
		reader->seed = reader->seed * 1103515245u + 12345u;
		name_of((int)(reader->seed >> 16) % PAGES, name);
		reader->wrong = scene_check(reader->scene, name, MIB);
		reader->reads++;
	}
	return NULL;
}

static void *evict_at_random(void *arg)
{
	struct reader *reader = arg;
	char text[16];

	while (clock_monotonic_ns() < reader->until_ns) {
		struct cache_name name;

		reader->seed = reader->seed * 1103515245u + 12345u;
		name = scene_name(
			name_of((int)(reader->seed >> 16) % PAGES, text));
		(void)cache_evict(reader->scene->cache,
				  reader->seed & 0x700 ? &name : NULL);
		usleep(300);
	}
	return NULL;
}

/* Memory holds a quarter of the pages; readers, the watermark and the hand
 * meet all the time. */
static void hits_and_eviction_at_the_same_time_show_right_bytes(void **state)
{
	enum {
		READERS = 6,
		THREADS = READERS + 1
	};
	struct reader readers[THREADS];
	pthread_t threads[THREADS];
	struct scene scene;
	char name[16];

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	for (int i = 0; i < PAGES; i++)
		scene_put(&scene, name_of(i, name), 2 * MIB - 5, 3);
	for (int i = 0; i < THREADS; i++) {
		readers[i] = (struct reader){
			.scene = &scene,
			.seed = (unsigned)i + 1,
			.until_ns =
				clock_monotonic_ns() + 2 * CLOCK_NS_PER_SECOND,
		};
		pthread_create(&threads[i], NULL,
			       i < READERS ? read_at_random : evict_at_random,
			       &readers[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(0, readers[i].wrong);
	}
	assert_true(stats_of(&scene).hits_disk > 0);
	assert_int_equal(0, stats_of(&scene).lost_pages);
	assert_int_equal(0, stats_of(&scene).failures);
	assert_int_equal(0, stats_of(&scene).busy);
	/* The ring's thread may have a last pin in hand. */
	for (int i = 0; i < 1000 && arena_of(&scene).live_slots; i++) {
		assert_int_equal(0, cache_evict(scene.cache, NULL));
		usleep(1000);
	}
	assert_int_equal(0, arena_of(&scene).live_slots);
	scene_release(&scene);
}

/* ---- with writers and the write-behind ---- */

static void
more_is_written_than_memory_holds_and_all_of_it_reads_back(void **state)
{
	struct fixture fixture;
	struct cache_stats stats;
	char name[16];

	(void)state;
	fixture_prepare(&fixture, true);
	fixture.config.memory_bytes = 32 * MIB;
	fixture_start(&fixture);
	for (int i = 0; i < 120; i++)
		fixture_put(&fixture, name_of(i, name), (unsigned)i, MIB + 3);
	for (int i = 0; i < 120; i++)
		assert_int_equal(0, fixture_get(&fixture, name_of(i, name),
						(unsigned)i, MIB + 3));
	assert_int_equal(0, cache_evict(fixture.cache, NULL));
	for (int i = 0; i < 120; i++)
		assert_int_equal(0, fixture_get(&fixture, name_of(i, name),
						(unsigned)i, MIB + 3));
	cache_get_stats(fixture.cache, &stats);
	assert_true(stats.hits_disk >= 120);
	assert_int_equal(0, stats.misses + stats.failures + stats.busy);
	fixture_close(&fixture);
}

/* ---- buckets ---- */

static void the_coldest_bucket_goes_and_what_is_in_memory_stays(void **state)
{
	struct scene scene;
	char name[16];
	int there = 0, missing = 0;

	(void)state;
	scene_init(&scene, 64 * MIB, SCENE_DISK);
	/* The first bucket is full after 64 of these. */
	for (int i = 0; i < 70; i++)
		scene_put(&scene, name_of(i, name), 4 * MIB, SCENE_ON_DISK);
	assert_int_equal(0, scene_check(&scene, name_of(3, name), MIB));
	fetches_promote(scene.cache->fetches);
	assert_int_equal(0, evict_bucket(scene.cache));
	for (int i = 0; i < 70; i++) {
		int outcome = scene_check(&scene, name_of(i, name), MIB);

		assert_true(outcome == 0 || outcome == CACHE_MISS);
		there += outcome == 0;
		missing += outcome == CACHE_MISS;
		if (i == 3)
			assert_int_equal(0, outcome);
	}
	assert_true(missing >= 60);
	assert_true(there >= 6);
	assert_int_equal(missing, stats_of(&scene).lost_pages);
	assert_int_equal(-ENOENT, evict_bucket(scene.cache));
	scene_release(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			above_the_watermark_the_coldest_go_and_the_level_falls),
		cmocka_unit_test(
			each_page_that_was_evicted_reads_back_byte_for_byte),
		cmocka_unit_test(one_page_is_evicted_by_name),
		cmocka_unit_test(without_a_disk_nothing_is_evicted_by_hand),
		cmocka_unit_test(
			hits_and_eviction_at_the_same_time_show_right_bytes),
		cmocka_unit_test(
			the_coldest_bucket_goes_and_what_is_in_memory_stays),
		cmocka_unit_test(
			more_is_written_than_memory_holds_and_all_of_it_reads_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
