/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A disk tier that fails under a mount: what the caller sees is a miss or a
 * clear error, and never a wrong byte.
 */

#include "tests/mounted/fault_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/lib/clock.h"

#define PAGE RIG_PAGE_BYTES
/* The smallest memory tier, and more pages than it holds. */
#define SMALL "--memory 16M --stop-timeout 1s "
#define TOO_MANY 64u

static void sleep_ms(unsigned ms)
{
	struct timespec pause = clock_to_timespec(ms * CLOCK_NS_PER_MS);

	nanosleep(&pause, NULL);
}

static void put_many(struct rig *rig, unsigned from, unsigned to)
{
	char name[32];

	for (unsigned n = from; n < to; n++)
		assert_int_equal(rig_put(rig, rig_name(name, n), n, PAGE), 0);
}

/* Each is right or a miss; how many are right. */
static unsigned get_many(struct rig *rig, unsigned from, unsigned to)
{
	unsigned right = 0;
	char name[32];

	for (unsigned n = from; n < to; n++) {
		int error = rig_get(rig, rig_name(name, n), n, PAGE);

		if (error)
			assert_int_equal(error, -ENOENT);
		right += error == 0;
	}
	return right;
}

static void evict_all(struct rig *rig)
{
	if (rig_run(rig, "evict --all %s", rig->mount) != 0)
		fail_msg("evict: %s", rig->out);
}

/* Puts pages until one is refused; its number. */
static unsigned put_until_refused(struct rig *rig)
{
	char name[32];

	for (unsigned n = 0; n < TOO_MANY; n++) {
		uint64_t start_ns = clock_monotonic_ns();
		int error = rig_put(rig, rig_name(name, n), n, PAGE);

		/* By the deadline of a write, and some slack for the machine.
		 */
		assert_true(clock_monotonic_ns() - start_ns <
			    4 * CLOCK_NS_PER_SECOND);
		if (error) {
			assert_int_equal(error, -ENOSPC);
			return n;
		}
	}
	fail_msg("%u pages of %u bytes fit", TOO_MANY, PAGE);
	return 0;
}

static void full_memory(struct rig *rig, const char *faults)
{
	unsigned n;
	char name[32];

	rig->faults = faults;
	rig_serve(rig, SMALL);
	n = put_until_refused(rig);
	assert_true(n > 8);

	assert_int_equal(rig_stat_page(rig, rig_name(name, n)), -ENOENT);
	assert_int_equal(rig_put(rig, "page-0", 999, PAGE), -ENOSPC);
	assert_int_equal(get_many(rig, 0, n), n);

	assert_int_equal(rig_run(rig, "status %s", rig->mount), 0);
	assert_non_null(strstr(rig->out, "ALARM     disk_alarm"));
	assert_non_null(strstr(rig->out, "ALARM     no_space_total"));
	if (rig_log_count(rig, "pagefs error: ") != 1)
		fail_msg("more than one line of error: %s", rig->out);
	rig_said(rig, "pages stay in memory");
}

static void
memory_full_and_a_disk_without_room_is_ENOSPC_and_the_old_version_stays(
	void **state)
{
	full_memory(*state, "io.write:every:ENOSPC");
	rig_said(*state, "no room to write pages");
}

static void memory_full_and_a_disk_with_EIO_is_ENOSPC_and_the_old_version_stays(
	void **state)
{
	full_memory(*state, "io.write:every:EIO");
	rig_said(*state, "look at the disk (dmesg)");
}

static void
fsync_says_EIO_where_the_disk_refuses_and_the_page_stays_in_memory(void **state)
{
	struct rig *rig = *state;
	char path[128];
	int fd;

	rig->faults = "io.write:every:EIO";
	rig_serve(rig, SMALL);
	assert_int_equal(rig_put(rig, "page-1", 1, PAGE), 0);
	snprintf(path, sizeof(path), "%s/page-1", rig->mount);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fsync(fd), -1);
	assert_int_equal(errno, EIO);
	close(fd);
	assert_int_equal(rig_get(rig, "page-1", 1, PAGE), 0);
	assert_true(rig_stat(rig, "disk_alarm") == 1);
}

static void
what_could_not_be_written_is_written_once_the_disk_takes_it(void **state)
{
	struct rig *rig = *state;

	/* Two failures, then all is well. */
	rig->faults = "io.write:1:EIO,io.allocate:1:ENOSPC";
	rig_serve(rig, SMALL);
	put_many(rig, 0, 8);
	rig_await_zero(rig, "pending_pages");
	rig_await_zero(rig, "disk_alarm");
	assert_true(rig_stat(rig, "write_errors_total") >= 1);
	evict_all(rig);
	assert_int_equal(get_many(rig, 0, 8), 8);
	rig_said(rig, "writing pages works again");
	rig_umount(rig);
	rig->faults = NULL;
	rig_serve(rig, SMALL);
	assert_int_equal(get_many(rig, 0, 8), 8);
}

/* ---- disks that are really full ---- */

/* A small file system for the disk tier: ext4 on a loop device where there
 * is one, else a tmpfs. */
static void small_disk(struct rig *rig, unsigned mib)
{
	char command[512], options[64];

	assert_int_equal(mkdir(rig->disk, 0755), 0);
	snprintf(command, sizeof(command),
		 "{ truncate -s %uM %s/image && mkfs.ext4 -q -F -m 0 "
		 "%s/image && mount -o loop %s/image %s; } >/dev/null 2>&1",
		 mib, rig->dir, rig->dir, rig->dir, rig->disk);
	if (system(command) == 0)
		return;
	snprintf(options, sizeof(options), "size=%um", mib);
	assert_int_equal(mount("rig", rig->disk, "tmpfs", 0, options), 0);
}

/* What others put on that disk: all of it but so much. */
static void fill(struct rig *rig, unsigned left_mib)
{
	char path[128];
	off_t step = 1 << 20, size = (off_t)1 << 30;
	int fd;

	snprintf(path, sizeof(path), "%s/others", rig->disk);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	for (size = 0; posix_fallocate(fd, size, step) == 0;)
		size += step;
	/* The last bytes, too. */
	for (step = 4096; posix_fallocate(fd, size, step) == 0;)
		size += step;
	if (left_mib)
		assert_int_equal(ftruncate(fd, size - ((off_t)left_mib << 20)),
				 0);
	close(fd);
}

static void unfill(struct rig *rig)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/others", rig->disk);
	assert_int_equal(unlink(path), 0);
}

static void leave_small_disk(struct rig *rig)
{
	rig_kill(rig);
	umount2(rig->mount, MNT_DETACH);
	umount2(rig->disk, MNT_DETACH);
}

static void
a_disk_that_others_filled_is_used_again_once_there_is_room(void **state)
{
	struct rig *rig = *state;
	unsigned n;

	rig_needs_root();
	small_disk(rig, 96);
	rig_serve(rig, SMALL);
	fill(rig, 0);
	n = put_until_refused(rig);
	assert_int_equal(get_many(rig, 0, n), n);
	assert_int_equal(rig_run(rig, "status %s", rig->mount), 0);
	assert_non_null(strstr(rig->out, "ALARM     no_space_total"));

	unfill(rig);
	rig_await_zero(rig, "pending_pages");
	rig_await_zero(rig, "disk_alarm");
	put_many(rig, n, TOO_MANY);
	evict_all(rig);
	assert_int_equal(get_many(rig, 0, TOO_MANY), TOO_MANY);
	leave_small_disk(rig);
}

static void
a_daemon_starts_on_a_full_disk_and_serves_what_is_there(void **state)
{
	struct rig *rig = *state;

	rig_needs_root();
	small_disk(rig, 96);
	rig_serve(rig, SMALL);
	put_many(rig, 0, 16);
	rig_umount(rig);
	fill(rig, 0);
	rig_serve(rig, SMALL);
	assert_int_equal(get_many(rig, 0, 16), 16);
	rig_put(rig, "another", 1, PAGE);
	assert_int_equal(get_many(rig, 0, 16), 16);
	leave_small_disk(rig);
}

static void
a_disk_that_others_fill_shrinks_the_cap_and_whole_buckets_go(void **state)
{
	struct rig *rig = *state;
	const unsigned first = 280, all = 360;
	unsigned right;
	double cap;
	char name[32];

	rig_needs_root();
	small_disk(rig, 256);
	rig_serve(rig, SMALL);
	put_many(rig, 0, first);
	rig_await_zero(rig, "pending_pages");
	cap = rig_stat(rig, "disk_cap_bytes");
	assert_true(rig_stat(rig, "disk_buckets_dropped_total") == 0);

	fill(rig, 16);
	put_many(rig, first, all);
	rig_await_zero(rig, "pending_pages");
	assert_true(rig_stat(rig, "disk_cap_bytes") < cap);
	assert_true(rig_stat(rig, "disk_file_bytes") <= cap);
	assert_true(rig_stat(rig, "disk_buckets_dropped_total") > 0);
	assert_true(rig_stat(rig, "disk_alarm") == 0);

	evict_all(rig);
	right = get_many(rig, 0, all);
	assert_true(right > 0 && right < all);
	/* What was put last has stayed; what is gone is not shown either. */
	assert_int_equal(rig_get(rig, rig_name(name, all - 1), all - 1, PAGE),
			 0);
	for (unsigned n = 0; n < all; n++) {
		rig_name(name, n);
		assert_int_equal(rig_stat_page(rig, name),
				 rig_get(rig, name, n, PAGE));
	}
	leave_small_disk(rig);
}

static void
a_disk_that_others_fill_to_the_brim_costs_old_pages_only(void **state)
{
	struct rig *rig = *state;
	const unsigned first = 200, all = 240;
	unsigned right;

	rig_needs_root();
	small_disk(rig, 256);
	rig_serve(rig, SMALL);
	put_many(rig, 0, first);
	rig_await_zero(rig, "pending_pages");
	fill(rig, 0);
	sleep_ms(150); /* so often the file system is looked at */
	put_many(rig, first, all);
	rig_await_zero(rig, "pending_pages");
	rig_await_zero(rig, "disk_alarm");
	evict_all(rig);
	right = get_many(rig, 0, all);
	assert_true(right > 0 && right < all);
	assert_int_equal(get_many(rig, all - 8, all), 8);
	leave_small_disk(rig);
}

/* ---- reads that fail ---- */

/* Stored, and only on disk. */
static void put_and_evict(struct rig *rig)
{
	put_many(rig, 0, 4);
	evict_all(rig);
	assert_true(rig_stat(rig, "memory_live_slots") == 0);
}

static void is_hidden(struct rig *rig, const char *name)
{
	assert_int_equal(rig_stat_page(rig, name), -ENOENT);
	assert_int_equal(rig_get(rig, name, 0, PAGE), -ENOENT);
	assert_false(rig_listed(rig, name));
}

static void is_there(struct rig *rig, const char *name, unsigned seed)
{
	assert_int_equal(rig_stat_page(rig, name), 0);
	assert_true(rig_listed(rig, name));
	assert_int_equal(rig_get(rig, name, seed, PAGE), 0);
}

static void an_EIO_is_ENOENT_everywhere_until_pagefs_clear(void **state)
{
	struct rig *rig = *state;

	rig->faults = "io.read:1:EIO";
	rig_serve(rig, "-o failed_get_ttl_seconds=60");
	put_and_evict(rig);
	assert_int_equal(rig_get(rig, "page-2", 2, PAGE), -ENOENT);
	is_hidden(rig, "page-2");
	assert_true(rig_stat(rig, "negative_entries") == 1);
	assert_true(rig_stat(rig, "disk_errors_total") == 1);
	is_there(rig, "page-1", 1);

	assert_int_equal(rig_run(rig, "clear %s", rig->mount), 0);
	is_there(rig, "page-2", 2);
}

/* No moment is left in which the kernel still remembers. */
static void who_looks_right_after_clear_or_rm_sees_what_it_did(void **state)
{
	struct rig *rig = *state;

	rig->faults = "io.read:every/2:EIO";
	rig_serve(rig, "-o failed_get_ttl_seconds=60");
	for (int i = 0; i < 12; i++) {
		assert_int_equal(rig_put(rig, "page-1", 1, PAGE), 0);
		do
			evict_all(rig);
		while (rig_get(rig, "page-1", 1, PAGE) == 0);
		assert_int_equal(rig_run(rig, "clear %s", rig->mount), 0);
		assert_int_equal(rig_stat_page(rig, "page-1"), 0);
		assert_int_equal(rig_run(rig, "rm %s/page-1", rig->mount), 0);
		assert_int_equal(rig_stat_page(rig, "page-1"), -ENOENT);
	}
}

static void an_EIO_is_ENOENT_until_its_time_is_over(void **state)
{
	struct rig *rig = *state;

	rig->faults = "io.read:1:EIO";
	rig_serve(rig, "-o failed_get_ttl_seconds=0.5");
	put_and_evict(rig);
	assert_int_equal(rig_get(rig, "page-2", 2, PAGE), -ENOENT);
	is_hidden(rig, "page-2");
	sleep_ms(600);
	is_there(rig, "page-2", 2);
}

static void a_put_shows_a_hidden_page_at_once(void **state)
{
	struct rig *rig = *state;

	rig->faults = "io.read:1:EIO";
	rig_serve(rig, "-o failed_get_ttl_seconds=60");
	put_and_evict(rig);
	assert_int_equal(rig_get(rig, "page-2", 2, PAGE), -ENOENT);
	is_hidden(rig, "page-2");
	assert_int_equal(rig_put(rig, "page-2", 22, PAGE), 0);
	is_there(rig, "page-2", 22);
}

static void without_a_ttl_each_open_asks_the_disk_again(void **state)
{
	struct rig *rig = *state;

	rig->faults = "io.read:every/2:EIO";
	rig_serve(rig, "-o failed_get_ttl_seconds=0");
	put_and_evict(rig);
	assert_int_equal(rig_get(rig, "page-0", 0, PAGE), 0);
	assert_int_equal(rig_get(rig, "page-1", 1, PAGE), -ENOENT);
	assert_int_equal(rig_stat_page(rig, "page-1"), 0);
	assert_true(rig_listed(rig, "page-1"));
	assert_int_equal(rig_get(rig, "page-1", 1, PAGE), 0);
	assert_true(rig_stat(rig, "negative_entries") == 0);
}

static void a_disk_that_reads_nothing_is_misses_only(void **state)
{
	struct rig *rig = *state;

	rig->faults = "io.read:every:EIO";
	rig_serve(rig, "-o failed_get_ttl_seconds=60");
	put_and_evict(rig);
	assert_int_equal(get_many(rig, 0, 4), 0);
	for (unsigned n = 0; n < 4; n++) {
		char name[32];

		is_hidden(rig, rig_name(name, n));
	}
	assert_int_equal(rig_run(rig, "status %s", rig->mount), 0);
	assert_non_null(strstr(rig->out, "ALARM     disk_errors_total"));
}

static void
a_disk_that_reads_nothing_at_start_is_a_message_or_misses(void **state)
{
	struct rig *rig = *state;

	rig_serve(rig, "--memory 64M");
	put_many(rig, 0, 4);
	rig_umount(rig);
	rig->faults = "io.read:every:EIO";
	rig_serve(rig, "--memory 64M");
	assert_int_equal(get_many(rig, 0, 4), 0);
	rig_umount(rig);
	rig->faults = NULL;
	rig_serve(rig, "--memory 64M");
	assert_int_equal(get_many(rig, 0, 4), 4);
}

static void a_read_past_its_deadline_is_a_miss_and_harms_nobody(void **state)
{
	struct rig *rig = *state;
	uint64_t start_ns;

	rig->faults = "io.read.late:1:3500";
	rig_serve(rig, "-o failed_get_ttl_seconds=60");
	put_and_evict(rig);
	start_ns = clock_monotonic_ns();
	assert_int_equal(rig_get(rig, "page-2", 2, PAGE), -ENOENT);
	assert_true(clock_monotonic_ns() - start_ns < 3 * CLOCK_NS_PER_SECOND);
	assert_true(rig_stat(rig, "timeouts_total") == 1);
	assert_true(rig_stat(rig, "memory_quarantined_bytes") >= PAGE);
	put_many(rig, 10, 40);
	rig_await_zero(rig, "memory_quarantined_bytes");
	assert_int_equal(get_many(rig, 10, 40), 30);
}

static int tests(void)
{
	const struct CMUnitTest all[] = {
		rig_test(
			memory_full_and_a_disk_without_room_is_ENOSPC_and_the_old_version_stays),
		rig_test(
			memory_full_and_a_disk_with_EIO_is_ENOSPC_and_the_old_version_stays),
		rig_test(
			fsync_says_EIO_where_the_disk_refuses_and_the_page_stays_in_memory),
		rig_test(
			what_could_not_be_written_is_written_once_the_disk_takes_it),
		rig_test(
			a_disk_that_others_filled_is_used_again_once_there_is_room),
		rig_test(
			a_daemon_starts_on_a_full_disk_and_serves_what_is_there),
		rig_test(
			a_disk_that_others_fill_shrinks_the_cap_and_whole_buckets_go),
		rig_test(
			a_disk_that_others_fill_to_the_brim_costs_old_pages_only),
		rig_test(an_EIO_is_ENOENT_everywhere_until_pagefs_clear),
		rig_test(who_looks_right_after_clear_or_rm_sees_what_it_did),
		rig_test(an_EIO_is_ENOENT_until_its_time_is_over),
		rig_test(a_put_shows_a_hidden_page_at_once),
		rig_test(without_a_ttl_each_open_asks_the_disk_again),
		rig_test(a_disk_that_reads_nothing_is_misses_only),
		rig_test(
			a_disk_that_reads_nothing_at_start_is_a_message_or_misses),
		rig_test(a_read_past_its_deadline_is_a_miss_and_harms_nobody),
	};

	return cmocka_run_group_tests(all, NULL, NULL);
}

int main(void)
{
	return rig_main(tests);
}
