/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/internal.h"
#include "tests/cache/fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/lib/fault.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define CAP (64 * MIB)
#define LEN (256 * KIB)

static struct fixture f;
static _Atomic unsigned changed;
static char small_disk[128]; /* mounted there */

static void count_change(void *arg, const struct cache_name *name)
{
	(void)arg;
	(void)name;
	atomic_fetch_add(&changed, 1);
}

static int prepare(void **state)
{
	(void)state;
	fixture_prepare(&f, true);
	f.config.memory_bytes = 24 * MIB;
	f.config.disk_cap_bytes = CAP;
	f.config.writeback_max_ms = 4;
	f.config.changed = count_change;
	atomic_store(&changed, 0);
	return 0;
}

static int close_it(void **state)
{
	(void)state;
	fault_disarm_all();
	if (small_disk[0]) {
		cache_close(f.cache, false);
		f.cache = NULL;
		assert_int_equal(0, umount(small_disk));
		small_disk[0] = '\0';
	}
	fixture_close(&f);
	return 0;
}

static const char *name_of(char letter, int i, char ret[16])
{
	snprintf(ret, 16, "%c%d", letter, i);
	return ret;
}

/* What the bucket files take on disk. */
static uint64_t bucket_bytes(void)
{
	char path[300];
	uint64_t bytes = 0;
	struct dirent *entry;
	struct stat st;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/buckets", f.disk_dir);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)))
		if (!fstatat(dirfd(dir), entry->d_name, &st, 0) &&
		    S_ISREG(st.st_mode))
			bytes += (uint64_t)st.st_blocks * 512;
	closedir(dir);
	return bytes;
}

static struct buckets_stats disk(void)
{
	struct buckets_stats stats;

	buckets_get_stats(cache_buckets(f.cache), &stats);
	return stats;
}

static void put(char letter, int i, unsigned version)
{
	char name[16];

	fixture_put(&f, name_of(letter, i, name),
		    (unsigned)letter * 100000u + (unsigned)i + version * 7u,
		    LEN);
}

static int get(char letter, int i, unsigned version)
{
	char name[16];

	return fixture_get(
		&f, name_of(letter, i, name),
		(unsigned)letter * 100000u + (unsigned)i + version * 7u, LEN);
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

static void
four_times_the_cap_is_written_and_what_is_hot_stays_longest(void **state)
{
	enum {
		HOT = 16,
		COLD = 4 * CAP / LEN
	};
	static bool there[COLD];
	struct cache_stats stats;
	int hot = 0, cold = 0;

	(void)state;
	fixture_start(&f);
	for (int i = 0; i < HOT; i++)
		put('h', i, 0);
	for (int i = 0; i < COLD; i++) {
		put('c', i, 0);
		if (i % 16 == 0)
			for (int j = 0; j < HOT; j++)
				(void)get('h', j, 0);
		if (i % 8 == 0)
			assert_true(bucket_bytes() <=
				    CAP + bucket_limit_bytes(
						  cache_buckets(f.cache)));
	}
	assert_int_equal(0, cache_sync(f.cache));
	assert_true(bucket_bytes() <= CAP);
	assert_true(disk().buckets_dropped >= 16);
	/* The file system has blocks of its own in them. */
	assert_true(bucket_bytes() - disk().file_bytes <= MIB);
	for (int i = 0; i < HOT; i++) {
		int outcome = get('h', i, 0);

		assert_true(outcome == 0 || outcome == CACHE_MISS);
		hot += outcome == 0;
	}
	for (int i = 0; i < COLD; i++) {
		int outcome = get('c', i, 0);

		assert_true(outcome == 0 || outcome == CACHE_MISS);
		there[i] = outcome == 0;
		cold += there[i];
	}
	print_message("hot: %d of %d; cold: %d of %d\n", hot, HOT, cold, COLD);
	assert_true(hot >= HOT * 3 / 4);
	assert_true(cold >= COLD / 8 && cold < COLD / 3);
	cache_get_stats(f.cache, &stats);
	assert_int_equal(HOT - hot + COLD - cold, (int)stats.lost_pages);
	assert_int_equal(0, stats.checksum_errors + stats.disk_errors);
	assert_true(atomic_load(&changed) >= stats.lost_pages);

	/* After losing power the same are there, and nothing else. */
	assert_int_equal(0, cache_sync(f.cache));
	lose_index();
	for (int i = 0; i < COLD; i++)
		assert_true(get('c', i, 0) == CACHE_MISS || there[i]);
}

/* What was deleted, overwritten or renamed long ago, and said so in buckets
 * that are gone by now. */
static void
nothing_deleted_comes_back_when_the_bucket_that_said_so_is_gone(void **state)
{
	enum {
		OLD = 24
	};
	char from[16], to[16];

	(void)state;
	fixture_start(&f);
	for (int i = 0; i < OLD; i++)
		put('o', i, 0);
	assert_int_equal(0, cache_sync(f.cache));
	for (int i = 0; i < 60; i++)
		put('x', i, 0);
	assert_int_equal(0, cache_sync(f.cache));
	for (int i = 0; i < OLD; i += 3) {
		assert_int_equal(0, fixture_unlink(&f, name_of('o', i, from)));
		put('o', i + 1, 1);
		assert_int_equal(0,
				 fixture_rename(&f, name_of('o', i + 2, from),
						name_of('n', i + 2, to), 0));
	}
	fixture_mkdir(&f, "directory");
	/* Until the first bucket, whose pages are read all the time, is the
	 * oldest by far. */
	for (int i = 0; disk().buckets_dropped < 12; i++) {
		put('y', i, 0);
		for (int j = 2; i % 8 == 0 && j < OLD; j += 3)
			(void)get('n', j, 0);
	}
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < OLD; i += 3) {
			assert_int_equal(CACHE_MISS, get('o', i, 0));
			assert_int_not_equal(0, get('o', i + 1, 0));
			assert_int_equal(CACHE_MISS, get('o', i + 2, 0));
		}
		if (!round) {
			assert_int_equal(0, cache_sync(f.cache));
			lose_index();
		}
	}
	{
		struct cache_found found;

		assert_int_equal(0, fixture_lookup(&f, "directory", &found));
	}
}

static bool disk_alarm(void)
{
	struct cache_stats stats;

	cache_get_stats(f.cache, &stats);
	return stats.disk_alarm;
}

/* Else losing power just then would bring back what they had deleted. */
static void
no_bucket_goes_before_its_facts_are_on_stable_storage_elsewhere(void **state)
{
	char name[16];

	(void)state;
	f.config.memory_bytes = 64 * MIB;
	fixture_start(&f);
	put('a', 0, 0);
	assert_int_equal(0, fixture_unlink(&f, name_of('a', 0, name)));
	fault_arm_periodic("io.sync", 1, EIO);
	/* The last of them find no room, and fit into memory. */
	for (int i = 0; i < (int)((CAP + 8 * MIB) / LEN); i++)
		put('b', i, 0);
	usleep(300000);
	assert_true(disk_alarm());
	assert_int_equal(0, disk().buckets_dropped);
	fault_disarm_all();
	for (int i = 0; i < 100 && disk_alarm(); i++)
		usleep(100000);
	for (int i = 0; i < 100; i++)
		put('d', i, 0);
	assert_int_equal(0, cache_sync(f.cache));
	assert_true(disk().buckets_dropped > 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(0, get('d', i, 0));
}

/* ---- a disk that others fill ---- */

static bool mount_small_disk(const char *image)
{
	char command[768], where[sizeof(small_disk)];

	snprintf(where, sizeof(where), "%s/small", f.dir);
	snprintf(command, sizeof(command),
		 "truncate -s 160M %s && mkfs.ext4 -q -m 0 %s && mkdir %s && "
		 "mount -o loop %s %s",
		 image, image, where, image, where);
	if (geteuid() != 0 || system(command) != 0)
		return false;
	memcpy(small_disk, where, sizeof(where));
	return true;
}

static uint64_t room(void)
{
	struct statvfs st;

	assert_int_equal(0, statvfs(small_disk, &st));
	return (uint64_t)st.f_bavail * st.f_frsize;
}

static void fill(const char *path, uint64_t leave_bytes)
{
	struct stat file;
	uint64_t left = room();
	int fd = open(path, O_CREAT | O_WRONLY, 0600);

	assert_true(fd >= 0);
	assert_int_equal(0, fstat(fd, &file));
	if (left > leave_bytes)
		assert_int_equal(0, fallocate(fd, 0, file.st_size,
					      (off_t)(left - leave_bytes)));
	close(fd);
}

static void buckets_make_way_for_others_who_fill_the_disk(void **state)
{
	char image[128], path[160];
	struct cache_stats stats;
	int there = 0;

	(void)state;
	snprintf(image, sizeof(image), "%s/image", f.dir);
	if (!mount_small_disk(image))
		skip();
	snprintf(f.disk_dir, sizeof(f.disk_dir), "%s/small/disk", f.dir);
	f.config.disk_cap_bytes = 0;
	fixture_start(&f);
	for (int i = 0; i < 400; i++)
		put('p', i, 0);
	assert_int_equal(0, cache_sync(f.cache));
	assert_int_equal(0, cache_evict(f.cache, NULL));
	snprintf(path, sizeof(path), "%s/others", small_disk);
	/* The second time, to the last block. */
	for (int step = 1; step <= 2; step++) {
		fill(path, step == 1 ? 2 * MIB : 0);
		assert_true(room() <= 2 * MIB);
		for (int i = 0;
		     i < 100 && (room() < 7 * MIB ||
				 disk().buckets_dropped < (unsigned)step);
		     i++)
			usleep(100000);
		assert_true(room() >= 7 * MIB);
		assert_true(disk().buckets_dropped >= (unsigned)step);
	}
	for (int i = 0; i < 400; i++) {
		int outcome = get('p', i, 0);

		assert_true(outcome == 0 || outcome == CACHE_MISS);
		there += outcome == 0;
	}
	cache_get_stats(f.cache, &stats);
	print_message("%d of 400 left, %d dropped buckets\n", there,
		      (int)disk().buckets_dropped);
	assert_true(there > 0 && there < 400);
	assert_int_equal(400 - there, (int)stats.lost_pages);
	assert_false(disk_alarm());
	put('q', 0, 0);
	assert_int_equal(0, cache_sync(f.cache));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, prepare, close_it)
	const struct CMUnitTest tests[] = {
		TEST(four_times_the_cap_is_written_and_what_is_hot_stays_longest),
		TEST(nothing_deleted_comes_back_when_the_bucket_that_said_so_is_gone),
		TEST(no_bucket_goes_before_its_facts_are_on_stable_storage_elsewhere),
		TEST(buckets_make_way_for_others_who_fill_the_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
