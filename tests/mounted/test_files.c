/* SPDX-License-Identifier: Apache-2.0 */

/* What files do, a sentence of DESIGN's table each. */

#include "tests/mounted/mount_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define LEN 200000u

static int create(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	return fd;
}

static bool listed(const char *dir, const char *name)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	bool found = false;

	assert_non_null(d);
	while ((entry = readdir(d)))
		found = found || strcmp(entry->d_name, name) == 0;
	closedir(d);
	return found;
}

static off_t size_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

/* ---- writing ---- */

static void a_page_shows_itself_when_it_is_closed(void **state)
{
	struct mount *m = *state;
	int fd = create(in(m, "page"));

	assert_int_equal(write(fd, "abc", 3), 3);
	assert_int_equal(size_of(in(m, "page")), 3);
	assert_false(others_see(in(m, "page")));
	assert_false(listed(m->path, "page"));
	close(fd);
	assert_true(others_see(in(m, "page")));
	assert_true(listed(m->path, "page"));
}

static void the_close_of_a_duplicate_commits(void **state)
{
	struct mount *m = *state;
	int fd = create(in(m, "page")), other = dup(fd);
	uint64_t commits;

	assert_int_equal(write(other, "abc", 3), 3);
	close(other);
	assert_true(others_see(in(m, "page")));
	commits = mount_counter(m, "commits_total");
	close(fd);
	assert_int_equal(mount_counter(m, "commits_total"), commits);
}

static void a_child_that_inherits_commits_nothing(void **state)
{
	struct mount *m = *state;
	int fd = create(in(m, "page"));

	assert_int_equal(write(fd, "abc", 3), 3);
	/* Closes it by exec, as it is O_CLOEXEC. */
	assert_int_equal(system("true"), 0);
	assert_false(others_see(in(m, "page")));
	assert_int_equal(write(fd, "def", 3), 3);
	close(fd);
	assert_int_equal(size_of(in(m, "page")), 6);
}

static void what_a_child_wrote_is_committed_by_its_exit(void **state)
{
	struct mount *m = *state;
	int fd = create(in(m, "page"));
	pid_t pid = fork();

	if (pid == 0)
		_exit(write(fd, "abc", 3) != 3);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(others_see(in(m, "page")));
	close(fd);
}

static void a_killed_writer_leaves_nothing(void **state)
{
	struct mount *m = *state;
	int ready[2];
	pid_t pid;
	char c;

	write_page(in(m, "old"), 1, LEN);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		int fresh = create(in(m, "new"));
		int old = open(in(m, "old"), O_WRONLY);

		if (write(fresh, "abc", 3) != 3 || write(old, "abc", 3) != 3 ||
		    write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(stat_errno(in(m, "new")), ENOENT);
	assert_true(page_is(in(m, "old"), 1, LEN));
}

static void a_rename_takes_its_writers_along(void **state)
{
	struct mount *m = *state;
	int fd;

	write_page(in(m, "page"), 1, LEN);
	fd = create(in(m, "page.tmp"));
	assert_int_equal(write(fd, "abc", 3), 3);
	assert_int_equal(rename(in(m, "page.tmp"), in(m, "page")), 0);
	assert_int_equal(write(fd, "def", 3), 3);
	close(fd);
	assert_int_equal(size_of(in(m, "page")), 6);
	assert_int_equal(stat_errno(in(m, "page.tmp")), ENOENT);
}

static void several_descriptors_write_one_page(void **state)
{
	struct mount *m = *state;
	char bytes[LEN];
	int fds[4];

	for (unsigned i = 0; i < 4; i++) {
		fds[i] = open(in(m, "page.tmp"), O_RDWR | O_CREAT, 0644);
		assert_true(fds[i] >= 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		fill_page(bytes, 5, i * LEN / 4, LEN / 4);
		assert_int_equal(pwrite(fds[i], bytes, LEN / 4, i * LEN / 4),
				 LEN / 4);
		if (i == 2)
			rename(in(m, "page.tmp"), in(m, "page"));
	}
	for (unsigned i = 0; i < 4; i++)
		close(fds[i]);
	assert_true(page_is(in(m, "page"), 5, LEN));
}

static void an_mmap_writer_may_close_before_its_first_store(void **state)
{
	struct mount *m = *state;
	int fd = create(in(m, "page"));
	char *bytes;

	assert_int_equal(ftruncate(fd, LEN), 0);
	bytes = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(bytes, MAP_FAILED);
	close(fd);
	fill_page(bytes, 3, 0, LEN);
	munmap(bytes, LEN);
	for (int i = 0; i < 100 && !page_is(in(m, "page"), 3, LEN); i++)
		usleep(10000);
	assert_true(page_is(in(m, "page"), 3, LEN));
}

static void an_unlinked_open_file_can_be_written_and_read(void **state)
{
	struct mount *m = *state;
	char bytes[4];
	int fd;

	assert_int_equal(mkdir(in(m, "dir"), 0755), 0);
	fd = create(in(m, "dir/page"));
	assert_int_equal(write(fd, "ab", 2), 2);
	assert_int_equal(unlink(in(m, "dir/page")), 0);
	assert_int_equal(write(fd, "cd", 2), 2);
	assert_int_equal(pread(fd, bytes, 4, 0), 4);
	assert_memory_equal(bytes, "abcd", 4);
	assert_int_equal(rmdir(in(m, "dir")), 0);
	close(fd);
}

static void appending_goes_to_the_end(void **state)
{
	struct mount *m = *state;
	int fd;

	write_page(in(m, "page"), 1, 10);
	fd = open(in(m, "page"), O_WRONLY | O_APPEND);
	assert_int_equal(write(fd, "abc", 3), 3);
	assert_int_equal(write(fd, "abc", 3), 3);
	close(fd);
	assert_int_equal(size_of(in(m, "page")), 16);
}

static void direct_io_works_at_any_offset(void **state)
{
	struct mount *m = *state;
	char *bytes = aligned_alloc(4096, LEN + 4096), want[LEN];
	int fd = open(in(m, "page"), O_RDWR | O_CREAT | O_DIRECT, 0644);

	assert_true(fd >= 0);
	fill_page(bytes, 2, 0, LEN);
	assert_int_equal(pwrite(fd, bytes, LEN, 0), LEN);
	close(fd);
	fd = open(in(m, "page"), O_RDONLY | O_DIRECT);
	fill_page(want, 2, 0, LEN);
	assert_int_equal(pread(fd, bytes, LEN, 1), LEN - 1);
	assert_memory_equal(bytes, want + 1, LEN - 1);
	close(fd);
	free(bytes);
}

static void fallocate_makes_room_and_zeroes(void **state)
{
	struct mount *m = *state;
	int fd = create(in(m, "page"));
	struct stat st;
	char c;

	assert_int_equal(posix_fallocate(fd, 0, 100000), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 100000);
	assert_int_equal(pread(fd, &c, 1, 99999), 1);
	assert_int_equal(c, 0);
	assert_int_equal(fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 4096), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	close(fd);
	assert_int_equal(size_of(in(m, "page")), 100000);
}

static void o_tmpfile_is_exactly_eopnotsupp(void **state)
{
	struct mount *m = *state;

	assert_int_equal(open_errno(m->path, O_TMPFILE | O_RDWR), EOPNOTSUPP);
}

static void a_sparse_file_has_holes(void **state)
{
	struct mount *m = *state;
	int fd = create(in(m, "page"));
	struct stat st;

	assert_int_equal(pwrite(fd, "x", 1, (off_t)8 << 30), 1);
	close(fd);
	assert_int_equal(stat(in(m, "page"), &st), 0);
	assert_int_equal(st.st_size, ((off_t)8 << 30) + 1);
	assert_true(st.st_blocks * 512 < 64 << 20);
	fd = open(in(m, "page"), O_RDONLY);
	assert_int_equal(lseek(fd, 0, SEEK_HOLE), 0);
	assert_true(lseek(fd, 0, SEEK_DATA) > (off_t)4 << 30);
	close(fd);
}

static void fsync_of_a_reader_or_writer_works(void **state)
{
	struct mount *m = *state;
	int fd = create(in(m, "page"));

	assert_int_equal(write(fd, "abc", 3), 3);
	assert_int_equal(fsync(fd), 0);
	assert_true(others_see(in(m, "page")));
	assert_int_equal(mount_counter(m, "pending_pages"), 0);
	close(fd);
	fd = open(in(m, "page"), O_RDONLY);
	assert_int_equal(fsync(fd), 0);
	close(fd);
	fd = open(m->path, O_RDONLY | O_DIRECTORY);
	assert_int_equal(fsync(fd), 0);
	close(fd);
}

static void cp_copies(void **state)
{
	struct mount *m = *state;
	char command[MOUNT_PATH * 3];

	write_page(in(m, "page"), 1, LEN);
	snprintf(command, sizeof(command),
		 "cp %s/page %s/copy && cp -a %s/page %s/archive", m->path,
		 m->path, m->path, m->path);
	assert_int_equal(system(command), 0);
	assert_true(page_is(in(m, "copy"), 1, LEN));
	assert_true(page_is(in(m, "archive"), 1, LEN));
}

/* ---- names ---- */

static void names_have_255_bytes_and_any_character(void **state)
{
	struct mount *m = *state;
	char name[258];

	memset(name, '@', sizeof(name));
	name[255] = '\0';
	write_page(in(m, name), 1, 10);
	assert_true(page_is(in(m, name), 1, 10));
	name[255] = '@';
	name[256] = '\0';
	assert_int_equal(open_errno(in(m, name), O_RDONLY), ENAMETOOLONG);
	assert_int_equal(open_errno(in(m, name), O_CREAT | O_WRONLY),
			 ENAMETOOLONG);
	write_page(in(m, "a%b=c+d:e\nf"), 2, 10);
	assert_true(page_is(in(m, "a%b=c+d:e\nf"), 2, 10));
}

static void directories_are_made_and_removed(void **state)
{
	struct mount *m = *state;
	struct stat st;

	assert_int_equal(mkdir(in(m, "a"), 0750), 0);
	assert_int_equal(mkdir(in(m, "a"), 0750), -1);
	assert_int_equal(errno, EEXIST);
	assert_int_equal(mkdir(in(m, "a/b"), 0750), 0);
	assert_int_equal(stat(in(m, "a"), &st), 0);
	assert_int_equal(st.st_nlink, 3);
	assert_int_equal(st.st_mode, S_IFDIR | 0750);
	assert_int_equal(rmdir(in(m, "a")), -1);
	assert_int_equal(errno, ENOTEMPTY);
	write_page(in(m, "a/b/page"), 1, LEN);
	assert_int_equal(rename(in(m, "a"), in(m, "c")), 0);
	assert_true(page_is(in(m, "c/b/page"), 1, LEN));
	assert_int_equal(stat_errno(in(m, "a/b/page")), ENOENT);
	assert_int_equal(unlink(in(m, "c/b/page")), 0);
	assert_int_equal(rmdir(in(m, "c/b")), 0);
	assert_int_equal(rmdir(in(m, "c")), 0);
}

static void a_directorys_time_moves_with_its_names(void **state)
{
	struct mount *m = *state;
	struct stat before, after;

	assert_int_equal(stat(m->path, &before), 0);
	usleep(5000);
	write_page(in(m, "page"), 1, 10);
	/* The notifier tells the kernel. */
	for (int i = 0; i < 100; i++) {
		assert_int_equal(stat(m->path, &after), 0);
		if (after.st_mtim.tv_nsec != before.st_mtim.tv_nsec)
			break;
		usleep(1000);
	}
	assert_true(after.st_mtim.tv_sec > before.st_mtim.tv_sec ||
		    after.st_mtim.tv_nsec > before.st_mtim.tv_nsec);
}

static void links_share_bytes_and_go_their_ways(void **state)
{
	struct mount *m = *state;
	struct stat st;

	write_page(in(m, "a"), 1, LEN);
	assert_int_equal(link(in(m, "a"), in(m, "b")), 0);
	assert_int_equal(stat(in(m, "a"), &st), 0);
	assert_int_equal(st.st_nlink, 2);
	write_page(in(m, "a"), 2, LEN);
	assert_true(page_is(in(m, "b"), 1, LEN));
	assert_true(page_is(in(m, "a"), 2, LEN));
	assert_int_equal(stat(in(m, "b"), &st), 0);
	assert_int_equal(st.st_nlink, 1);
	assert_int_equal(unlink(in(m, "a")), 0);
	assert_true(page_is(in(m, "b"), 1, LEN));
}

static void symlinks_lead(void **state)
{
	struct mount *m = *state;
	char target[16] = "";

	write_page(in(m, "page"), 1, LEN);
	assert_int_equal(symlink("page", in(m, "link")), 0);
	assert_int_equal(readlink(in(m, "link"), target, sizeof(target)), 4);
	assert_string_equal(target, "page");
	assert_true(page_is(in(m, "link"), 1, LEN));
}

static void renames_replace_exchange_or_refuse(void **state)
{
	struct mount *m = *state;

	write_page(in(m, "a"), 1, LEN);
	write_page(in(m, "b"), 2, LEN);
	assert_int_equal(renameat2(AT_FDCWD, in(m, "a"), AT_FDCWD, in(m, "b"),
				   RENAME_NOREPLACE),
			 -1);
	assert_int_equal(errno, EEXIST);
	assert_int_equal(renameat2(AT_FDCWD, in(m, "a"), AT_FDCWD, in(m, "b"),
				   RENAME_EXCHANGE),
			 0);
	assert_true(page_is(in(m, "a"), 2, LEN));
	assert_true(page_is(in(m, "b"), 1, LEN));
	assert_int_equal(rename(in(m, "a"), in(m, "b")), 0);
	assert_true(page_is(in(m, "b"), 2, LEN));
	assert_int_equal(stat_errno(in(m, "a")), ENOENT);
}

static void o_excl_is_eexist_for_a_staged_name(void **state)
{
	struct mount *m = *state;
	int fd = create(in(m, "page")), status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(open_errno(in(m, "page"), O_CREAT | O_EXCL | O_WRONLY));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), EEXIST);
	assert_int_equal(rmdir(m->path), -1);
	close(fd);
}

static void device_nodes_are_eperm(void **state)
{
	struct mount *m = *state;

	assert_int_equal(mknod(in(m, "dev"), S_IFCHR | 0600, makedev(1, 3)),
			 -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(mknod(in(m, "page"), S_IFREG | 0600, 0), 0);
	assert_int_equal(size_of(in(m, "page")), 0);
}

/* ---- attributes ---- */

static void times_are_kept_as_set(void **state)
{
	struct mount *m = *state;
	const struct timespec set[2] = {{1000, 5}, {2000, 7}};
	const struct timespec touch[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
	struct stat st;

	write_page(in(m, "page"), 1, 10);
	assert_int_equal(utimensat(AT_FDCWD, in(m, "page"), set, 0), 0);
	assert_true(page_is(in(m, "page"), 1, 10));
	assert_int_equal(stat(in(m, "page"), &st), 0);
	assert_int_equal(st.st_mtim.tv_sec, 2000);
	assert_int_equal(st.st_mtim.tv_nsec, 7);
	assert_int_equal(utimensat(AT_FDCWD, in(m, "page"), touch, 0), 0);
	assert_int_equal(stat(in(m, "page"), &st), 0);
	assert_int_equal(st.st_mtim.tv_sec, 2000);
	assert_true(st.st_atim.tv_sec >= time(NULL) - 60);
}

static void modes_and_owners_are_kept(void **state)
{
	struct mount *m = *state;
	struct stat st;

	write_page(in(m, "page"), 1, 10);
	assert_int_equal(chmod(in(m, "page"), 0600), 0);
	assert_int_equal(chown(in(m, "page"), 123, 456), 0);
	assert_int_equal(stat(in(m, "page"), &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	assert_int_equal(st.st_uid, 123);
	assert_int_equal(st.st_gid, 456);
	assert_int_equal(chmod(m->path, 0711), 0);
	assert_int_equal(stat(m->path, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0711);
}

static void xattrs_survive_the_rename_of_a_temp_file(void **state)
{
	struct mount *m = *state;
	char value[64] = "";
	int fd = create(in(m, "page.tmp"));

	assert_int_equal(fsetxattr(fd, "user.model", "abc", 3, 0), 0);
	assert_int_equal(write(fd, "abc", 3), 3);
	close(fd);
	assert_int_equal(rename(in(m, "page.tmp"), in(m, "page")), 0);
	assert_int_equal(
		getxattr(in(m, "page"), "user.model", value, sizeof(value)), 3);
	assert_int_equal(getxattr(in(m, "page"), "user.none", value, 1), -1);
	assert_int_equal(errno, ENODATA);
	assert_int_equal(removexattr(in(m, "page"), "user.model"), 0);
	assert_int_equal(getxattr(in(m, "page"), "user.model", value, 1), -1);
}

static void facts_are_xattrs_that_only_read(void **state)
{
	struct mount *m = *state;
	char value[64] = "", names[512];

	write_page(in(m, "page"), 1, LEN);
	assert_int_equal(mount_control(m, "sync", "1"), 0);
	assert_true(getxattr(in(m, "page"), "user.pagefs.tier", value,
			     sizeof(value)) > 0);
	assert_string_equal(value, "memory,disk");
	assert_int_equal(mount_control(m, "evict", "page"), 0);
	memset(value, 0, sizeof(value));
	assert_int_equal(getxattr(in(m, "page"), "user.pagefs.tier", value,
				  sizeof(value)),
			 4);
	assert_string_equal(value, "disk");
	assert_int_equal(setxattr(in(m, "page"), "user.pagefs.tier", "x", 1, 0),
			 -1);
	assert_true(listxattr(in(m, "page"), names, sizeof(names)) > 0);
	assert_true(page_is(in(m, "page"), 1, LEN));
}

static void du_and_df_tell_the_truth(void **state)
{
	struct mount *m = *state;
	struct statvfs before, after;
	struct stat st;

	assert_int_equal(statvfs(m->path, &before), 0);
	write_page(in(m, "page"), 1, 8 << 20);
	assert_int_equal(statvfs(m->path, &after), 0);
	assert_int_equal(stat(in(m, "page"), &st), 0);
	assert_int_equal(st.st_blocks * 512, 8 << 20);
	assert_int_equal(after.f_namemax, 255);
	assert_true(before.f_bfree - after.f_bfree >= (8 << 20) / 4096 ||
		    before.f_bfree > after.f_bfree);
	assert_int_equal(mount_control(m, "sync", "1"), 0);
	assert_int_equal(mount_control(m, "evict", "page"), 0);
	assert_int_equal(stat(in(m, "page"), &st), 0);
	assert_int_equal(st.st_blocks * 512, 8 << 20);
}

static void locks_hold_on_this_host(void **state)
{
	struct mount *m = *state;
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	int a, b;

	write_page(in(m, "page"), 1, 10);
	a = open(in(m, "page"), O_RDONLY);
	b = open(in(m, "page"), O_RDONLY);
	assert_int_equal(flock(a, LOCK_EX), 0);
	assert_int_equal(flock(b, LOCK_EX | LOCK_NB), -1);
	assert_int_equal(errno, EWOULDBLOCK);
	assert_int_equal(fcntl(a, F_SETLK, &lock), 0);
	close(a);
	assert_int_equal(flock(b, LOCK_EX | LOCK_NB), 0);
	close(b);
}

static void control_files_are_reached_by_name_only(void **state)
{
	struct mount *m = *state;

	assert_false(listed(m->path, ".pagefs"));
	assert_true(listed(in(m, ".pagefs"), "stats"));
	assert_int_equal(mkdir(in(m, ".pagefs"), 0755), -1);
	assert_int_equal(open_errno(in(m, ".pagefs/x"), O_CREAT | O_WRONLY),
			 EPERM);
	assert_int_equal(mount_control(m, "config", "memory = 1G"), -EINVAL);
	assert_int_equal(mount_control(m, "config", "nonsense = 1"), -EINVAL);
	assert_int_equal(mount_control(m, "stop", "nonsense"), -EINVAL);
	assert_int_equal(mount_control(m, "evict", "/none"), -ENOENT);
	assert_true(mount_counter(m, "pid") == (uint64_t)m->daemon);
}

#define TEST(name)                                                             \
	cmocka_unit_test_setup_teardown(name, mount_set_up, mount_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_page_shows_itself_when_it_is_closed),
		TEST(the_close_of_a_duplicate_commits),
		TEST(a_child_that_inherits_commits_nothing),
		TEST(what_a_child_wrote_is_committed_by_its_exit),
		TEST(a_killed_writer_leaves_nothing),
		TEST(a_rename_takes_its_writers_along),
		TEST(several_descriptors_write_one_page),
		TEST(an_mmap_writer_may_close_before_its_first_store),
		TEST(an_unlinked_open_file_can_be_written_and_read),
		TEST(appending_goes_to_the_end),
		TEST(direct_io_works_at_any_offset),
		TEST(fallocate_makes_room_and_zeroes),
		TEST(o_tmpfile_is_exactly_eopnotsupp),
		TEST(a_sparse_file_has_holes),
		TEST(fsync_of_a_reader_or_writer_works),
		TEST(cp_copies),
		TEST(names_have_255_bytes_and_any_character),
		TEST(directories_are_made_and_removed),
		TEST(a_directorys_time_moves_with_its_names),
		TEST(links_share_bytes_and_go_their_ways),
		TEST(symlinks_lead),
		TEST(renames_replace_exchange_or_refuse),
		TEST(o_excl_is_eexist_for_a_staged_name),
		TEST(device_nodes_are_eperm),
		TEST(times_are_kept_as_set),
		TEST(modes_and_owners_are_kept),
		TEST(xattrs_survive_the_rename_of_a_temp_file),
		TEST(facts_are_xattrs_that_only_read),
		TEST(du_and_df_tell_the_truth),
		TEST(locks_hold_on_this_host),
		TEST(control_files_are_reached_by_name_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
