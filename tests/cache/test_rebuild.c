/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/internal.h"
#include "tests/cache/model.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
	fixture_close(&f);
	return 0;
}

/* Only the buckets are left. */
static void lose_index(void)
{
	char index[128];

	cache_close(f.cache, false);
	f.cache = NULL;
	fixture_remove(f.memory_dir);
	assert_int_equal(mkdir(f.memory_dir, 0700), 0);
	snprintf(index, sizeof(index), "%s/index", f.disk_dir);
	fixture_remove(index);
	fixture_start(&f);
}

static void many_changes(uint64_t seed, int steps)
{
	static struct model model;

	model_init(&model, seed);
	fixture_start(&f);
	for (int i = 0; i < steps; i++) {
		model_step(&model, &f);
		if (model_random(&model, 50) == 0)
			assert_int_equal(cache_sync(f.cache), 0);
		if (model_random(&model, 20) == 0)
			usleep(3000);
	}
	model_compare(&model, &f);
	assert_int_equal(cache_sync(f.cache), 0);
	model_compare(&model, &f);
	lose_index();
	model_compare(&model, &f);
	/* What was rebuilt can be changed like anything else. */
	for (int i = 0; i < steps / 4; i++)
		model_step(&model, &f);
	model_compare(&model, &f);
	assert_int_equal(cache_sync(f.cache), 0);
	lose_index();
	model_compare(&model, &f);
}

static void a_rebuild_gives_back_the_name_space(void **state)
{
	int rounds = getenv("PAGEFS_TEST_SHORT") ? 4 : 12;
	const char *seed = getenv("PAGEFS_TEST_SEED");

	if (seed) {
		many_changes(strtoull(seed, NULL, 10), 600);
		return;
	}
	for (int i = 1; i <= rounds; i++) {
		print_message("seed %d\n", i);
		many_changes((uint64_t)i, 600);
		close_it(state);
		prepare(state);
	}
}

static void deleted_pages_stay_deleted(void **state)
{
	(void)state;
	fixture_start(&f);
	fixture_put(&f, "a", 1, 1000);
	fixture_put(&f, "b", 2, 1000);
	assert_int_equal(cache_sync(f.cache), 0);
	assert_int_equal(fixture_unlink(&f, "a"), 0);
	fixture_put(&f, "b", 3, 2000);
	assert_int_equal(cache_sync(f.cache), 0);
	lose_index();
	assert_int_equal(fixture_get(&f, "a", 1, 1000), CACHE_MISS);
	assert_int_equal(fixture_get(&f, "b", 3, 2000), 0);
}

static void attributes_and_xattrs_come_back(void **state)
{
	struct meta_entry values = {.mode = 0604, .mtime_ns = 99};
	struct cache_name name, dir;
	struct cache_found found;
	char value[8];

	(void)state;
	fixture_start(&f);
	fixture_mkdir(&f, "d");
	fixture_put(&f, "d/p", 1, 1000);
	assert_int_equal(cache_sync(f.cache), 0);
	name = fixture_name(&f, "d/p");
	dir = fixture_name(&f, "d");
	assert_int_equal(fixture_lookup(&f, "d/p", &found), 0);
	assert_int_equal(cache_xattr_set(f.cache, &name, found.entry.object,
					 "user.x", "hello", 5, 0),
			 0);
	assert_int_equal(cache_set_attributes(f.cache, &name,
					      found.entry.object,
					      CACHE_SET_MODE | CACHE_SET_MTIME,
					      &values, &found),
			 0);
	assert_int_equal(fixture_lookup(&f, "d", &found), 0);
	assert_int_equal(cache_set_attributes(f.cache, &dir, found.entry.object,
					      CACHE_SET_MODE, &values, &found),
			 0);
	lose_index();
	assert_int_equal(fixture_lookup(&f, "d", &found), 0);
	assert_int_equal(found.entry.mode, 0604);
	assert_int_equal(fixture_lookup(&f, "d/p", &found), 0);
	assert_int_equal(found.entry.mode, 0604);
	assert_int_equal(found.entry.mtime_ns, 99);
	assert_true(found.entry.flags & META_ON_DISK);
	assert_int_equal(cache_xattr_get(f.cache, found.entry.object, "user.x",
					 value, sizeof(value)),
			 5);
	assert_memory_equal(value, "hello", 5);
	assert_int_equal(cache_xattr_list(f.cache, found.entry.object, NULL, 0),
			 7);
	assert_int_equal(fixture_get(&f, "d/p", 1, 1000), 0);
}

/* The header of the first record that is not damaged yet. */
static void damage_first_record(void)
{
	char command[512];

	cache_close(f.cache, false);
	f.cache = NULL;
	snprintf(command, sizeof(command),
		 "b=$(ls %s/buckets/* | head -1); o=$(grep -obUa pagefsRC $b | "
		 "head -1 | cut -d: -f1); printf XX | dd of=$b bs=1 "
		 "seek=$o conv=notrunc status=none",
		 f.disk_dir);
	assert_int_equal(system(command), 0);
	fixture_start(&f);
}

static void a_page_whose_record_is_damaged_is_a_miss(void **state)
{
	(void)state;
	fixture_start(&f);
	fixture_put(&f, "a", 1, 20000);
	assert_int_equal(cache_sync(f.cache), 0);
	fixture_put(&f, "b", 2, 20000);
	assert_int_equal(cache_sync(f.cache), 0);
	damage_first_record();
	lose_index();
	assert_int_equal(fixture_get(&f, "a", 1, 20000), CACHE_MISS);
	assert_int_equal(fixture_get(&f, "b", 2, 20000), 0);
}

static void a_directory_that_was_guessed_outlives_its_pages(void **state)
{
	struct cache_found found;

	(void)state;
	fixture_start(&f);
	fixture_mkdir(&f, "d");
	assert_int_equal(cache_sync(f.cache), 0);
	fixture_put(&f, "d/p", 1, 20000);
	assert_int_equal(cache_sync(f.cache), 0);
	damage_first_record();
	lose_index();
	assert_int_equal(fixture_get(&f, "d/p", 1, 20000), 0);
	assert_int_equal(fixture_unlink(&f, "d/p"), 0);
	assert_int_equal(cache_sync(f.cache), 0);
	damage_first_record();
	lose_index();
	assert_int_equal(fixture_lookup(&f, "d", &found), 0);
	assert_int_equal(fixture_get(&f, "d/p", 1, 20000), CACHE_MISS);
}

#define with(test) cmocka_unit_test_setup_teardown(test, prepare, close_it)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with(deleted_pages_stay_deleted),
		with(attributes_and_xattrs_come_back),
		with(a_page_whose_record_is_damaged_is_a_miss),
		with(a_directory_that_was_guessed_outlives_its_pages),
		with(a_rebuild_gives_back_the_name_space),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
