/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Hosts that give less than there should be (no io_uring, no registered
 * buffers, little memory that may be locked), mounts that are busy, and
 * daemons that are gone: all works, or it is said what does not.
 */

#include "tests/mounted/fault_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE RIG_PAGE_BYTES
#define PAGES 16u

/* Stored, evicted, read back, and once more after a restart. */
static void all_works(struct rig *rig, const char *options)
{
	char name[32];

	rig_serve(rig, "%s", options);
	for (unsigned n = 0; n < PAGES; n++)
		assert_int_equal(rig_put(rig, rig_name(name, n), n, PAGE), 0);
	if (rig_run(rig, "evict --all %s", rig->mount) != 0)
		fail_msg("evict: %s", rig->out);
	for (unsigned n = 0; n < PAGES; n++)
		assert_int_equal(rig_get(rig, rig_name(name, n), n, PAGE), 0);
	assert_true(rig_stat(rig, "hits_disk_total") == PAGES);
	rig_umount(rig);
	rig_serve(rig, "%s", options);
	for (unsigned n = 0; n < PAGES; n++)
		assert_int_equal(rig_get(rig, rig_name(name, n), n, PAGE), 0);
}

static void status_says(struct rig *rig, const char *text)
{
	assert_int_equal(rig_run(rig, "status %s", rig->mount), 0);
	if (!strstr(rig->out, text))
		fail_msg("\"%s\" is not in: %s", text, rig->out);
}

/* ---- io_uring ---- */

static void without_io_uring_all_is_the_same(void **state)
{
	struct rig *rig = *state;

	all_works(rig, "--io-uring off");
	status_says(rig, "disk I/O  threads");
	assert_int_equal(rig_log_count(rig, "pagefs warning: "), 0);
}

/* As container runtimes do it. */
static void forbid_io_uring(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {
		.len = sizeof(code) / sizeof(*code),
		.filter = code,
	};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
		_exit(97);
}

static void
an_io_uring_that_is_forbidden_is_one_line_and_all_is_the_same(void **state)
{
	struct rig *rig = *state;

	rig_needs_root(); /* who needs fusermount3 may not give up setuid */
	rig->before_exec = forbid_io_uring;
	all_works(rig, "--io-uring auto");
	status_says(rig, "disk I/O  threads (");
	assert_int_equal(rig_log_count(rig, "pagefs warning: "), 1);
	rig_said(rig, "io_uring");
}

static void an_io_uring_that_fails_is_one_line_and_all_is_the_same(void **state)
{
	struct rig *rig = *state;

	rig->faults = "io.ring.init:every:ENOMEM";
	all_works(rig, "--io-uring auto");
	status_says(rig, "disk I/O  threads (");
	assert_int_equal(rig_log_count(rig, "pagefs warning: "), 1);
	rig_said(rig, "io_uring");
}

static void buffers_that_cannot_be_registered_are_plain_ones(void **state)
{
	struct rig *rig = *state;

	rig->faults = "io.ring.register:every:EINVAL";
	all_works(rig, "--io-uring auto");
	rig_await_said(rig, "cannot register the arena as fixed buffers");
	assert_true(rig_stat(rig, "io_fixed_buffers") == 0);
	status_says(rig, "disk I/O  io_uring");
	assert_true(rig_log_count(rig, "pagefs warning: ") <= 1);
}

/* ---- memlock ---- */

static void little_memlock(void)
{
	const struct rlimit limit = {64 << 10, 64 << 10};

	if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0)
		_exit(97);
}

static void a_memlock_of_64_KiB_is_one_warning_and_all_works(void **state)
{
	struct rig *rig = *state;

	rig_needs_root();
	rig->as_user = true;
	rig->before_exec = little_memlock;
	assert_int_equal(chown(rig->dir, RIG_NOBODY, RIG_NOBODY), 0);
	assert_int_equal(chown(rig->mount, RIG_NOBODY, RIG_NOBODY), 0);
	all_works(rig, "--io-uring auto");
	assert_true(rig_stat(rig, "io_fixed_buffers") == 0);
	rig_await_said(rig, "memlock is limited to 64 KiB, needed are ");
	rig_said(rig, "`ulimit -l unlimited`");
	assert_int_equal(rig_log_count(rig, "pagefs warning: "), 1);
	status_says(rig, "disk I/O  io_uring (memlock is limited)");
}

/* ---- busy ---- */

static void a_busy_mount_is_not_taken_away_and_the_holder_is_named(void **state)
{
	struct rig *rig = *state;
	char path[128], line[64];
	int fd;

	rig_serve(rig, "--memory 16M");
	assert_int_equal(rig_put(rig, "page", 1, PAGE), 0);
	snprintf(path, sizeof(path), "%s/page", rig->mount);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);

	assert_int_equal(rig_run(rig, "umount %s", rig->mount), 1);
	snprintf(line, sizeof(line), "  %d ", (int)getpid());
	if (!strstr(rig->out, line) || !strstr(rig->out, "open file") ||
	    !strstr(rig->out, path))
		fail_msg("does not name process %s: %s", line, rig->out);
	assert_int_equal(rig_get(rig, "page", 1, PAGE), 0);

	close(fd);
	rig_umount(rig);
	/* Nobody had it freed, nor kept, for good by the first try. */
	rig_serve(rig, "--memory 16M");
	assert_int_equal(rig_get(rig, "page", 1, PAGE), 0);
}

static void a_lazy_umount_lets_open_files_be_read_to_their_end(void **state)
{
	struct rig *rig = *state;
	char path[128], byte;
	int fd;

	rig_serve(rig, "--memory 16M");
	assert_int_equal(rig_put(rig, "page", 1, PAGE), 0);
	snprintf(path, sizeof(path), "%s/page", rig->mount);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	rig_run(rig, "umount --lazy --timeout 100ms %s", rig->mount);
	assert_int_equal(rig_stat_page(rig, "page"), -ENOENT);
	assert_int_equal(pread(fd, &byte, 1, PAGE - 1), 1);
	assert_int_equal(rig_mount(rig, "--memory 16M"), 1);
	rig_said(rig, "in use by another pagefs");
	close(fd);
}

/* ---- gone ---- */

static bool gone(int error)
{
	return error == ENOTCONN || error == ECONNABORTED;
}

static int open_page(struct rig *rig, const char *name, int flags)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", rig->mount, name);
	return open(path, flags | O_CLOEXEC, 0644);
}

static void
a_daemon_killed_under_open_files_is_ENOTCONN_until_a_new_mount(void **state)
{
	struct rig *rig = *state;
	char bytes[4096];
	int reader, writer;

	rig_serve(rig, "--memory 16M");
	assert_int_equal(rig_put(rig, "page", 1, PAGE), 0);
	reader = open_page(rig, "page", O_RDONLY);
	writer = open_page(rig, "half", O_WRONLY | O_CREAT);
	assert_true(reader >= 0 && writer >= 0);
	memset(bytes, 1, sizeof(bytes));
	assert_int_equal(write(writer, bytes, sizeof(bytes)), sizeof(bytes));
	rig_kill(rig);

	assert_int_equal(pread(reader, bytes, sizeof(bytes), 0), -1);
	assert_true(gone(errno));
	assert_int_equal(write(writer, bytes, sizeof(bytes)), -1);
	assert_true(gone(errno));
	assert_int_equal(open_page(rig, "page", O_RDONLY), -1);
	assert_true(gone(errno));
	assert_int_equal(open_page(rig, "new", O_WRONLY | O_CREAT), -1);
	assert_true(gone(errno));
	assert_int_equal(rig_run(rig, "status %s", rig->mount), 1);
	assert_non_null(strstr(rig->out, "is gone"));

	rig_serve(rig, "--memory 16M");
	assert_int_equal(rig_get(rig, "page", 1, PAGE), 0);
	assert_int_equal(rig_stat_page(rig, "half"), -ENOENT);
	/* The old descriptors stay with the old mount. */
	assert_int_equal(pread(reader, bytes, sizeof(bytes), 0), -1);
	assert_true(gone(errno));
	assert_int_equal(close(writer), -1);
	close(reader);
	assert_int_equal(rig_stat_page(rig, "half"), -ENOENT);
}

static void
a_reader_that_waits_for_the_disk_is_freed_when_the_daemon_dies(void **state)
{
	const struct timespec pause = {.tv_nsec = 200000000};
	struct rig *rig = *state;
	pid_t child;
	int status;

	rig->faults = "io.read.late:every:1500";
	rig_serve(rig, "--memory 16M");
	assert_int_equal(rig_put(rig, "page", 1, PAGE), 0);
	assert_int_equal(rig_run(rig, "evict --all %s", rig->mount), 0);
	fflush(NULL);
	child = fork();
	if (child == 0)
		_exit(open_page(rig, "page", O_RDONLY) < 0 && gone(errno) ? 0
									  : 1);
	nanosleep(&pause, NULL);
	rig_kill(rig);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void memory_only_pages_survive_a_kill(void **state)
{
	struct rig *rig = *state;
	char name[32];

	rig->faults = "io.write:every:EIO";
	rig_serve(rig, "--memory 16M");
	for (unsigned n = 0; n < 8; n++)
		assert_int_equal(rig_put(rig, rig_name(name, n), n, PAGE), 0);
	rig_kill(rig);
	rig->faults = NULL;
	rig_serve(rig, "--memory 16M");
	for (unsigned n = 0; n < 8; n++)
		assert_int_equal(rig_get(rig, rig_name(name, n), n, PAGE), 0);
	rig_await_zero(rig, "pending_pages");
}

static void sigterm_writes_what_is_pending_and_unmounts(void **state)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	struct rig *rig = *state;
	pid_t daemon;

	rig_serve(rig, "-o writeback_max_ms=60000");
	assert_int_equal(rig_put(rig, "page", 1, PAGE), 0);
	daemon = rig->daemon;
	assert_int_equal(kill(daemon, SIGTERM), 0);
	for (int i = 0; i < 1000 && kill(daemon, 0) == 0; i++) {
		waitpid(daemon, NULL, WNOHANG);
		nanosleep(&pause, NULL);
	}
	assert_int_equal(kill(daemon, 0), -1);
	rig->daemon = 0;
	assert_int_equal(rig_stat_page(rig, "page"), -ENOENT);
	rig_said(rig, "the memory tier is kept");
	rig_serve(rig, "--memory 16M");
	assert_int_equal(rig_get(rig, "page", 1, PAGE), 0);
}

static int tests(void)
{
	const struct CMUnitTest all[] = {
		rig_test(without_io_uring_all_is_the_same),
		rig_test(
			an_io_uring_that_is_forbidden_is_one_line_and_all_is_the_same),
		rig_test(
			an_io_uring_that_fails_is_one_line_and_all_is_the_same),
		rig_test(buffers_that_cannot_be_registered_are_plain_ones),
		rig_test(a_memlock_of_64_KiB_is_one_warning_and_all_works),
		rig_test(
			a_busy_mount_is_not_taken_away_and_the_holder_is_named),
		rig_test(a_lazy_umount_lets_open_files_be_read_to_their_end),
		rig_test(
			a_daemon_killed_under_open_files_is_ENOTCONN_until_a_new_mount),
		rig_test(
			a_reader_that_waits_for_the_disk_is_freed_when_the_daemon_dies),
		rig_test(memory_only_pages_survive_a_kill),
		rig_test(sigterm_writes_what_is_pending_and_unmounts),
	};

	return cmocka_run_group_tests(all, NULL, NULL);
}

int main(void)
{
	return rig_main(tests);
}
