/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Files of the disk tier that are damaged, cut short or missing when a mount
 * starts: what can be read is read, the rest is a miss, and no byte is wrong.
 */

#include "tests/mounted/fault_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/format.h"
#include "tools/lib/checksum.h"

#define PAGE RIG_PAGE_BYTES
#define PAGES 8u

/* PAGES pages, on disk, unmounted. */
static void stored(struct rig *rig)
{
	char name[32];

	rig_serve(rig, "--memory 64M");
	for (unsigned n = 0; n < PAGES; n++)
		assert_int_equal(rig_put(rig, rig_name(name, n), n, PAGE), 0);
	rig_umount(rig);
}

/* How many pages are right; the others must be misses, and stay misses. */
static unsigned right_pages(struct rig *rig)
{
	unsigned right = 0;
	char name[32];

	for (unsigned n = 0; n < PAGES; n++) {
		int error = rig_get(rig, rig_name(name, n), n, PAGE);

		if (error) {
			assert_int_equal(error, -ENOENT);
			assert_int_equal(rig_stat_page(rig, name), -ENOENT);
			assert_false(rig_listed(rig, name));
		} else {
			assert_int_equal(rig_stat_page(rig, name), 0);
			assert_true(rig_listed(rig, name));
			right++;
		}
	}
	return right;
}

/* The mount goes on taking and giving pages. */
static void still_works(struct rig *rig)
{
	assert_int_equal(rig_put(rig, "new", 77, PAGE), 0);
	assert_int_equal(rig_run(rig, "evict --all %s", rig->mount), 0);
	assert_int_equal(rig_get(rig, "new", 77, PAGE), 0);
	rig_umount(rig);
	rig_serve(rig, "--memory 64M");
	assert_int_equal(rig_get(rig, "new", 77, PAGE), 0);
}

/* ---- buckets ---- */

static void a_flipped_bit_is_a_miss_of_that_page_alone(void **state)
{
	struct rig *rig = *state;
	char bucket[192];

	stored(rig);
	rig_bucket(rig, 0, bucket);
	/* In the middle of the file there are only pages' bytes. */
	rig_damage(bucket, rig_length(bucket) / 2 + 8192, 1);
	rig_serve(rig, "-o failed_get_ttl_seconds=60");
	assert_int_equal(right_pages(rig), PAGES - 1);
	assert_true(rig_stat(rig, "checksum_errors_total") == 1);
	assert_int_equal(rig_run(rig, "status %s", rig->mount), 0);
	assert_non_null(strstr(rig->out, "ALARM     checksum_errors_total"));
	still_works(rig);
}

static void a_damaged_header_costs_no_more_than_its_page(void **state)
{
	struct rig *rig = *state;
	char bucket[192];

	stored(rig);
	rig_bucket(rig, 0, bucket);
	rig_damage(bucket, 0, 4096);
	rig_serve(rig, "--memory 64M");
	assert_true(right_pages(rig) >= PAGES - 1);
	still_works(rig);
}

static void a_bucket_that_is_cut_short_gives_what_is_left_of_it(void **state)
{
	struct rig *rig = *state;
	char bucket[192];
	unsigned right;

	stored(rig);
	rig_bucket(rig, 0, bucket);
	assert_int_equal(truncate(bucket, rig_length(bucket) / 2), 0);
	rig_serve(rig, "-o failed_get_ttl_seconds=60");
	right = right_pages(rig);
	assert_true(right > 0 && right < PAGES);
	still_works(rig);
}

static void a_bucket_that_is_empty_is_misses(void **state)
{
	struct rig *rig = *state;
	char bucket[192];

	stored(rig);
	rig_bucket(rig, 0, bucket);
	assert_int_equal(truncate(bucket, 0), 0);
	rig_serve(rig, "-o failed_get_ttl_seconds=60");
	assert_int_equal(right_pages(rig), 0);
	still_works(rig);
}

static void a_missing_bucket_is_misses_and_one_line(void **state)
{
	struct rig *rig = *state;
	char bucket[192];

	stored(rig);
	rig_bucket(rig, 0, bucket);
	assert_int_equal(unlink(bucket), 0);
	rig_serve(rig, "-o failed_get_ttl_seconds=60");
	assert_int_equal(right_pages(rig), 0);
	assert_int_equal(rig_log_count(rig, "missing"), 1);
	still_works(rig);
}

static void a_foreign_file_among_the_buckets_is_left_alone(void **state)
{
	struct rig *rig = *state;
	char path[192];
	int fd;

	stored(rig);
	snprintf(path, sizeof(path), "%s/buckets/notes.txt", rig->disk);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	rig_serve(rig, "--memory 64M");
	assert_int_equal(right_pages(rig), PAGES);
	assert_int_equal(access(path, F_OK), 0);
	still_works(rig);
}

static void pages_damaged_while_mounted_are_misses(void **state)
{
	struct rig *rig = *state;
	char bucket[192];

	stored(rig);
	rig_serve(rig, "-o failed_get_ttl_seconds=60");
	rig_bucket(rig, 0, bucket);
	assert_int_equal(truncate(bucket, rig_length(bucket) / 2), 0);
	assert_true(right_pages(rig) < PAGES);
	still_works(rig);
}

/* ---- the index ---- */

static void rebuilt(struct rig *rig)
{
	rig_serve(rig, "--memory 64M");
	if (rig_log_count(rig, "rebuilt the index: ") != 1)
		fail_msg("not one line of a rebuild: %s", rig->out);
	assert_true(rig_log_count(rig, "pagefs warning: ") <= 1);
	assert_int_equal(rig_log_count(rig, "pagefs error: "), 0);
	assert_int_equal(right_pages(rig), PAGES);
	still_works(rig);
}

static void index_path(struct rig *rig, const char *name, char ret[192])
{
	snprintf(ret, 192, "%s/index/%s", rig->disk, name);
}

static void an_index_that_begins_with_garbage_is_rebuilt(void **state)
{
	struct rig *rig = *state;
	char path[192];

	stored(rig);
	index_path(rig, "data.mdb", path);
	rig_damage(path, 0, 8192);
	rebuilt(rig);
}

static void an_index_with_damage_within_is_rebuilt(void **state)
{
	struct rig *rig = *state;
	char path[192];

	stored(rig);
	index_path(rig, "data.mdb", path);
	rig_damage(path, 8192, (size_t)(rig_length(path) - 8192));
	rebuilt(rig);
}

static void an_index_that_is_cut_short_is_rebuilt(void **state)
{
	struct rig *rig = *state;
	char path[192];

	stored(rig);
	index_path(rig, "data.mdb", path);
	assert_int_equal(truncate(path, rig_length(path) / 2), 0);
	rebuilt(rig);
}

static void an_index_of_zeroes_is_rebuilt(void **state)
{
	struct rig *rig = *state;
	char path[192];
	off_t len;

	stored(rig);
	index_path(rig, "data.mdb", path);
	len = rig_length(path);
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(truncate(path, len), 0);
	rebuilt(rig);
}

static void an_index_of_no_bytes_is_rebuilt(void **state)
{
	struct rig *rig = *state;
	char path[192];

	stored(rig);
	index_path(rig, "data.mdb", path);
	assert_int_equal(truncate(path, 0), 0);
	rebuilt(rig);
}

static void a_missing_index_is_rebuilt(void **state)
{
	struct rig *rig = *state;
	char path[192];

	stored(rig);
	index_path(rig, "data.mdb", path);
	assert_int_equal(unlink(path), 0);
	rebuilt(rig);
}

static void damaged_lock_and_state_files_lose_nothing(void **state)
{
	struct rig *rig = *state;
	char path[192];

	stored(rig);
	index_path(rig, "lock.mdb", path);
	rig_damage(path, 0, 4096);
	index_path(rig, "state", path);
	rig_damage(path, 0, 8);
	rig_serve(rig, "--memory 64M");
	assert_int_equal(right_pages(rig), PAGES);
	still_works(rig);
}

/* ---- the superblock ---- */

static void superblock(struct rig *rig, char ret[192])
{
	snprintf(ret, 192, "%s/pagefs", rig->disk);
}

/* Says so, and is not mounted. */
static void refused(struct rig *rig, const char *why)
{
	assert_int_equal(rig_mount(rig, "--memory 64M"), 1);
	rig_said(rig, why);
	assert_int_equal(rig_log_count(rig, "pagefs mount: "), 1);
	assert_int_equal(rig_stat_page(rig, ".pagefs/stats"), -ENOENT);
}

static void a_damaged_superblock_is_refused_and_the_way_out_works(void **state)
{
	struct rig *rig = *state;
	char path[192];

	stored(rig);
	superblock(rig, path);
	rig_damage(path, 24, 4);
	refused(rig, "is damaged; remove it and start again");

	assert_int_equal(unlink(path), 0);
	rig_serve(rig, "--memory 64M");
	assert_int_equal(right_pages(rig), PAGES);
	still_works(rig);
}

static void a_file_that_is_no_superblock_is_refused(void **state)
{
	struct rig *rig = *state;
	char path[192];

	stored(rig);
	superblock(rig, path);
	rig_damage(path, 0, 4096);
	refused(rig, "is not a pagefs superblock");
	assert_int_equal(truncate(path, 0), 0);
	refused(rig, "is damaged; remove it and start again");
}

static void a_newer_format_is_refused_by_name(void **state)
{
	struct disk_superblock newer;
	unsigned char block[4096];
	struct rig *rig = *state;
	char path[192];
	uint64_t check;
	int fd;

	stored(rig);
	superblock(rig, path);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, block, sizeof(block), 0), sizeof(block));
	memcpy(&newer, block, sizeof(newer));
	newer.version = le32_put(FORMAT_VERSION + 1);
	memcpy(block, &newer, sizeof(newer));
	/* As store/FORMAT.md says, so that nothing but the version is odd. */
	check = checksum_bytes(block, 120, 0);
	newer.check = le64_put(
		checksum_bytes(block + 128, sizeof(block) - 128, check));
	memcpy(block, &newer, sizeof(newer));
	assert_int_equal(pwrite(fd, block, sizeof(block), 0), sizeof(block));
	close(fd);
	refused(rig, "was written by a newer pagefs (format 2, this one knows "
		     "1); upgrade pagefs");
}

static int tests(void)
{
	const struct CMUnitTest all[] = {
		rig_test(a_flipped_bit_is_a_miss_of_that_page_alone),
		rig_test(a_damaged_header_costs_no_more_than_its_page),
		rig_test(a_bucket_that_is_cut_short_gives_what_is_left_of_it),
		rig_test(a_bucket_that_is_empty_is_misses),
		rig_test(a_missing_bucket_is_misses_and_one_line),
		rig_test(a_foreign_file_among_the_buckets_is_left_alone),
		rig_test(pages_damaged_while_mounted_are_misses),
		rig_test(an_index_that_begins_with_garbage_is_rebuilt),
		rig_test(an_index_with_damage_within_is_rebuilt),
		rig_test(an_index_that_is_cut_short_is_rebuilt),
		rig_test(an_index_of_zeroes_is_rebuilt),
		rig_test(an_index_of_no_bytes_is_rebuilt),
		rig_test(a_missing_index_is_rebuilt),
		rig_test(damaged_lock_and_state_files_lose_nothing),
		rig_test(a_damaged_superblock_is_refused_and_the_way_out_works),
		rig_test(a_file_that_is_no_superblock_is_refused),
		rig_test(a_newer_format_is_refused_by_name),
	};

	return cmocka_run_group_tests(all, NULL, NULL);
}

int main(void)
{
	return rig_main(tests);
}
