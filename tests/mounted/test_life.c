/* SPDX-License-Identifier: Apache-2.0 */

/* A daemon's life: starting, refusing to, stopping, being killed. */

#include "tests/mounted/mount_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN 300000u
#define PAGES 40u

static void write_all(struct mount *m)
{
	char name[32];

	mkdir(in(m, "dir"), 0755);
	for (unsigned i = 0; i < PAGES; i++) {
		snprintf(name, sizeof(name), "dir/page%u", i);
		write_page(in(m, name), i, LEN);
	}
}

static void all_are_there(struct mount *m)
{
	char name[32];

	for (unsigned i = 0; i < PAGES; i++) {
		snprintf(name, sizeof(name), "dir/page%u", i);
		if (!page_is(in(m, name), i, LEN))
			fail_msg("%s: %s", name, strerror(errno));
	}
}

static void kill_9_and_a_new_mount_reads_from_memory(void **state)
{
	struct mount *m = *state;

	write_all(m);
	mount_kill(m);
	assert_int_equal(stat_errno(in(m, "dir")), ENOTCONN);
	mount_start(m);
	all_are_there(m);
	assert_int_equal(mount_counter(m, "hits_disk_total"), 0);
}

static void kill_9_and_a_new_mount_reads_from_disk(void **state)
{
	struct mount *m = *state;

	write_all(m);
	assert_int_equal(mount_control(m, "sync", "1"), 0);
	assert_int_equal(mount_control(m, "evict", "*"), 0);
	mount_kill(m);
	mount_start(m);
	all_are_there(m);
	assert_true(mount_counter(m, "hits_disk_total") > 0);
}

static void sigterm_keeps_both_tiers(void **state)
{
	struct mount *m = *state;

	write_all(m);
	assert_int_equal(mount_stop(m), 0);
	assert_int_equal(stat_errno(in(m, "dir")), ENOENT);
	mount_start(m);
	all_are_there(m);
	assert_int_equal(mount_counter(m, "hits_disk_total"), 0);
}

static void umount_frees_memory_and_keeps_the_disk(void **state)
{
	struct mount *m = *state;
	int status;

	write_all(m);
	assert_int_equal(mount_control(m, "stop", "free"), 0);
	assert_int_equal(umount2(m->path, 0), 0);
	assert_int_equal(waitpid(m->daemon, &status, 0), m->daemon);
	assert_int_equal(status, 0);
	m->daemon = 0;
	mount_start(m);
	all_are_there(m);
	assert_true(mount_counter(m, "hits_disk_total") > 0);
}

static void umount_of_a_busy_mount_is_ebusy(void **state)
{
	struct mount *m = *state;
	int fd;

	write_page(in(m, "page"), 1, LEN);
	fd = open(in(m, "page"), O_RDONLY);
	assert_int_equal(umount2(m->path, 0), -1);
	assert_int_equal(errno, EBUSY);
	assert_true(fd_is(fd, 1, LEN));
	close(fd);
}

static void open_files_of_a_dead_daemon_are_enotconn(void **state)
{
	struct mount *m = *state;
	char c;
	int fd, writer;

	write_page(in(m, "page"), 1, LEN);
	fd = open(in(m, "page"), O_RDONLY);
	writer = open(in(m, "new"), O_WRONLY | O_CREAT, 0644);
	assert_int_equal(write(writer, "abc", 3), 3);
	mount_kill(m);
	assert_int_equal(pread(fd, &c, 1, 0), -1);
	assert_int_equal(errno, ENOTCONN);
	assert_int_equal(write(writer, "abc", 3), -1);
	assert_int_equal(errno, ENOTCONN);
	/* A new mount cleans up, open files or not. */
	mount_start(m);
	assert_true(page_is(in(m, "page"), 1, LEN));
	assert_int_equal(stat_errno(in(m, "new")), ENOENT);
	close(fd);
	close(writer);
}

static void sigterm_ends_it_under_open_files(void **state)
{
	struct mount *m = *state;
	int fd, writer;

	write_page(in(m, "page"), 1, LEN);
	fd = open(in(m, "page"), O_RDONLY);
	writer = open(in(m, "page"), O_WRONLY);
	assert_int_equal(write(writer, "abc", 3), 3);
	assert_int_equal(mount_stop(m), 0);
	close(fd);
	close(writer);
	mount_start(m);
	assert_true(page_is(in(m, "page"), 1, LEN));
}

/* ---- refusing to start ---- */

static void refuses(int code, const char *says, const char *const *arguments)
{
	char said[2048];
	int got = mount_command(arguments, said, sizeof(said));

	if (got != code || !strstr(said, says))
		fail_msg("exit %d, \"%s\" instead of %d, \"%s\"", got, said,
			 code, says);
}

#define REFUSES(code, says, ...)                                               \
	refuses(code, says, (const char *const[]){__VA_ARGS__, NULL})

static void wrong_usage_is_2(void **state)
{
	struct mount *m = *state;

	REFUSES(2, "--memory", "--memry", "1G", m->path);
	REFUSES(2, "memory", "--memory", "lots", m->path);
	REFUSES(2, "needs 16M at least", "--memory", "1M", m->path);
	REFUSES(2, "--disk none", "--disk-cap", "0", m->path);
	REFUSES(2, "--disk none", "--disk-cap", "0%", m->path);
	REFUSES(2, "Try 'pagefs mount --help'.", "--memory", "1G");
	REFUSES(2, "one mount point", m->path, m->path);
	REFUSES(2, "allow_other", "-o", "alow_other", m->path);
	REFUSES(2, "config", "-o", "config=/x", m->path);
}

static void each_other_reason_has_its_own_words(void **state)
{
	struct mount *m = *state;
	char path[MOUNT_PATH];

	snprintf(path, sizeof(path), "%s/none", m->root);
	REFUSES(1, "no such directory", path);
	snprintf(path, sizeof(path), "%s/log", m->root);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	REFUSES(1, "not a directory", path);
	REFUSES(1, "does not fit", "--memory", "64T", "--disk", "none",
		m->path);
	mount_start(m);
	REFUSES(1, "mounted there already", "--disk", "none", m->path);
	snprintf(path, sizeof(path), "%s/other", m->root);
	assert_int_equal(mkdir(path, 0755), 0);
	/* The message names the process. */
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)m->daemon);
	REFUSES(1, pid, "--memory", "64M", "--disk", m->disk, path);
}

static void it_goes_to_the_background_once_it_serves(void **state)
{
	struct mount *m = *state;
	const char *const arguments[] = {"--memory", "64M",   "--disk",
					 m->disk,    m->path, NULL};
	char said[2048];

	assert_int_equal(mount_command(arguments, said, sizeof(said)), 0);
	assert_string_equal(said, "");
	write_page(in(m, "page"), 1, LEN);
	assert_true(page_is(in(m, "page"), 1, LEN));
	pid_t pid = (pid_t)mount_counter(m, "pid");

	assert_int_equal(mount_control(m, "stop", "free"), 0);
	assert_int_equal(umount2(m->path, 0), 0);
	for (int i = 0; i < 1000 && kill(pid, 0) == 0; i++)
		usleep(10000);
	assert_int_equal(kill(pid, 0), -1);
}

static void mount_options_are_those_of_other_file_systems(void **state)
{
	struct mount *m = *state;
	struct stat st;

	write_page(in(m, "page"), 1, LEN);
	assert_int_equal(mount_stop(m), 0);
	m->arguments[0] = "-o";
	m->arguments[1] = "ro,uid=12,gid=34,umask=027";
	mount_start(m);
	assert_int_equal(stat(in(m, "page"), &st), 0);
	assert_int_equal(st.st_uid, 12);
	assert_int_equal(st.st_gid, 34);
	assert_int_equal(st.st_mode & 0777, 0750);
	assert_int_equal(open_errno(in(m, "new"), O_CREAT | O_WRONLY), EROFS);
	assert_true(page_is(in(m, "page"), 1, LEN));
}

static void a_configuration_file_is_outranked_by_the_command_line(void **state)
{
	struct mount *m = *state;
	char config[MOUNT_PATH], line[256];
	bool ttl = false, ratio = false;
	FILE *file;

	snprintf(config, sizeof(config), "%s/conf", m->root);
	file = fopen(config, "w");
	fputs("failed_get_ttl_seconds = 7\neviction-ratio = 0.25\n", file);
	fclose(file);
	m->arguments[0] = "--config";
	m->arguments[1] = config;
	m->arguments[2] = "--failed_get_ttl_seconds";
	m->arguments[3] = "3";
	mount_start(m);
	file = fopen(in(m, ".pagefs/config"), "r");
	while (fgets(line, sizeof(line), file)) {
		ttl = ttl || !strcmp(line, "failed_get_ttl_seconds = 3\n");
		ratio = ratio || !strcmp(line, "eviction_ratio = 0.25\n");
	}
	fclose(file);
	assert_true(ttl && ratio);
}

#define TEST(name)                                                             \
	cmocka_unit_test_setup_teardown(name, mount_set_up, mount_tear_down)
#define UNSTARTED(name)                                                        \
	cmocka_unit_test_setup_teardown(name, mount_prepare, mount_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(kill_9_and_a_new_mount_reads_from_memory),
		TEST(kill_9_and_a_new_mount_reads_from_disk),
		TEST(sigterm_keeps_both_tiers),
		TEST(umount_frees_memory_and_keeps_the_disk),
		TEST(umount_of_a_busy_mount_is_ebusy),
		TEST(open_files_of_a_dead_daemon_are_enotconn),
		TEST(sigterm_ends_it_under_open_files),
		TEST(mount_options_are_those_of_other_file_systems),
		UNSTARTED(wrong_usage_is_2),
		UNSTARTED(each_other_reason_has_its_own_words),
		UNSTARTED(it_goes_to_the_background_once_it_serves),
		UNSTARTED(
			a_configuration_file_is_outranked_by_the_command_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
