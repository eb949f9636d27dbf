/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cache/scene.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/reads.h"
#include "tools/lib/fault.h"

#define MIB (1u << 20)

static struct io_stats io_of(struct scene *scene)
{
	struct io_stats stats;

	io_get_stats(scene->cache->io, &stats);
	return stats;
}

static const char *name_of(int i, char ret[16])
{
	snprintf(ret, 16, "k%d", i);
	return ret;
}

static void put_pages(struct scene *scene, int from, int to, uint64_t size)
{
	char name[16];

	for (int i = from; i < to; i++)
		scene_put(scene, name_of(i, name), size, SCENE_ON_DISK);
}

/* Reads them from disk, again and again, until all of it has gone into
 * registered memory: how many rounds that took; -1: it never did. */
static int rounds_until_fixed(struct scene *scene, int from, int to)
{
	char name[16];

	for (int round = 1; round <= 100; round++) {
		struct io_stats before = io_of(scene), after;

		assert_int_equal(0, cache_evict(scene->cache, NULL));
		before = io_of(scene);
		for (int i = from; i < to; i++)
			assert_int_equal(
				0, scene_check(scene, name_of(i, name), MIB));
		after = io_of(scene);
		if (after.reads > before.reads &&
		    after.reads_fixed - before.reads_fixed ==
			    after.reads - before.reads)
			return round;
		usleep(100000);
	}
	return -1;
}

static bool has_ring(struct scene *scene)
{
	return strcmp(io_of(scene).engine, "io_uring") == 0;
}

static void disk_reads_go_into_registered_slots_and_growth_is_followed(void **s)
{
	struct scene scene;

	(void)s;
	scene_init(&scene, 64 * MIB, SCENE_DISK);
	put_pages(&scene, 0, 40, MIB);
	if (!has_ring(&scene)) {
		scene_release(&scene);
		skip();
	}
	assert_true(rounds_until_fixed(&scene, 0, 4) > 0);
	assert_true(io_of(&scene).fixed_buffers);
	assert_true(rounds_until_fixed(&scene, 0, 40) > 0);
	scene_release(&scene);
}

/* Each round's pages have another size, so regions change their class, and
 * what was registered is unmapped again and again. */
static void regions_that_change_their_class_never_show_wrong_bytes(void **state)
{
	enum {
		SIZES = 5,
		EACH = 20
	};
	struct scene scene;
	struct cache_stats stats;
	char name[16];

	(void)state;
	scene_init(&scene, 32 * MIB, SCENE_DISK);
	for (int size = 0; size < SIZES; size++)
		put_pages(&scene, size * EACH, (size + 1) * EACH,
			  MIB + (unsigned)size * 300000);
	for (int round = 0; round < 4 * SIZES; round++) {
		int from = round % SIZES * EACH;

		for (int i = from; i < from + EACH; i++)
			assert_int_equal(
				0, scene_check(&scene, name_of(i, name), MIB));
		usleep(50000);
		assert_int_equal(0, cache_evict(scene.cache, NULL));
		for (int i = from; i < from + EACH; i++)
			assert_int_equal(
				0, scene_check(&scene, name_of(i, name), MIB));
	}
	cache_get_stats(scene.cache, &stats);
	assert_int_equal(0, stats.checksum_errors + stats.failures);
	if (has_ring(&scene))
		assert_true(io_of(&scene).reads_fixed > 0);
	scene_release(&scene);
}

static void where_the_kernel_takes_one_file_a_buffer_each_slot_is_one(void **s)
{
	struct scene scene;

	(void)s;
	fault_arm_periodic("io.ring.several", 1, EINVAL);
	scene_init(&scene, 64 * MIB, SCENE_DISK);
	put_pages(&scene, 0, 20, MIB);
	if (has_ring(&scene)) {
		assert_true(rounds_until_fixed(&scene, 0, 20) > 0);
		assert_null(io_of(&scene).why);
	}
	fault_disarm_all();
	scene_release(&scene);
}

static void where_nothing_can_be_registered_reads_are_plain(void **state)
{
	struct scene scene;
	char name[16];

	(void)state;
	fault_arm_periodic("io.ring.register", 1, ENOMEM);
	scene_init(&scene, 64 * MIB, SCENE_DISK);
	put_pages(&scene, 0, 20, MIB);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 20; i++)
			assert_int_equal(
				0, scene_check(&scene, name_of(i, name), MIB));
		usleep(200000);
		assert_int_equal(0, cache_evict(scene.cache, NULL));
	}
	assert_int_equal(0, io_of(&scene).reads_fixed);
	if (has_ring(&scene))
		assert_non_null(io_of(&scene).why);
	fault_disarm_all();
	scene_release(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			disk_reads_go_into_registered_slots_and_growth_is_followed),
		cmocka_unit_test(
			regions_that_change_their_class_never_show_wrong_bytes),
		cmocka_unit_test(
			where_the_kernel_takes_one_file_a_buffer_each_slot_is_one),
		cmocka_unit_test(
			where_nothing_can_be_registered_reads_are_plain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
