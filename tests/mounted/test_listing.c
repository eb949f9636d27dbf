/* SPDX-License-Identifier: Apache-2.0 */

/* Large directories, listed while they change. */

#include "tests/mounted/mount_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Names that stay, and names that come and go meanwhile. */
static unsigned names(void)
{
	return getenv("PAGEFS_TEST_LONG") ? 1000000 : 20000;
}

static void make(struct mount *m, const char *kind, unsigned i)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "dir/%s%u", kind, i);
	fd = open(in(m, name), O_WRONLY | O_CREAT, 0644);
	if (fd < 0)
		_exit(1);
	close(fd);
}

static void churn(struct mount *m)
{
	char name[64];

	for (unsigned i = 0;; i++) {
		make(m, "churn", i);
		if (i < 100)
			continue;
		snprintf(name, sizeof(name), "dir/churn%u", i - 100);
		unlink(in(m, name));
	}
}

/* How often each of the names that stay is listed. */
static void count_names(const char *path, unsigned char *seen)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	assert_non_null(dir);
	errno = 0;
	while ((entry = readdir(dir))) {
		unsigned i;

		if (sscanf(entry->d_name, "stay%u", &i) == 1) {
			assert_true(i < names());
			assert_int_equal(entry->d_type, DT_REG);
			seen[i]++;
		}
	}
	assert_int_equal(errno, 0);
	closedir(dir);
}

static void a_listing_is_complete_under_churn(void **state)
{
	struct mount *m = *state;
	unsigned char *seen = malloc(names());
	pid_t pid;

	assert_int_equal(mkdir(in(m, "dir"), 0755), 0);
	for (unsigned i = 0; i < names(); i++)
		make(m, "stay", i);
	pid = fork();
	if (pid == 0)
		churn(m);
	for (int round = 0; round < 5; round++) {
		memset(seen, 0, names());
		count_names(in(m, "dir"), seen);
		for (unsigned i = 0; i < names(); i++) {
			if (seen[i] != 1)
				fail_msg("stay%u is listed %u times", i,
					 seen[i]);
		}
	}
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	free(seen);
}

static void a_listing_goes_on_where_it_was(void **state)
{
	struct mount *m = *state;
	unsigned char seen[2000] = {0};
	struct dirent *entry;
	DIR *dir;
	int count = 0;
	unsigned i;

	assert_int_equal(mkdir(in(m, "dir"), 0755), 0);
	for (i = 0; i < 2000; i++)
		make(m, "stay", i);
	dir = opendir(in(m, "dir"));
	/* A position outlives others' unlinks, and seekdir goes back to it. */
	while ((entry = readdir(dir))) {
		long here = telldir(dir);
		char name[300];

		snprintf(name, sizeof(name), "dir/%s", entry->d_name);
		if (sscanf(entry->d_name, "stay%u", &i) == 1)
			assert_int_equal(seen[i]++, 0);
		if (++count % 97 == 0) {
			seekdir(dir, 0);
			assert_string_equal(readdir(dir)->d_name, ".");
			seekdir(dir, here);
			unlink(in(m, name));
		}
	}
	closedir(dir);
	for (i = 0; i < 2000; i++)
		assert_int_equal(seen[i], 1);
}

static void everything_can_be_unlinked_while_listing(void **state)
{
	struct mount *m = *state;
	char command[MOUNT_PATH];
	unsigned i;

	assert_int_equal(mkdir(in(m, "dir"), 0755), 0);
	for (i = 0; i < 5000; i++)
		make(m, "stay", i);
	snprintf(command, sizeof(command), "rm -r %s", in(m, "dir"));
	assert_int_equal(system(command), 0);
	assert_int_equal(stat_errno(in(m, "dir")), ENOENT);
}

static void ls_l_shows_what_stat_shows(void **state)
{
	struct mount *m = *state;
	struct dirent *entry;
	struct stat st;
	DIR *dir;
	int files = 0;

	assert_int_equal(mkdir(in(m, "dir"), 0755), 0);
	write_page(in(m, "dir/a"), 1, 100);
	write_page(in(m, "dir/b"), 1, 200);
	assert_int_equal(link(in(m, "dir/b"), in(m, "dir/c")), 0);
	assert_int_equal(mkdir(in(m, "dir/d"), 0755), 0);
	dir = opendir(in(m, "dir"));
	while ((entry = readdir(dir))) {
		assert_int_equal(fstatat(dirfd(dir), entry->d_name, &st, 0), 0);
		assert_int_equal(entry->d_type, st.st_mode >> 12);
		if (!S_ISREG(st.st_mode))
			continue;
		files++;
		assert_int_equal(entry->d_ino, st.st_ino);
		assert_int_equal(st.st_size,
				 entry->d_name[0] == 'a' ? 100 : 200);
		assert_int_equal(st.st_nlink, entry->d_name[0] == 'a' ? 1 : 2);
	}
	closedir(dir);
	assert_int_equal(files, 3);
}

static bool lists(struct mount *m, const char *name)
{
	DIR *dir = opendir(in(m, "dir"));
	struct dirent *entry;
	bool found = false;

	while (dir && (entry = readdir(dir)))
		found = found || strcmp(entry->d_name, name) == 0;
	if (dir)
		closedir(dir);
	return found;
}

/* What is listed all the time may be a listing that the kernel keeps. */
static void list_for_ever(struct mount *m)
{
	for (;;)
		(void)lists(m, "none");
}

/* At its place, and written elsewhere and moved there. */
static void a_listing_shows_at_once_what_was_closed(void **state)
{
	struct mount *m = *state;
	pid_t listers[2];
	char name[32], path[64];

	assert_int_equal(mkdir(in(m, "dir"), 0755), 0);
	for (int i = 0; i < 2; i++) {
		listers[i] = fork();
		if (listers[i] == 0)
			list_for_ever(m);
	}
	for (unsigned i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "page%u", i);
		snprintf(path, sizeof(path), "dir/%s", name);
		write_page(in(m, i % 2 ? path : "temporary"), i, 4096);
		if (i % 2 == 0)
			assert_int_equal(
				rename(in(m, "temporary"), in(m, path)), 0);
		assert_true(lists(m, name));
		if (i % 3)
			continue;
		assert_int_equal(unlink(in(m, path)), 0);
		assert_false(lists(m, name));
	}
	for (int i = 0; i < 2; i++) {
		kill(listers[i], SIGKILL);
		waitpid(listers[i], NULL, 0);
	}
}

static void a_listing_lacks_at_once_what_pagefs_rm_removes(void **state)
{
	struct mount *m = *state;

	assert_int_equal(mkdir(in(m, "dir"), 0755), 0);
	for (unsigned i = 0; i < 50; i++) {
		write_page(in(m, "dir/page"), i, 100);
		assert_true(lists(m, "page"));
		assert_int_equal(mount_control(m, "remove", "dir/page"), 0);
		assert_false(lists(m, "page"));
	}
}

#define TEST(name)                                                             \
	cmocka_unit_test_setup_teardown(name, mount_set_up, mount_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_listing_is_complete_under_churn),
		TEST(a_listing_goes_on_where_it_was),
		TEST(everything_can_be_unlinked_while_listing),
		TEST(ls_l_shows_what_stat_shows),
		TEST(a_listing_shows_at_once_what_was_closed),
		TEST(a_listing_lacks_at_once_what_pagefs_rm_removes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
