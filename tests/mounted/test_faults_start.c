/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Starts that can't work, and starts that look as if they couldn't: each has
 * its own message with the way out, and an exit code: 2 for wrong usage, 1 for
 * all else.
 */

#include "tests/mounted/fault_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PAGE RIG_PAGE_BYTES

/* Says so in one message, and leaves nothing mounted. */
static void refused(struct rig *rig, int code, int want, const char *why)
{
	if (code != want)
		fail_msg("exit code %d: %s", code, rig_log(rig));
	rig_said(rig, why);
	assert_int_equal(rig_log_count(rig, "pagefs mount: "), 1);
}

/* ---- usage ---- */

static void
wrong_usage_is_exit_code_2_and_says_what_would_be_right(void **state)
{
	static const struct {
		const char *options, *message;
	} rows[] = {
		{"--memroy 1G", "did you mean --memory?"},
		{"-o memroy=1G", "did you mean -o memory?"},
		{"-o nonsense", "unknown option -o nonsense"},
		{"--memory lots", "--memory lots: "},
		{"--memory 1X", "--memory 1X: "},
		{"--memory -5G", "--memory -5G: "},
		{"--disk-cap 120%", "--disk-cap 120%: "},
		{"--io-uring perhaps", "--io-uring perhaps: "},
		{"-o umask=999", "umask=999: "},
		{"-o failed_get_ttl_seconds=-1", "=-1: "},
		{"--config /nonexistent/pagefs.conf",
		 "/nonexistent/pagefs.conf"},
		{"/one/more", "one mount point, please"},
	};
	struct rig *rig = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		refused(rig, rig_mount(rig, "%s", rows[i].options), 2,
			rows[i].message);
	assert_int_equal(rig_run(rig, "mount"), 2);
	assert_non_null(strstr(rig->out, "Give a mount point"));
	assert_int_equal(rig_run(rig, "muont"), 2);
}

static void
a_memory_tier_that_is_too_small_is_refused_with_the_least_size(void **state)
{
	struct rig *rig = *state;

	refused(rig, rig_mount(rig, "--memory 1M"), 2, "needs 16M at least");
}

/* ---- mount points ---- */

static void a_mount_point_that_is_missing_or_a_file_is_refused(void **state)
{
	struct rig *rig = *state;
	int fd;

	assert_int_equal(rmdir(rig->mount), 0);
	refused(rig, rig_mount(rig, "--memory 16M"), 1,
		"there is no such directory; make it with mkdir");
	assert_int_equal(access(rig->disk, F_OK), -1);

	fd = open(rig->mount, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	close(fd);
	refused(rig, rig_mount(rig, "--memory 16M"), 1, "is not a directory");
	assert_int_equal(access(rig->disk, F_OK), -1);
}

static void a_mount_point_in_use_is_refused_and_goes_on(void **state)
{
	struct rig *rig = *state;
	pid_t daemon;

	rig_serve(rig, "--memory 16M");
	daemon = rig->daemon;
	assert_int_equal(rig_put(rig, "page", 1, PAGE), 0);
	refused(rig, rig_mount(rig, "--memory 16M --disk none"), 1,
		"pagefs is mounted there already; `pagefs umount` ends it");
	assert_int_equal(rig_stat(rig, "pid"), daemon);
	assert_int_equal(rig_get(rig, "page", 1, PAGE), 0);
}

static void a_dead_mount_is_cleaned_up_by_a_mount_at_once(void **state)
{
	struct rig *rig = *state;

	rig_serve(rig, "--memory 16M");
	assert_int_equal(rig_put(rig, "page", 1, PAGE), 0);
	/* The kernel has the root's attributes now, and needs no daemon to
	 * answer stat. */
	assert_int_equal(rig_stat_page(rig, ""), 0);
	rig_kill(rig);
	rig_serve(rig, "--memory 16M");
	rig_said(rig, "took away a mount whose daemon was gone");
	assert_int_equal(rig_get(rig, "page", 1, PAGE), 0);
	rig_umount(rig);
	/* And there is no second one below it. */
	assert_int_equal(rig_stat_page(rig, ".pagefs/stats"), -ENOENT);
}

static void a_dead_mount_is_cleaned_up_by_umount(void **state)
{
	struct rig *rig = *state;

	rig_serve(rig, "--memory 16M");
	assert_int_equal(rig_put(rig, "page", 1, PAGE), 0);
	rig_kill(rig);
	assert_int_equal(rig_run(rig, "umount %s", rig->mount), 0);
	assert_non_null(strstr(rig->out, "the daemon was gone already"));
	assert_int_equal(rig_stat_page(rig, ".pagefs/stats"), -ENOENT);
	rig_serve(rig, "--memory 16M");
	assert_int_equal(rig_get(rig, "page", 1, PAGE), 0);
}

/* ---- directories ---- */

static void
two_daemons_on_one_disk_directory_the_second_is_told_the_pid(void **state)
{
	struct rig *rig = *state;
	char other[128], pid[64];

	rig_serve(rig, "--memory 16M");
	snprintf(other, sizeof(other), "%s/other", rig->dir);
	assert_int_equal(mkdir(other, 0755), 0);
	assert_int_equal(rig_run(rig, "mount --memory 16M --disk %s %s",
				 rig->disk, other),
			 1);
	snprintf(pid, sizeof(pid), "in use by another pagefs, pid %d;",
		 (int)rig->daemon);
	if (!strstr(rig->out, pid))
		fail_msg("\"%s\" is not in: %s", pid, rig->out);
	/* The first one is none the worse for it. */
	assert_int_equal(rig_put(rig, "page", 1, PAGE), 0);
	assert_int_equal(rig_get(rig, "page", 1, PAGE), 0);
	rig_umount(rig);
	rig_serve(rig, "--memory 16M");
	assert_int_equal(rig_get(rig, "page", 1, PAGE), 0);
}

static void as_nobody(struct rig *rig)
{
	rig->as_user = true;
	assert_int_equal(chown(rig->dir, RIG_NOBODY, RIG_NOBODY), 0);
	assert_int_equal(chown(rig->mount, RIG_NOBODY, RIG_NOBODY), 0);
}

static void
no_permission_on_the_disk_directory_is_said_with_the_way_out(void **state)
{
	struct rig *rig = *state;

	rig_needs_root();
	as_nobody(rig);
	assert_int_equal(mkdir(rig->disk, 0700), 0);
	refused(rig, rig_mount(rig, "--memory 16M"), 1, "Permission denied");
	rig_said(rig, "let pagefs' user write there");
	assert_int_equal(rig_log_count(rig, rig->disk), 1);

	/* May be looked at, not written to. */
	assert_int_equal(chmod(rig->disk, 0755), 0);
	refused(rig, rig_mount(rig, "--memory 16M"), 1, "Permission denied");
	rig_said(rig, rig->disk);
}

static void a_mount_point_of_somebody_else_is_said(void **state)
{
	struct rig *rig = *state;

	rig_needs_root();
	as_nobody(rig);
	assert_int_equal(chown(rig->mount, 0, 0), 0);
	refused(rig, rig_mount(rig, "--memory 16M"), 1,
		"is not yours to write to");
}

static void a_disk_directory_that_is_a_file_is_said(void **state)
{
	struct rig *rig = *state;
	int fd = open(rig->disk, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	close(fd);
	refused(rig, rig_mount(rig, "--memory 16M"), 1, "Not a directory");
}

static unsigned memory_tiers(void)
{
	FILE *mounts = fopen("/proc/self/mounts", "re");
	char line[512];
	unsigned count = 0;

	assert_non_null(mounts);
	while (fgets(line, sizeof(line), mounts))
		count += strstr(line, " /run/pagefs/") != NULL;
	fclose(mounts);
	return count;
}

static void a_failed_start_leaves_no_memory_tier_behind(void **state)
{
	struct rig *rig = *state;
	int fd = open(rig->disk, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	unsigned before;

	assert_true(fd >= 0);
	close(fd);
	rig_needs_root();
	before = memory_tiers();
	assert_int_equal(rig_mount(rig, "--memory 16M"), 1);
	assert_int_equal(memory_tiers(), before);
}

/* ---- room for the memory tier ---- */

static void
more_memory_than_the_host_has_is_refused_with_what_there_is(void **state)
{
	struct rig *rig = *state;

	refused(rig, rig_mount(rig, "--memory 900T"), 1,
		"the memory tier of 900 TiB does not fit: there is room for");
	rig_said(rig, "choose a smaller --memory");
}

static void shm_of(const char *size)
{
	char options[64];

	snprintf(options, sizeof(options), "mode=1777,size=%s", size);
	assert_int_equal(mount("rig", "/dev/shm", "tmpfs", 0, options), 0);
}

static void shm_gone(void)
{
	while (umount2("/dev/shm", MNT_DETACH) != 0)
		assert_int_equal(errno, EINTR);
}

static void fill_shm(void)
{
	int fd = open("/dev/shm/others", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	off_t size = 0;

	assert_true(fd >= 0);
	while (posix_fallocate(fd, size, 4096) == 0)
		size += 4096;
	close(fd);
}

static void a_small_dev_shm_is_said_with_the_room_there_is(void **state)
{
	struct rig *rig = *state;

	rig_needs_root();
	as_nobody(rig);
	shm_of("40m");
	refused(rig, rig_mount(rig, "--memory 64M"), 1,
		"the memory tier of 64.0 MiB does not fit: there is room for "
		"3");
	rig_said(rig, "choose a smaller --memory");
	/* What it says there is room for, there is. */
	rig_serve(rig, "--memory 30M");
	assert_int_equal(rig_put(rig, "page", 1, PAGE), 0);
	assert_int_equal(rig_get(rig, "page", 1, PAGE), 0);
	rig_umount(rig);
	shm_gone();
}

static void a_full_dev_shm_is_said_with_the_way_out(void **state)
{
	struct rig *rig = *state;

	rig_needs_root();
	as_nobody(rig);
	shm_of("40m");
	fill_shm();
	refused(rig, rig_mount(rig, "--memory 16M"), 1, "does not fit");
	rig_said(rig, "make room in shared memory");
	shm_gone();
}

/* Slots are allocated before they are used, so that what comes is ENOSPC or
 * eviction, never SIGBUS. */
static void
a_dev_shm_that_others_fill_costs_memory_and_nothing_else(void **state)
{
	struct rig *rig = *state;
	char name[32];

	rig_needs_root();
	as_nobody(rig);
	shm_of("80m");
	rig_serve(rig, "--memory 48M");
	for (unsigned n = 0; n < 16; n++)
		assert_int_equal(rig_put(rig, rig_name(name, n), n, PAGE), 0);
	fill_shm();
	for (unsigned n = 16; n < 100; n++)
		assert_int_equal(rig_put(rig, rig_name(name, n), n, PAGE), 0);
	for (unsigned n = 0; n < 100; n++)
		assert_int_equal(rig_get(rig, rig_name(name, n), n, PAGE), 0);
	assert_true(rig_stat(rig, "hits_disk_total") > 0);
	rig_umount(rig);
	shm_gone();
}

static int tests(void)
{
	const struct CMUnitTest all[] = {
		rig_test(
			wrong_usage_is_exit_code_2_and_says_what_would_be_right),
		rig_test(
			a_memory_tier_that_is_too_small_is_refused_with_the_least_size),
		rig_test(a_mount_point_that_is_missing_or_a_file_is_refused),
		rig_test(a_mount_point_in_use_is_refused_and_goes_on),
		rig_test(a_dead_mount_is_cleaned_up_by_a_mount_at_once),
		rig_test(a_dead_mount_is_cleaned_up_by_umount),
		rig_test(
			two_daemons_on_one_disk_directory_the_second_is_told_the_pid),
		rig_test(
			no_permission_on_the_disk_directory_is_said_with_the_way_out),
		rig_test(a_mount_point_of_somebody_else_is_said),
		rig_test(a_disk_directory_that_is_a_file_is_said),
		rig_test(a_failed_start_leaves_no_memory_tier_behind),
		rig_test(
			more_memory_than_the_host_has_is_refused_with_what_there_is),
		rig_test(a_small_dev_shm_is_said_with_the_room_there_is),
		rig_test(a_full_dev_shm_is_said_with_the_way_out),
		rig_test(
			a_dev_shm_that_others_fill_costs_memory_and_nothing_else),
	};

	return cmocka_run_group_tests(all, NULL, NULL);
}

int main(void)
{
	return rig_main(tests);
}
