/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A memory tier that is full: of pages without a disk, of open pages, of one
 * page that does not fit; and a disk that is too slow or taken away.
 */

#include "tests/mounted/fault_rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/lib/clock.h"

#define PAGE RIG_PAGE_BYTES
/* More than the smallest memory tier holds. */
#define MANY 64u

static int open_page(struct rig *rig, unsigned n)
{
	char path[160], name[32];

	snprintf(path, sizeof(path), "%s/%s", rig->mount, rig_name(name, n));
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void without_a_disk_the_oldest_pages_are_misses(void **state)
{
	struct rig *rig = *state;
	unsigned right = 0;
	char name[32];

	rig_serve(rig, "--memory 16M --disk none");
	for (unsigned n = 0; n < MANY; n++)
		assert_int_equal(rig_put(rig, rig_name(name, n), n, PAGE), 0);
	for (unsigned n = 0; n < MANY; n++) {
		int error = rig_get(rig, rig_name(name, n), n, PAGE);

		assert_int_equal(rig_stat_page(rig, name), error);
		assert_int_equal(rig_listed(rig, name), error == 0);
		if (error)
			assert_int_equal(error, -ENOENT);
		right += !error;
	}
	assert_true(right >= 16 && right < MANY);
	assert_int_equal(rig_get(rig, rig_name(name, MANY - 1), MANY - 1, PAGE),
			 0);
	assert_int_equal(rig_run(rig, "status %s", rig->mount), 0);
	assert_non_null(strstr(rig->out, "ALARM     lost_pages_total"));
	assert_int_equal(rig_run(rig, "evict --all %s", rig->mount), 1);
	assert_non_null(strstr(rig->out, "there is no disk tier"));
}

/* Pages that are open can't be evicted, and are lost nowhere else. */
static void
memory_full_of_open_pages_is_ENOSPC_until_they_are_closed(void **state)
{
	struct rig *rig = *state;
	int files[MANY], error = 0;
	unsigned opened = 0;
	uint64_t start_ns;
	char name[32];

	rig_serve(rig, "--memory 16M --disk none");
	for (; opened < MANY; opened++) {
		error = rig_put(rig, rig_name(name, opened), opened, PAGE);
		if (error)
			break;
		files[opened] = open_page(rig, opened);
		if (files[opened] < 0)
			break;
	}
	/* At 80% of the arena pages that are nowhere else can't be opened any
	 * more; what comes then takes turns in what is left. */
	assert_true(opened > 16 && opened < 32);
	if (!error)
		assert_int_equal(errno, ENOENT);
	start_ns = clock_monotonic_ns();
	error = rig_put(rig, "large", 7, 15u << 20);
	assert_int_equal(error, -ENOSPC);
	/* The deadlines of a write that is cut short, the next, and close. */
	assert_true(clock_monotonic_ns() - start_ns < 8 * CLOCK_NS_PER_SECOND);
	assert_int_equal(rig_stat_page(rig, "large"), -ENOENT);
	for (unsigned n = 0; n < opened; n++) {
		assert_int_equal(rig_get(rig, rig_name(name, n), n, PAGE), 0);
		close(files[n]);
	}
	assert_int_equal(rig_put(rig, "after", 7, 4u << 20), 0);
	assert_int_equal(rig_get(rig, "after", 7, 4u << 20), 0);
}

static void open_pages_that_are_on_disk_do_not_fill_memory(void **state)
{
	struct rig *rig = *state;
	int files[MANY];
	unsigned char byte;
	char name[32];

	rig_serve(rig, "--memory 16M");
	for (unsigned n = 0; n < MANY; n++) {
		assert_int_equal(rig_put(rig, rig_name(name, n), n, PAGE), 0);
		rig_await_zero(rig, "pending_pages");
		files[n] = open_page(rig, n);
		assert_true(files[n] >= 0);
	}
	for (unsigned n = 0; n < MANY; n++) {
		assert_int_equal(pread(files[n], &byte, 1, PAGE / 2), 1);
		assert_int_equal(rig_get(rig, rig_name(name, n), n, PAGE), 0);
		close(files[n]);
	}
}

static void
a_page_larger_than_memory_needs_the_disk_and_is_ENOSPC_without(void **state)
{
	struct rig *rig = *state;

	rig->faults = "io.write:every:ENOSPC";
	rig_serve(rig, "--memory 16M --stop-timeout 1s");
	assert_int_equal(rig_put(rig, "small", 1, PAGE), 0);
	assert_int_equal(rig_put(rig, "large", 2, 48u << 20), -ENOSPC);
	assert_int_equal(rig_stat_page(rig, "large"), -ENOENT);
	assert_false(rig_listed(rig, "large"));
	assert_int_equal(rig_get(rig, "small", 1, PAGE), 0);
	/* And its memory is free again. */
	assert_int_equal(rig_put(rig, "next", 3, 4u << 20), 0);
}

static void a_page_larger_than_memory_goes_through_the_disk(void **state)
{
	struct rig *rig = *state;

	rig_serve(rig, "--memory 16M");
	assert_int_equal(rig_put(rig, "large", 2, 48u << 20), 0);
	assert_int_equal(rig_get(rig, "large", 2, 48u << 20), 0);
	rig_umount(rig);
	rig_serve(rig, "--memory 16M");
	assert_int_equal(rig_get(rig, "large", 2, 48u << 20), 0);
}

static int sync_page(struct rig *rig, const char *name)
{
	char path[160];
	int fd, error = 0;

	snprintf(path, sizeof(path), "%s/%s", rig->mount, name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	if (fsync(fd) != 0)
		error = -errno;
	close(fd);
	return error;
}

static void
a_disk_that_writes_too_slowly_fails_fsync_by_its_deadline_alone(void **state)
{
	struct rig *rig = *state;
	uint64_t start_ns;

	rig->faults = "io.write.late:1:4000";
	rig_serve(rig, "--memory 16M");
	start_ns = clock_monotonic_ns();
	assert_int_equal(rig_put(rig, "page", 1, PAGE), 0);
	assert_true(clock_monotonic_ns() - start_ns < CLOCK_NS_PER_SECOND);
	assert_int_equal(sync_page(rig, "page"), -EIO);
	assert_true(clock_monotonic_ns() - start_ns < 4 * CLOCK_NS_PER_SECOND);
	assert_int_equal(rig_get(rig, "page", 1, PAGE), 0);
	/* The disk comes to its senses, and so do we. */
	rig_await_zero(rig, "pending_pages");
	assert_int_equal(sync_page(rig, "page"), 0);
	assert_int_equal(rig_run(rig, "evict --all %s", rig->mount), 0);
	assert_int_equal(rig_get(rig, "page", 1, PAGE), 0);
}

/* Somebody clears the directory under the daemon's feet. */
static void
a_disk_directory_that_is_removed_under_a_mount_is_no_crash(void **state)
{
	struct rig *rig = *state;
	char name[32], command[160];

	rig_serve(rig, "--memory 16M --stop-timeout 1s");
	for (unsigned n = 0; n < 8; n++)
		assert_int_equal(rig_put(rig, rig_name(name, n), n, PAGE), 0);
	rig_await_zero(rig, "pending_pages");
	snprintf(command, sizeof(command), "rm -r %s", rig->disk);
	assert_int_equal(system(command), 0);
	for (unsigned n = 8; n < 2 * MANY; n++) {
		int error = rig_put(rig, rig_name(name, n), n, PAGE);

		if (error)
			assert_int_equal(error, -ENOSPC);
		if (error)
			break;
	}
	for (unsigned n = 0; n < 8; n++) {
		int error = rig_get(rig, rig_name(name, n), n, PAGE);

		if (error)
			assert_int_equal(error, -ENOENT);
	}
	assert_true(rig_stat(rig, "pid") == rig->daemon);
	rig_umount(rig);
	rig_serve(rig, "--memory 16M");
	assert_int_equal(rig_put(rig, "new", 1, PAGE), 0);
	assert_int_equal(rig_get(rig, "new", 1, PAGE), 0);
}

static int tests(void)
{
	const struct CMUnitTest all[] = {
		rig_test(without_a_disk_the_oldest_pages_are_misses),
		rig_test(
			memory_full_of_open_pages_is_ENOSPC_until_they_are_closed),
		rig_test(open_pages_that_are_on_disk_do_not_fill_memory),
		rig_test(
			a_page_larger_than_memory_needs_the_disk_and_is_ENOSPC_without),
		rig_test(a_page_larger_than_memory_goes_through_the_disk),
		rig_test(
			a_disk_that_writes_too_slowly_fails_fsync_by_its_deadline_alone),
		rig_test(
			a_disk_directory_that_is_removed_under_a_mount_is_no_crash),
	};

	return cmocka_run_group_tests(all, NULL, NULL);
}

int main(void)
{
	return rig_main(tests);
}
