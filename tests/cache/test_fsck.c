/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/rebuild.h"
#include "tests/cache/fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fixture f;
static char lines[4096];

static void note(void *arg, const char *line)
{
	(void)arg;
	strncat(lines, line, sizeof(lines) - strlen(lines) - 2);
	strcat(lines, "\n");
}

static int prepare(void **state)
{
	(void)state;
	lines[0] = 0;
	fixture_open(&f, true);
	fixture_mkdir(&f, "d");
	fixture_put(&f, "d/a", 1, 300000);
	fixture_put(&f, "d/b", 2, 300000);
	fixture_put(&f, "empty", 3, 0);
	assert_int_equal(cache_sync(f.cache), 0);
	return 0;
}

static int close_it(void **state)
{
	(void)state;
	fixture_close(&f);
	return 0;
}

static void stop(void)
{
	cache_close(f.cache, true);
	f.cache = NULL;
}

static int fsck(enum cache_fsck_mode mode, struct cache_fsck_report *report)
{
	struct cache_fsck_config config = {
		.dir = f.disk_dir, .mode = mode, .found = note};
	char reason[512];

	return cache_fsck(&config, report, reason);
}

/* Flips a byte in the middle of the pages' bytes. */
static void damage(void)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "b=$(ls %s/buckets/* | head -1); "
		 "printf XX | dd of=$b bs=1 seek=200000 conv=notrunc "
		 "status=none",
		 f.disk_dir);
	assert_int_equal(system(command), 0);
}

static void a_mounted_directory_is_refused(void **state)
{
	struct cache_fsck_report report;

	(void)state;
	assert_int_equal(fsck(CACHE_FSCK_CHECK, &report), -EWOULDBLOCK);
}

static void a_directory_that_is_not_there_is_not_made(void **state)
{
	struct cache_fsck_config config = {.dir = "/tmp/no/such/pagefs"};
	struct cache_fsck_report report;
	char reason[512];

	(void)state;
	assert_int_equal(cache_fsck(&config, &report, reason), -ENOENT);
	assert_non_null(strstr(reason, "/tmp/no/such/pagefs"));
}

static void all_is_well_after_a_clean_stop(void **state)
{
	struct cache_fsck_report report;

	(void)state;
	stop();
	assert_int_equal(fsck(CACHE_FSCK_VERIFY, &report), 0);
	assert_int_equal(report.names, 4);
	assert_int_equal(report.pages, 2);
	assert_int_equal(report.chunks, 2);
	assert_int_equal(report.chunk_bytes, 600000);
	assert_int_equal(report.damaged, 0);
	assert_int_equal(report.incomplete, 0);
	assert_string_equal(lines, "");
	/* It changes nothing. */
	fixture_start(&f);
	assert_int_equal(fixture_get(&f, "d/a", 1, 300000), 0);
}

static void flipped_bits_are_found(void **state)
{
	struct cache_fsck_report report;

	(void)state;
	stop();
	damage();
	assert_int_equal(fsck(CACHE_FSCK_VERIFY, &report), 0);
	/* At the end of an open bucket it may be a write that was cut off:
	 * such a record is not there, rather than damaged. */
	assert_true(report.chunks + report.damaged >= 1);
	assert_int_equal(report.incomplete, 1);
	assert_non_null(strstr(lines, "1 of its 1 chunks"));
}

static void rebuild_gives_everything_back(void **state)
{
	struct cache_fsck_report report;

	(void)state;
	cache_close(f.cache, false);
	f.cache = NULL;
	assert_int_equal(fsck(CACHE_FSCK_REBUILD, &report), 0);
	assert_int_equal(report.names, 4);
	assert_int_equal(report.incomplete, 0);
	assert_int_equal(fsck(CACHE_FSCK_VERIFY, &report), 0);
	assert_int_equal(report.names, 4);
	fixture_start(&f);
	assert_int_equal(fixture_get(&f, "d/a", 1, 300000), 0);
	assert_int_equal(fixture_get(&f, "d/b", 2, 300000), 0);
	assert_int_equal(fixture_get(&f, "empty", 3, 0), 0);
}

#define with(test) cmocka_unit_test_setup_teardown(test, prepare, close_it)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with(a_mounted_directory_is_refused),
		with(a_directory_that_is_not_there_is_not_made),
		with(all_is_well_after_a_clean_stop),
		with(flipped_bits_are_found),
		with(rebuild_gives_everything_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
