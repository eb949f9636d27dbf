/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/mounted/mount_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATHS 8u

static const char *program(void)
{
	const char *set = getenv("PAGEFS_BIN");

	return set ? set : "build/pagefs";
}

static void pause_ms(long ms)
{
	const struct timespec time = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&time, NULL);
}

const char *in(const struct mount *mount, const char *name)
{
	static _Thread_local char paths[PATHS][MOUNT_PATH];
	static _Thread_local unsigned next;
	char *path = paths[next++ % PATHS];

	snprintf(path, MOUNT_PATH, "%s/%s", mount->path, name);
	return path;
}

/* ---- the daemon ---- */

int mount_prepare(void **state)
{
	struct mount *mount = calloc(1, sizeof(*mount));

	if (!mount)
		return -1;
	snprintf(mount->root, sizeof(mount->root), "/tmp/pagefs-test-XXXXXX");
	if (!mkdtemp(mount->root)) {
		free(mount);
		return -1;
	}
	snprintf(mount->path, sizeof(mount->path), "%s/mnt", mount->root);
	snprintf(mount->disk, sizeof(mount->disk), "%s/disk", mount->root);
	*state = mount;
	return mkdir(mount->path, 0755);
}

int mount_set_up(void **state)
{
	if (mount_prepare(state) != 0)
		return -1;
	mount_start(*state);
	return 0;
}

static void run_daemon(const struct mount *mount)
{
	const char *argv[MOUNT_ARGUMENTS + 16] = {
		program(), "mount",	"--foreground", "--memory", "128M",
		"--disk",  mount->disk, "--log-level",	"debug",
	};
	char log[MOUNT_PATH];
	size_t count = 9;
	int fd;

	for (size_t i = 0; mount->arguments[i]; i++)
		argv[count++] = mount->arguments[i];
	argv[count] = mount->path;
	snprintf(log, sizeof(log), "%s/log", mount->root);
	fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	dup2(fd, STDERR_FILENO);
	dup2(fd, STDOUT_FILENO);
	execv(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

static void show_log(const struct mount *mount)
{
	char line[512], path[MOUNT_PATH];
	FILE *log;

	snprintf(path, sizeof(path), "%s/log", mount->root);
	log = fopen(path, "r");
	while (log && fgets(line, sizeof(line), log))
		fprintf(stderr, "# %s", line);
	if (log)
		fclose(log);
}

/* It, and not the one before it, which may be mounted still. */
static bool serves(const struct mount *mount)
{
	FILE *stats = fopen(in(mount, ".pagefs/stats"), "r");
	char line[512];
	int pid = 0;

	while (stats && fgets(line, sizeof(line), stats))
		(void)sscanf(line, "pid %d", &pid);
	if (stats)
		fclose(stats);
	return pid == mount->daemon;
}

void mount_start(struct mount *mount)
{
	int status;

	assert_int_equal(mount->daemon, 0);
	mount->daemon = fork();
	assert_true(mount->daemon >= 0);
	if (mount->daemon == 0)
		run_daemon(mount);
	for (int i = 0; i < 1000 && !serves(mount); i++) {
		if (waitpid(mount->daemon, &status, WNOHANG) != 0) {
			mount->daemon = 0;
			break;
		}
		pause_ms(10);
	}
	if (!mount->daemon || !serves(mount)) {
		show_log(mount);
		fail_msg("the daemon does not serve");
	}
}

/* Waits for it up to 40 s: its exit code, or -1. */
static int reap(struct mount *mount)
{
	int status = 0;

	for (int i = 0; i < 4000; i++) {
		if (waitpid(mount->daemon, &status, WNOHANG) != 0) {
			mount->daemon = 0;
			return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
		}
		pause_ms(10);
	}
	kill(mount->daemon, SIGKILL);
	waitpid(mount->daemon, &status, 0);
	mount->daemon = 0;
	return -1;
}

int mount_stop(struct mount *mount)
{
	kill(mount->daemon, SIGTERM);
	return reap(mount);
}

void mount_kill(struct mount *mount)
{
	int status;

	kill(mount->daemon, SIGKILL);
	waitpid(mount->daemon, &status, 0);
	mount->daemon = 0;
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *where)
{
	(void)st, (void)type, (void)where;
	return remove(path);
}

int mount_tear_down(void **state)
{
	struct mount *mount = *state;
	int code = 0;

	if (!mount->daemon) { /* to free its memory */
		umount2(mount->path, MNT_DETACH);
		memset(mount->arguments, 0, sizeof(mount->arguments));
		mount_start(mount);
	}
	mount_control(mount, "stop", "free");
	code = mount_stop(mount);
	if (code) {
		fprintf(stderr, "# the daemon ended with %d\n", code);
		show_log(mount);
	}
	nftw(mount->root, remove_one, 16, FTW_PHYS | FTW_DEPTH | FTW_MOUNT);
	free(mount);
	return code;
}

int mount_command(const char *const *arguments, char *ret_said, size_t size)
{
	const char *argv[MOUNT_ARGUMENTS + 3] = {program(), "mount"};
	size_t count = 2, len = 0;
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	for (; *arguments; arguments++)
		argv[count++] = *arguments;
	argv[count] = NULL;
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(ends[1]);
	while ((n = read(ends[0], ret_said + len, size - 1 - len)) > 0)
		len += (size_t)n;
	ret_said[len] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- control files ---- */

uint64_t mount_counter(const struct mount *mount, const char *name)
{
	FILE *stats = fopen(in(mount, ".pagefs/stats"), "r");
	char line[512];
	size_t len = strlen(name);
	uint64_t value = UINT64_MAX;

	assert_non_null(stats);
	while (fgets(line, sizeof(line), stats)) {
		if (strncmp(line, name, len) == 0 && line[len] == ' ')
			value = (uint64_t)strtod(line + len, NULL);
	}
	fclose(stats);
	if (value == UINT64_MAX)
		fail_msg("no %s in .pagefs/stats", name);
	return value;
}

int mount_control(const struct mount *mount, const char *file, const char *line)
{
	char path[MOUNT_PATH], text[MOUNT_PATH];
	int fd, error = 0, len;

	snprintf(path, sizeof(path), "%s/.pagefs/%s", mount->path, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	len = snprintf(text, sizeof(text), "%s\n", line);
	if (write(fd, text, (size_t)len) != len)
		error = -errno;
	close(fd);
	return error;
}

/* ---- pages ---- */

void fill_page(void *bytes, unsigned seed, size_t offset, size_t len)
{
	unsigned char *at = bytes;

	for (size_t i = 0; i < len; i++) {
		size_t place = offset + i;

		at[i] = (unsigned char)(seed * 131 + place + (place >> 9) * 7);
	}
}

void write_page(const char *path, unsigned seed, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	char *bytes = malloc(len + 1);

	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	fill_page(bytes, seed, 0, len);
	assert_int_equal(write(fd, bytes, len), len);
	free(bytes);
	assert_int_equal(close(fd), 0);
}

bool fd_is(int fd, unsigned seed, size_t len)
{
	char *want = malloc(len + 1), *got = malloc(len + 1);
	bool same;

	fill_page(want, seed, 0, len);
	same = pread(fd, got, len + 1, 0) == (ssize_t)len &&
	       memcmp(want, got, len) == 0;
	free(want);
	free(got);
	return same;
}

bool page_is(const char *path, unsigned seed, size_t len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool same = fd >= 0 && fd_is(fd, seed, len);

	if (fd >= 0)
		close(fd);
	return same;
}

bool others_see(const char *path)
{
	struct stat st;
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(stat(path, &st) == 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

int open_errno(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

int stat_errno(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? 0 : errno;
}
