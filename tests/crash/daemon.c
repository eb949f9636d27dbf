/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/crash/daemon.h"

#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Small, so that pages have several chunks, and what is being written goes to
 * disk before its commit. */
#define MEMORY "24M"

/* ---- processes ---- */

static pid_t spawn(const char *const *arguments)
{
	const char *program = getenv("PAGEFS_BIN");
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		execv(program ? program : "build/pagefs",
		      (char **)(uintptr_t)arguments);
		_exit(127);
	}
	return pid;
}

static int wait_for(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A child of ours (adopted ones, too): 0 when there is none. */
static pid_t any_child(void)
{
	char path[64], text[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%ld/children",
		 (long)getpid());
	file = fopen(path, "r");
	assert_non_null(file);
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	return (pid_t)strtol(text, NULL, 10);
}

/* Whatever has been started is our child in the end. */
static void kill_children(void)
{
	pid_t pid;

	while ((pid = any_child())) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

/* ---- files ---- */

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	return remove(path);
}

int remove_tree(const char *path)
{
	return nftw(path, remove_one, 16, FTW_PHYS | FTW_DEPTH | FTW_MOUNT);
}

int daemon_prepare(struct daemon *daemon)
{
	*daemon = (struct daemon){0};
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		return -1;
	snprintf(daemon->root, sizeof(daemon->root),
		 "/var/tmp/pagefs-crash.XXXXXX");
	if (!mkdtemp(daemon->root))
		return -1;
	snprintf(daemon->mount, sizeof(daemon->mount), "%s/mount",
		 daemon->root);
	snprintf(daemon->disk, sizeof(daemon->disk), "%s/disk", daemon->root);
	return mkdir(daemon->mount, 0755);
}

int daemon_release(struct daemon *daemon)
{
	kill_children();
	umount2(daemon->mount, MNT_DETACH);
	if (daemon->memory_dir[0] && umount2(daemon->memory_dir, MNT_DETACH))
		remove_tree(daemon->memory_dir);
	rmdir(daemon->memory_dir);
	return remove_tree(daemon->root);
}

void daemon_drop_memory(struct daemon *daemon)
{
	assert_int_equal(daemon->pid, 0);
	assert_true(daemon->memory_dir[0]);
	if (umount2(daemon->memory_dir, MNT_DETACH))
		assert_int_equal(remove_tree(daemon->memory_dir), 0);
}

void daemon_drop_index(const struct daemon *daemon)
{
	char path[96];

	assert_int_equal(daemon->pid, 0);
	snprintf(path, sizeof(path), "%s/index", daemon->disk);
	assert_int_equal(remove_tree(path), 0);
}

/* ---- starting ---- */

static bool read_stats(const struct daemon *daemon, char *ret, size_t room)
{
	char path[128];
	FILE *file;
	size_t len;

	snprintf(path, sizeof(path), "%s/.pagefs/stats.json", daemon->mount);
	file = fopen(path, "r");
	if (!file)
		return false;
	len = fread(ret, 1, room - 1, file);
	fclose(file);
	ret[len] = '\0';
	return len > 0;
}

/* What the daemon says of itself: its pid, and where its arena is (root's). */
static void ask(struct daemon *daemon)
{
	char text[16384];
	const char *pid, *instance;

	assert_true(read_stats(daemon, text, sizeof(text)));
	pid = strstr(text, "\"pid\":");
	instance = strstr(text, "\"instance\": \"");
	assert_non_null(pid);
	assert_non_null(instance);
	instance += strlen("\"instance\": \"");
	snprintf(daemon->memory_dir, sizeof(daemon->memory_dir),
		 "/run/pagefs/%.*s", (int)strcspn(instance, "\""), instance);
	daemon->pid = (pid_t)strtol(pid + 6, NULL, 10);
	assert_true(daemon->pid > 1);
}

void daemon_start(struct daemon *daemon, const char *writeback_max_ms)
{
	const char *arguments[] = {"pagefs",
				   "mount",
				   "--memory",
				   MEMORY,
				   "--disk",
				   daemon->disk,
				   "--writeback-max-ms",
				   writeback_max_ms,
				   "--log-level",
				   "warning",
				   daemon->mount,
				   NULL};

	assert_int_equal(wait_for(spawn(arguments)), 0);
	ask(daemon);
}

bool daemon_start_and_kill(struct daemon *daemon, unsigned us, bool by_mount)
{
	const char *arguments[] = {
		"pagefs",      "mount",
		"--memory",    MEMORY,
		"--disk",      daemon->disk,
		"--log-level", "error",
		daemon->mount, by_mount ? NULL : "--foreground",
		NULL};
	char text[64];
	bool served;
	pid_t pid;

	assert_int_equal(daemon->pid, 0);
	pid = spawn(arguments);
	usleep(us);
	if (by_mount) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		/* Its child may be on its way, or serve: both are fine. */
		usleep(us / 4);
	}
	served = read_stats(daemon, text, sizeof(text));
	kill_children();
	return served;
}

void daemon_signal(const struct daemon *daemon)
{
	assert_int_equal(kill(daemon->pid, SIGKILL), 0);
}

void daemon_abort(const struct daemon *daemon)
{
	umount2(daemon->mount, MNT_FORCE);
}

void daemon_reap(struct daemon *daemon)
{
	assert_int_equal(waitpid(daemon->pid, NULL, 0), daemon->pid);
	daemon->pid = 0;
}
