/* SPDX-License-Identifier: Apache-2.0 */

/* A node of the kernel is one version: readers, writers, and failed opens. */

#include "tests/mounted/mount_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LEN 300000u

static void an_old_reader_keeps_the_old_bytes(void **state)
{
	struct mount *m = *state;
	struct stat before, after;
	int fd;

	write_page(in(m, "page"), 1, LEN);
	fd = open(in(m, "page"), O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &before), 0);
	write_page(in(m, "page"), 2, LEN / 2);
	assert_true(fd_is(fd, 1, LEN));
	assert_true(page_is(in(m, "page"), 2, LEN / 2));
	assert_int_equal(fstat(fd, &after), 0);
	assert_int_equal(after.st_size, LEN);
	assert_int_equal(after.st_ino, before.st_ino);
	assert_int_equal(stat(in(m, "page"), &after), 0);
	assert_int_equal(after.st_size, LEN / 2);
	assert_int_not_equal(after.st_ino, before.st_ino);
	close(fd);
}

static void an_old_reader_outlives_the_name(void **state)
{
	struct mount *m = *state;
	struct stat st;
	char path[64];
	int fd, again;

	write_page(in(m, "page"), 1, LEN);
	fd = open(in(m, "page"), O_RDONLY);
	assert_int_equal(unlink(in(m, "page")), 0);
	assert_int_equal(mount_control(m, "sync", "1"), 0);
	assert_int_equal(mount_control(m, "evict", "*"), 0);
	assert_true(fd_is(fd, 1, LEN));
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_nlink, 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY);
	assert_true(again >= 0);
	assert_true(fd_is(again, 1, LEN));
	close(again);
	close(fd);
}

static void a_writer_gets_a_node_of_its_own(void **state)
{
	struct mount *m = *state;
	char bytes[1000];
	int reader, writer;

	write_page(in(m, "page"), 1, LEN);
	reader = open(in(m, "page"), O_RDONLY);
	writer = open(in(m, "page"), O_RDWR);
	assert_true(writer >= 0);
	assert_true(fd_is(writer, 1, LEN));
	memset(bytes, 'x', sizeof(bytes));
	assert_int_equal(pwrite(writer, bytes, 1000, 500), 1000);
	assert_true(fd_is(reader, 1, LEN));
	assert_false(fd_is(writer, 1, LEN));
	assert_int_equal(close(writer), 0);
	assert_true(fd_is(reader, 1, LEN));
	close(reader);
	reader = open(in(m, "page"), O_RDONLY);
	assert_int_equal(pread(reader, bytes, 1, 500), 1);
	assert_int_equal(bytes[0], 'x');
	close(reader);
}

static void a_writer_that_only_reads_changes_nothing(void **state)
{
	struct mount *m = *state;
	struct stat before, after;
	uint64_t commits;
	int fd;

	write_page(in(m, "page"), 1, LEN);
	assert_int_equal(stat(in(m, "page"), &before), 0);
	commits = mount_counter(m, "commits_total");
	fd = open(in(m, "page"), O_RDWR);
	assert_true(fd_is(fd, 1, LEN));
	close(fd);
	assert_int_equal(mount_counter(m, "commits_total"), commits);
	assert_int_equal(stat(in(m, "page"), &after), 0);
	assert_int_equal(after.st_ino, before.st_ino);
	assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
}

static void a_close_shows_the_new_version_to_all(void **state)
{
	struct mount *m = *state;
	struct stat st;

	for (unsigned i = 1; i < 200; i++) {
		write_page(in(m, "page"), i, i);
		assert_int_equal(stat(in(m, "page"), &st), 0);
		assert_int_equal(st.st_size, i);
		assert_true(others_see(in(m, "page")));
		assert_true(page_is(in(m, "page"), i, i));
	}
}

static void truncate_by_name_makes_a_version(void **state)
{
	struct mount *m = *state;
	struct stat st;
	int fd;

	write_page(in(m, "page"), 1, LEN);
	fd = open(in(m, "page"), O_RDONLY);
	assert_int_equal(truncate(in(m, "page"), 1000), 0);
	assert_int_equal(stat(in(m, "page"), &st), 0);
	assert_int_equal(st.st_size, 1000);
	assert_true(page_is(in(m, "page"), 1, 1000));
	assert_true(fd_is(fd, 1, LEN));
	close(fd);
	fd = open(in(m, "page"), O_WRONLY | O_TRUNC);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(stat(in(m, "page"), &st), 0);
	assert_int_equal(st.st_size, 0);
}

/* ---- failed gets ---- */

/* Makes a page that is on disk only, and damages it there. */
static void damage(struct mount *m, const char *name)
{
	char command[MOUNT_PATH * 2];

	write_page(in(m, name), 1, LEN);
	assert_int_equal(mount_control(m, "sync", "1"), 0);
	assert_int_equal(mount_control(m, "evict", name), 0);
	/* All of the buckets but their first block. */
	snprintf(command, sizeof(command),
		 "for b in %s/buckets/*; do size=$(stat -c %%s $b); "
		 "dd if=/dev/zero of=$b bs=4096 seek=2 count=64 conv=notrunc "
		 "2>/dev/null; done",
		 m->disk);
	assert_int_equal(system(command), 0);
}

static void a_failed_open_is_enoent_and_so_is_stat_after_it(void **state)
{
	struct mount *m = *state;
	uint64_t lookups;

	damage(m, "page");
	assert_int_equal(open_errno(in(m, "page"), O_RDONLY), ENOENT);
	lookups = mount_counter(m, "lookups_total");
	for (int i = 0; i < 50; i++) {
		assert_int_equal(stat_errno(in(m, "page")), ENOENT);
		assert_int_equal(open_errno(in(m, "page"), O_RDONLY), ENOENT);
	}
	/* The kernel answered them: what it asked is about .pagefs. */
	assert_true(mount_counter(m, "lookups_total") - lookups <= 4);
	assert_int_equal(mount_counter(m, "failures_total"), 1);
}

static void with_a_ttl_of_0_a_failed_open_is_enoent(void **state)
{
	struct mount *m = *state;

	assert_int_equal(
		mount_control(m, "config", "failed_get_ttl_seconds = 0"), 0);
	damage(m, "page");
	assert_int_equal(open_errno(in(m, "page"), O_RDONLY), ENOENT);
	assert_int_equal(open_errno(in(m, "page"), O_RDONLY), ENOENT);
	/* What is written again is there again. */
	write_page(in(m, "page"), 3, LEN);
	assert_true(page_is(in(m, "page"), 3, LEN));
}

static void a_hidden_page_that_is_written_again_shows_at_once(void **state)
{
	struct mount *m = *state;

	damage(m, "page");
	assert_int_equal(open_errno(in(m, "page"), O_RDONLY), ENOENT);
	write_page(in(m, "page"), 2, LEN);
	assert_int_equal(stat_errno(in(m, "page")), 0);
	assert_true(page_is(in(m, "page"), 2, LEN));
}

static void clear_shows_what_was_hidden(void **state)
{
	struct mount *m = *state;
	uint64_t before, own;
	bool asked = false;

	assert_int_equal(
		mount_control(m, "config", "failed_get_ttl_seconds = 60"), 0);
	damage(m, "page");
	assert_int_equal(open_errno(in(m, "page"), O_RDONLY), ENOENT);
	assert_int_equal(mount_counter(m, "negative_entries"), 1);
	assert_int_equal(mount_control(m, "clear", "1"), 0);
	assert_int_equal(mount_counter(m, "negative_entries"), 0);
	/* The kernel asks again, and does not remember: a look-up more than
	 * the counter costs itself. */
	before = mount_counter(m, "lookups_total");
	own = mount_counter(m, "lookups_total") - before;
	for (int i = 0; i < 100 && !asked; i++) {
		before = mount_counter(m, "lookups_total");
		assert_int_equal(open_errno(in(m, "page"), O_RDONLY), ENOENT);
		asked = mount_counter(m, "lookups_total") - before > own;
	}
	assert_true(asked);
}

/* ---- under fire ---- */

#define NAMES 4
#define SECONDS 4

struct fire {
	struct mount *mount;
	_Atomic int stop;
	_Atomic unsigned long reads, absent, writes;
	_Atomic int bad; /* an errno that must not be, or -1: wrong bytes */
};

static void *reader(void *arg)
{
	struct fire *fire = arg;
	unsigned char bytes[8192];
	unsigned turn = 0;

	while (!fire->stop) {
		char name[16];
		int fd;
		ssize_t n;

		snprintf(name, sizeof(name), "p%u", turn++ % NAMES);
		fd = open(in(fire->mount, name), O_RDONLY);
		if (fd < 0 && errno == ENOENT) {
			fire->absent++;
			continue;
		}
		if (fd < 0) {
			fire->bad = errno;
			continue;
		}
		n = pread(fd, bytes, sizeof(bytes), 0);
		if (n < 0)
			fire->bad = errno;
		else if (n == 0 || n != (bytes[0] + 1) * 16)
			fire->bad = -1;
		for (ssize_t i = 1; i < n; i++) {
			if (bytes[i] != bytes[0])
				fire->bad = -1;
		}
		fire->reads++;
		close(fd);
	}
	return NULL;
}

/* Overwrites in place, by rename, and unlinks. */
static void *writer(void *arg)
{
	struct fire *fire = arg;
	unsigned char bytes[8192];
	unsigned turn = 0;

	while (!fire->stop) {
		char name[16], temp[64];
		bool rename_it = turn % 3 == 1;
		unsigned char value = (unsigned char)turn;
		size_t len = (size_t)(value + 1) * 16;
		const char *path;
		int fd;

		snprintf(name, sizeof(name), "p%u", turn % NAMES);
		snprintf(temp, sizeof(temp), "t.tmp.%d", (int)getpid());
		path = in(fire->mount, rename_it ? temp : name);
		turn++;
		if (turn % 11 == 0) {
			unlink(in(fire->mount, name));
			continue;
		}
		memset(bytes, value, sizeof(bytes));
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
		if (fd < 0) {
			fire->bad = errno;
			continue;
		}
		if (write(fd, bytes, len) != (ssize_t)len)
			fire->bad = errno;
		if (close(fd) != 0)
			fire->bad = errno;
		if (rename_it && rename(path, in(fire->mount, name)) != 0)
			fire->bad = errno;
		fire->writes++;
	}
	return NULL;
}

static void *lister(void *arg)
{
	struct fire *fire = arg;
	char command[MOUNT_PATH];

	snprintf(command, sizeof(command), "ls -l %s >/dev/null 2>&1",
		 fire->mount->path);
	while (!fire->stop) {
		struct stat st;

		(void)!system(command);
		if (stat(in(fire->mount, "p0"), &st) != 0 && errno != ENOENT)
			fire->bad = errno;
	}
	return NULL;
}

/* A process of its own: whoever writes a page sees it half written, as on any
 * file system. */
static pid_t start(void *(*run)(void *arg), struct fire *fire)
{
	pid_t pid = fork();

	if (pid == 0) {
		run(fire);
		_exit(0);
	}
	return pid;
}

/* One writer: two on one name would mix their bytes, as on any file
 * system. */
static void only_enoent_or_right_bytes_under_fire(void **state)
{
	const struct timespec time = {SECONDS, 0};
	struct fire *fire = mmap(NULL, sizeof(*fire), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[6];

	fire->mount = *state;
	pids[0] = start(writer, fire);
	pids[1] = start(lister, fire);
	for (int i = 2; i < 6; i++)
		pids[i] = start(reader, fire);
	nanosleep(&time, NULL);
	fire->stop = 1;
	for (int i = 0; i < 6; i++)
		assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
	if (fire->bad)
		fail_msg("%s",
			 fire->bad < 0 ? "wrong bytes" : strerror(fire->bad));
	assert_true(fire->reads > 100 && fire->writes > 100);
	munmap(fire, sizeof(*fire));
}

#define TEST(name)                                                             \
	cmocka_unit_test_setup_teardown(name, mount_set_up, mount_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_old_reader_keeps_the_old_bytes),
		TEST(an_old_reader_outlives_the_name),
		TEST(a_writer_gets_a_node_of_its_own),
		TEST(a_writer_that_only_reads_changes_nothing),
		TEST(a_close_shows_the_new_version_to_all),
		TEST(truncate_by_name_makes_a_version),
		TEST(a_failed_open_is_enoent_and_so_is_stat_after_it),
		TEST(with_a_ttl_of_0_a_failed_open_is_enoent),
		TEST(a_hidden_page_that_is_written_again_shows_at_once),
		TEST(clear_shows_what_was_hidden),
		TEST(only_enoent_or_right_bytes_under_fire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
