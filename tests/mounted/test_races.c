/* SPDX-License-Identifier: Apache-2.0 */

/* Requests that come too late (their version was replaced meanwhile) or too
 * early (a staging page, by who has nothing to do with it). */

#include "tests/mounted/mount_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define LEN 200000u

/* Runs it in a process that has none of our descriptors: its result. */
static int elsewhere(int (*run)(const char *path), const char *path)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		close_range(3, ~0u, 0);
		_exit(run(path));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int stat_of(const char *path)
{
	return stat_errno(path);
}

static int open_of(const char *path)
{
	return open_errno(path, O_RDONLY);
}

static int chmod_of(const char *path)
{
	return chmod(path, 0600) ? errno : 0;
}

static int xattr_of(const char *path)
{
	return setxattr(path, "user.a", "b", 1, 0) ? errno : 0;
}

/* A link of /proc leads to the node itself, as does, for a moment, the entry
 * that the kernel makes of CREATE's reply. */
static void a_staging_page_is_not_there_for_others(void **state)
{
	struct mount *m = *state;
	char path[64];
	struct stat st;
	int fd = open(in(m, "page"), O_RDWR | O_CREAT, 0644), again;

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "abc", 3, 0), 3);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
	assert_int_equal(elsewhere(stat_of, path), ENOENT);
	assert_int_equal(elsewhere(open_of, path), ENOENT);
	assert_int_equal(elsewhere(chmod_of, path), ENOENT);
	assert_int_equal(elsewhere(xattr_of, path), ENOENT);
	/* Its writer may. */
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 3);
	again = open(path, O_RDONLY);
	assert_true(again >= 0);
	close(again);
	close(fd);
	assert_int_equal(elsewhere(stat_of, in(m, "page")), 0);
}

static void who_inherits_a_descriptor_sees_the_staging_page(void **state)
{
	struct mount *m = *state;
	int fd = open(in(m, "page"), O_WRONLY | O_CREAT, 0644), status;
	pid_t pid;

	assert_int_equal(pwrite(fd, "abc", 3, 0), 3);
	pid = fork();
	if (pid == 0) {
		struct stat st;

		_exit(fstat(fd, &st) ? errno : (int)st.st_size);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 3);
	close(fd);
}

/* ---- a version that was replaced ---- */

/* "/proc/self/fd/N": the node of what is replaced then, for requests by path
 * that come too late. */
static void late_path(struct mount *m, char ret[64], int *ret_fd)
{
	write_page(in(m, "page"), 1, 1000);
	*ret_fd = open(in(m, "page"), O_PATH);
	assert_true(*ret_fd >= 0);
	write_page(in(m, "other"), 2, 3000);
	assert_int_equal(rename(in(m, "other"), in(m, "page")), 0);
	snprintf(ret, 64, "/proc/self/fd/%d", *ret_fd);
}

static void late_changes_reach_what_the_name_leads_to(void **state)
{
	struct mount *m = *state;
	struct timespec times[2] = {{1000, 0}, {2000, 0}};
	char path[64], value[8];
	struct stat st;
	int fd;

	late_path(m, path, &fd);
	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	assert_int_equal(setxattr(path, "user.a", "b", 1, 0), 0);
	assert_int_equal(getxattr(path, "user.a", value, sizeof(value)), 1);
	assert_true(listxattr(path, NULL, 0) > 0);
	assert_true(getxattr(path, "user.pagefs.tier", NULL, 0) > 0);
	assert_int_equal(stat(in(m, "page"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(st.st_mtim.tv_sec, 2000);
	assert_int_equal(truncate(path, 500), 0);
	assert_int_equal(stat(in(m, "page"), &st), 0);
	assert_int_equal(st.st_size, 500);
	assert_true(page_is(in(m, "page"), 2, 500));
	close(fd);
}

static void a_late_open_gets_what_the_name_leads_to(void **state)
{
	struct mount *m = *state;
	char path[64];
	struct stat st;
	int fd, reader;

	late_path(m, path, &fd);
	reader = open(path, O_RDONLY);
	assert_true(reader >= 0);
	assert_int_equal(fstat(reader, &st), 0);
	assert_int_equal(st.st_size, 3000);
	assert_int_equal(st.st_nlink, 1);
	assert_true(fd_is(reader, 2, 3000));
	close(reader);
	reader = open(path, O_RDWR);
	assert_true(reader >= 0);
	assert_true(fd_is(reader, 2, 3000));
	close(reader);
	close(fd);
}

static void an_unlinked_page_is_what_it_was(void **state)
{
	struct mount *m = *state;
	struct stat st;
	int fd;

	write_page(in(m, "page"), 1, 1000);
	fd = open(in(m, "page"), O_PATH);
	assert_int_equal(unlink(in(m, "page")), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 1000);
	assert_int_equal(st.st_nlink, 0);
	close(fd);
	/* What comes to its name is another page. */
	write_page(in(m, "page"), 1, 1000);
	fd = open(in(m, "page"), O_RDONLY);
	assert_int_equal(unlink(in(m, "page")), 0);
	write_page(in(m, "page"), 2, 2000);
	assert_int_equal(fchmod(fd, 0600), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 1000);
	close(fd);
	assert_int_equal(stat(in(m, "page"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
}

static void a_removed_directory_is_empty_and_has_no_link(void **state)
{
	struct mount *m = *state;
	struct stat st;
	DIR *dir;
	int fd;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(mkdir(in(m, "dir"), 0750), 0);
		fd = open(in(m, "dir"), O_RDONLY | O_DIRECTORY);
		if (i) {
			assert_int_equal(mkdir(in(m, "new"), 0755), 0);
			assert_int_equal(rename(in(m, "new"), in(m, "dir")), 0);
		}
		assert_int_equal(rmdir(in(m, "dir")), 0);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_nlink, 0);
		assert_int_equal(st.st_mode & 07777, 0750);
		assert_int_equal(openat(fd, "x", O_CREAT | O_WRONLY, 0644), -1);
		assert_int_equal(errno, ENOENT);
		dir = fdopendir(fd);
		assert_non_null(dir);
		errno = 0;
		assert_null(readdir(dir));
		assert_int_equal(errno, 0);
		closedir(dir);
	}
}

/* ---- attributes ---- */

static void a_set_gid_directory_hands_its_group_on(void **state)
{
	struct mount *m = *state;
	mode_t umask_before = umask(022);
	struct stat st;
	int fd;

	if (geteuid() != 0) {
		umask(umask_before);
		skip();
	}
	assert_int_equal(mkdir(in(m, "dir"), 0755), 0);
	assert_int_equal(chown(in(m, "dir"), 0, 50), 0);
	assert_int_equal(chmod(in(m, "dir"), 02775), 0);
	fd = open(in(m, "dir/page"), O_CREAT | O_WRONLY, 0666);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(stat(in(m, "dir/page"), &st), 0);
	assert_int_equal(st.st_gid, 50);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(mkdir(in(m, "dir/sub"), 0777), 0);
	assert_int_equal(stat(in(m, "dir/sub"), &st), 0);
	assert_int_equal(st.st_gid, 50);
	assert_int_equal(st.st_mode & 07777, 02755);
	assert_int_equal(symlink("x", in(m, "dir/link")), 0);
	assert_int_equal(lstat(in(m, "dir/link"), &st), 0);
	assert_int_equal(st.st_gid, 50);
	umask(umask_before);
}

static void a_hole_takes_no_blocks_at_once(void **state)
{
	struct mount *m = *state;
	struct stat st;
	int fd;

	write_page(in(m, "page"), 1, 1u << 20);
	fd = open(in(m, "page"), O_RDWR);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks, 2048);
	assert_int_equal(fallocate(fd,
				   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   0, 1 << 20),
			 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_blocks <= 8);
	assert_int_equal(st.st_size, 1 << 20);
	close(fd);
	assert_int_equal(stat(in(m, "page"), &st), 0);
	assert_true(st.st_blocks <= 8);
	/* Nor does what was cut away count. */
	fd = open(in(m, "page"), O_WRONLY | O_TRUNC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks, 0);
	close(fd);
}

/* ---- under fire ---- */

#define MILLISECONDS 1500

enum change {
	UNLINKED,
	RENAMED_AWAY,
	RENAMED_OVER,
	OVERWRITTEN
};

struct fire {
	struct mount *mount;
	_Atomic int stop;
	_Atomic unsigned long turns, hits;
	_Atomic int bad; /* an errno that must not be, or -1: a part */
	_Atomic unsigned where;
};

static void note(struct fire *fire, int error, unsigned where)
{
	fire->bad = error;
	fire->where = where;
}

static bool write_all(const char *path)
{
	static char bytes[LEN] = {1};
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	bool right = fd >= 0 && write(fd, bytes, LEN) == (ssize_t)LEN;

	return (fd < 0 || close(fd) == 0) && right;
}

static void change(struct fire *fire, enum change how)
{
	const char *page = in(fire->mount, "page");
	const char *other = in(fire->mount, "other");
	bool right = write_all(how == RENAMED_OVER ? other : page);

	if (how == UNLINKED)
		right = unlink(page) == 0 && right;
	else if (how == RENAMED_AWAY)
		right = rename(page, other) == 0 && right;
	else if (how == RENAMED_OVER)
		right = rename(other, page) == 0 && right;
	if (!right)
		note(fire, errno, 100);
}

/* All of it, or nothing. */
static void read_it(struct fire *fire, bool absent_is_right)
{
	static char bytes[LEN + 1];
	const char *path = in(fire->mount, "page");
	struct stat st;
	int fd;

	if (stat(path, &st) == 0) {
		if (st.st_size != LEN)
			note(fire, -1, 1);
	} else if (errno != ENOENT || !absent_is_right) {
		note(fire, errno, 2);
	}
	fd = open(path, O_RDONLY);
	if (fd < 0) {
		if (errno != ENOENT || !absent_is_right)
			note(fire, errno, 3);
		return;
	}
	fire->hits++;
	if (fstat(fd, &st) != 0)
		note(fire, errno, 4);
	else if (st.st_size != LEN)
		note(fire, -1, 5);
	if (read(fd, bytes, LEN + 1) != (ssize_t)LEN)
		note(fire, -1, 6);
	close(fd);
}

/* Calls that walk a path, of a name that is always there. */
static void call_it(struct fire *fire, unsigned turn)
{
	const char *path = in(fire->mount, "page");
	struct timespec times[2] = {{.tv_nsec = UTIME_NOW},
				    {.tv_nsec = UTIME_NOW}};
	int r = 0, fd;

	switch (turn % 8) {
	case 0:
		r = chmod(path, 0644);
		break;
	case 1:
		r = utimensat(AT_FDCWD, path, times, 0);
		break;
	case 2:
		r = (int)getxattr(path, "user.pagefs.tier", NULL, 0);
		break;
	case 3:
		r = setxattr(path, "user.z", "1", 1, 0);
		break;
	case 4:
		r = (int)listxattr(path, NULL, 0);
		break;
	case 5:
		r = truncate(path, LEN);
		break;
	case 6:
		r = fd = open(path, O_RDWR);
		if (fd >= 0)
			close(fd);
		break;
	case 7:
		r = access(path, R_OK);
		break;
	}
	if (r < 0)
		note(fire, errno, 10 + turn % 8);
}

static void until_stopped(struct fire *fire, unsigned who, enum change how)
{
	bool stays = how == OVERWRITTEN || how == RENAMED_OVER;

	for (unsigned turn = 0; !fire->stop && !fire->bad; turn++) {
		if (who == 0) {
			change(fire, how);
			fire->turns++;
		} else if (who == 1 && stays) {
			call_it(fire, turn);
		} else {
			read_it(fire, !stays);
		}
	}
}

static void under_fire(struct mount *m, enum change how)
{
	const struct timespec time = {MILLISECONDS / 1000,
				      MILLISECONDS % 1000 * 1000000};
	struct fire *fire = mmap(NULL, sizeof(*fire), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[4];

	fire->mount = m;
	assert_true(write_all(in(m, "page")));
	for (unsigned i = 0; i < 4; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			until_stopped(fire, i, how);
			_exit(0);
		}
	}
	nanosleep(&time, NULL);
	fire->stop = 1;
	for (int i = 0; i < 4; i++)
		assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
	if (fire->bad)
		fail_msg("at %u: %s", fire->where,
			 fire->bad < 0 ? "a part" : strerror(fire->bad));
	assert_true(fire->turns > 20 && fire->hits > 0);
	munmap(fire, sizeof(*fire));
}

static void a_page_that_comes_and_goes_is_whole_or_absent(void **state)
{
	under_fire(*state, UNLINKED);
	under_fire(*state, RENAMED_AWAY);
}

static void a_page_that_is_replaced_is_whole_and_never_stale(void **state)
{
	under_fire(*state, RENAMED_OVER);
	under_fire(*state, OVERWRITTEN);
}

static void a_symlink_that_is_replaced_always_leads_somewhere(void **state)
{
	struct mount *m = *state;
	const char *link = in(m, "link"), *next = in(m, "next");
	char target[8];
	int status;
	pid_t pid;

	write_page(in(m, "page"), 1, 1000);
	assert_int_equal(symlink("page", link), 0);
	pid = fork();
	if (pid == 0) {
		for (int i = 0; i < 500; i++) {
			if (symlink("page", next) || rename(next, link))
				_exit(1);
		}
		_exit(0);
	}
	while (waitpid(pid, &status, WNOHANG) == 0) {
		assert_int_equal(readlink(link, target, sizeof(target)), 4);
		assert_int_equal(open_errno(link, O_RDONLY), 0);
	}
	assert_int_equal(status, 0);
}

#define TEST(name)                                                             \
	cmocka_unit_test_setup_teardown(name, mount_set_up, mount_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_staging_page_is_not_there_for_others),
		TEST(who_inherits_a_descriptor_sees_the_staging_page),
		TEST(late_changes_reach_what_the_name_leads_to),
		TEST(a_late_open_gets_what_the_name_leads_to),
		TEST(an_unlinked_page_is_what_it_was),
		TEST(a_removed_directory_is_empty_and_has_no_link),
		TEST(a_set_gid_directory_hands_its_group_on),
		TEST(a_hole_takes_no_blocks_at_once),
		TEST(a_page_that_comes_and_goes_is_whole_or_absent),
		TEST(a_page_that_is_replaced_is_whole_and_never_stale),
		TEST(a_symlink_that_is_replaced_always_leads_somewhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
