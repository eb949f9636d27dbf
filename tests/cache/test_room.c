/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cache/scene.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/lib/clock.h"
#include "tools/lib/fault.h"

#define MIB (1u << 20)

static struct cache_stats stats_of(struct scene *scene)
{
	struct cache_stats stats;

	cache_get_stats(scene->cache, &stats);
	return stats;
}

static uint64_t soon(unsigned ms)
{
	return clock_monotonic_ns() + ms * CLOCK_NS_PER_MS;
}

static void put_many(struct scene *scene, const char *prefix, int count,
		     uint64_t size, unsigned where)
{
	char name[32];

	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "%s%d", prefix, i);
		scene_put(scene, name, size, where);
	}
}

static void check_many(struct scene *scene, const char *prefix, int count)
{
	char name[32];

	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "%s%d", prefix, i);
		assert_int_equal(0, scene_check(scene, name, MIB));
	}
}

static void room_is_made_by_evicting_what_is_on_disk(void **state)
{
	struct scene scene;

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	put_many(&scene, "a", 100, MIB, 3);
	assert_true(stats_of(&scene).evicted_pages >= 70);
	check_many(&scene, "a", 100);
	assert_int_equal(0, stats_of(&scene).lost_pages);
	scene_release(&scene);
}

static void one_size_makes_room_for_another(void **state)
{
	struct scene scene;

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	put_many(&scene, "a", 40, MIB, 3);
	put_many(&scene, "b", 200, 100000, 3);
	put_many(&scene, "c", 30, MIB / 2 + 4096, 3);
	check_many(&scene, "a", 40);
	check_many(&scene, "b", 200);
	check_many(&scene, "c", 30);
	scene_release(&scene);
}

static void an_arena_full_of_pins_has_no_room(void **state)
{
	struct scene scene;
	struct slot_class class;
	struct meta_entry entry;
	slot_t slots[64], slot;
	uint64_t start_ns;
	int count = 0;

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	entry = scene_put(&scene, "k", MIB, SCENE_ON_DISK);
	class = cache_class(scene.cache, MIB, &entry);
	while (count < 64 &&
	       !cache_room(scene.cache, &class, 0, false, &slots[count]))
		count++;
	assert_true(count >= 28 && count <= 32);
	start_ns = clock_monotonic_ns();
	assert_int_equal(-ENOSPC, cache_room(scene.cache, &class, soon(200),
					     true, &slot));
	assert_true(clock_monotonic_ns() - start_ns >= 200 * CLOCK_NS_PER_MS);
	assert_int_equal(1, stats_of(&scene).no_space);
	for (int i = 0; i < count; i++)
		arena_free(scene.cache->arena, slots[i]);
	assert_int_equal(
		0, cache_room(scene.cache, &class, soon(200), true, &slot));
	arena_free(scene.cache->arena, slot);
	scene_release(&scene);
}

static void
a_fetch_that_finds_no_room_is_busy_and_nothing_is_remembered(void **state)
{
	struct scene scene;
	struct slot_class class;
	struct meta_entry entry;
	struct cache_page *page;
	slot_t slots[64];
	int count = 0;

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	entry = scene_put(&scene, "k", MIB, SCENE_ON_DISK);
	class = cache_class(scene.cache, MIB, &entry);
	while (count < 64 &&
	       !cache_room(scene.cache, &class, 0, false, &slots[count]))
		count++;
	assert_int_equal(CACHE_BUSY, scene_page(&scene, "k", &page));
	for (int i = 0; i < count; i++)
		arena_free(scene.cache->arena, slots[i]);
	assert_int_equal(0, scene_check(&scene, "k", MIB));
	scene_release(&scene);
}

struct filler {
	struct scene *scene;
	slot_t slots[64];
	int count;
};

static void a_fetch_waits_for_a_slot_that_is_about_to_be_free(void **state)
{
	struct scene scene;
	struct slot_class class;
	struct meta_entry entry;
	struct cache_page *page = NULL;
	struct cache_name name = scene_name("k");
	struct filler filler = {.scene = &scene};

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	entry = scene_put(&scene, "k", MIB, SCENE_ON_DISK);
	class = cache_class(scene.cache, MIB, &entry);
	while (filler.count < 64 && !cache_room(scene.cache, &class, 0, false,
						&filler.slots[filler.count]))
		filler.count++;
	cache_page_open(scene.cache, &name, &entry, scene_keep, &page);
	usleep(50000);
	assert_null(page);
	for (int i = 0; i < filler.count; i++)
		arena_free(scene.cache->arena, filler.slots[i]);
	assert_int_equal(0, scene_check(&scene, "k", MIB));
	for (int i = 0; i < 2000 && !page; i++)
		usleep(1000);
	assert_non_null(page);
	cache_page_close(page);
	scene_release(&scene);
}

static void
without_a_disk_the_coldest_pages_are_lost_and_said_to_be(void **state)
{
	struct scene scene;
	struct cache_page *page;
	char name[16];
	int there = 0, missing = 0;

	(void)state;
	scene_init(&scene, 32 * MIB, 0);
	put_many(&scene, "a", 60, MIB, SCENE_IN_MEMORY);
	for (int i = 0; i < 60; i++) {
		int outcome;

		snprintf(name, sizeof(name), "a%d", i);
		outcome = scene_page(&scene, name, &page);
		if (!outcome) {
			assert_int_equal(0, scene_check_page(page, name, MIB));
			cache_page_close(page);
			there++;
		} else {
			assert_int_equal(CACHE_MISS, outcome);
			missing++;
		}
	}
	assert_true(there >= 20 && missing >= 28);
	assert_int_equal(missing, stats_of(&scene).lost_pages);
	assert_true(scene.changed >= (unsigned)missing);
	scene_release(&scene);
}

static void an_open_page_is_not_evicted(void **state)
{
	struct scene scene;
	struct cache_page *page;

	(void)state;
	scene_init(&scene, 32 * MIB, 0);
	put_many(&scene, "a", 20, MIB, SCENE_IN_MEMORY);
	assert_int_equal(0, scene_page(&scene, "a3", &page));
	put_many(&scene, "b", 25, MIB, SCENE_IN_MEMORY);
	/* It was open all the time. */
	assert_int_equal(0, scene_check_page(page, "a3", MIB));
	cache_page_close(page);
	assert_int_equal(0, scene_check(&scene, "a3", MIB));
	scene_release(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(room_is_made_by_evicting_what_is_on_disk),
		cmocka_unit_test(one_size_makes_room_for_another),
		cmocka_unit_test(an_arena_full_of_pins_has_no_room),
		cmocka_unit_test(
			a_fetch_that_finds_no_room_is_busy_and_nothing_is_remembered),
		cmocka_unit_test(
			a_fetch_waits_for_a_slot_that_is_about_to_be_free),
		cmocka_unit_test(
			without_a_disk_the_coldest_pages_are_lost_and_said_to_be),
		cmocka_unit_test(an_open_page_is_not_evicted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
