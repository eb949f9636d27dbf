/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_daemon.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/mountpoint.h"

extern char **environ;

/* 0, or -errno; an exit code that is not 0 is -EIO. */
static int run_self(const char *const *arguments)
{
	char *argv[BENCH_ARGUMENTS_MAX + 1];
	size_t count = 0;
	pid_t pid;
	int status, error;

	for (; arguments[count]; count++) {
		if (count == BENCH_ARGUMENTS_MAX)
			return -E2BIG;
		argv[count] = (char *)(uintptr_t)arguments[count];
	}
	argv[count] = NULL;
	error = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ);
	if (error)
		return -error;
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

static int make_directories(struct bench_daemon *daemon, const char *parent)
{
	snprintf(daemon->root, sizeof(daemon->root), "%s/pagefs-bench.XXXXXX",
		 parent);
	if (!mkdtemp(daemon->root))
		return -errno;
	snprintf(daemon->mount, sizeof(daemon->mount), "%s/mount",
		 daemon->root);
	snprintf(daemon->disk, sizeof(daemon->disk), "%s/disk", daemon->root);
	return mkdir(daemon->mount, 0755) ? -errno : 0;
}

int bench_daemon_mount(const struct bench_daemon *daemon,
		       const char *const *arguments)
{
	const char *argv[BENCH_ARGUMENTS_MAX + 1] = {"pagefs", "mount"};
	size_t count = 2;

	argv[count++] = "--disk";
	argv[count++] = daemon->disk;
	for (; *arguments && count < BENCH_ARGUMENTS_MAX - 1; arguments++)
		argv[count++] = *arguments;
	argv[count++] = daemon->mount;
	return run_self(argv);
}

int bench_daemon_start(struct bench_daemon *daemon, const char *parent,
		       const char *const *arguments)
{
	int error = make_directories(daemon, parent);

	if (error)
		return error;
	error = bench_daemon_mount(daemon, arguments);
	if (error)
		bench_daemon_remove(daemon);
	return error;
}

int bench_daemon_kill(const struct bench_daemon *daemon)
{
	pid_t pid = (pid_t)bench_daemon_counter(daemon, "pid");

	if (pid <= 0)
		return -ESRCH;
	if (kill(pid, SIGKILL))
		return -errno;
	while (!kill(pid, 0))
		usleep(1000);
	return 0;
}

int bench_daemon_stop(const struct bench_daemon *daemon)
{
	const char *argv[] = {"pagefs", "umount", daemon->mount, NULL};

	return run_self(argv);
}

int bench_daemon_control(const struct bench_daemon *daemon, const char *control,
			 const char *text)
{
	struct mountpoint mountpoint;

	snprintf(mountpoint.path, sizeof(mountpoint.path), "%s", daemon->mount);
	return mountpoint_write(&mountpoint, control, text);
}

json_t *bench_daemon_stats(const struct bench_daemon *daemon)
{
	char path[4352];

	snprintf(path, sizeof(path), "%s/.pagefs/stats.json", daemon->mount);
	return json_load_file(path, 0, NULL);
}

uint64_t bench_daemon_counter(const struct bench_daemon *daemon,
			      const char *name)
{
	json_t *stats = bench_daemon_stats(daemon);
	double value = json_number_value(json_object_get(stats, name));

	json_decref(stats);
	return value > 0 ? (uint64_t)value : 0;
}

static uint64_t walked_bytes;

static int add_file(const char *path, const struct stat *st, int type,
		    struct FTW *where)
{
	(void)path, (void)where;
	if (type == FTW_F)
		walked_bytes += (uint64_t)st->st_blocks * 512;
	return 0;
}

uint64_t bench_daemon_disk_bytes(const struct bench_daemon *daemon)
{
	walked_bytes = 0;
	nftw(daemon->disk, add_file, 16, FTW_PHYS | FTW_MOUNT);
	return walked_bytes;
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *where)
{
	(void)st, (void)type, (void)where;
	return remove(path);
}

void bench_daemon_remove(const struct bench_daemon *daemon)
{
	nftw(daemon->root, remove_one, 16, FTW_PHYS | FTW_DEPTH | FTW_MOUNT);
}
