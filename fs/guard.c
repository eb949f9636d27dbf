/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/mount.h"
#include "tools/lib/checksum.h"
#include "tools/lib/clock.h"
#include "tools/lib/log.h"

#define NAME_WAIT_NS (2 * CLOCK_NS_PER_SECOND)
#define NAME_RETRY_US 10000

/* The same path means another mount in another mount namespace. */
static void name_of(const char *mount_point, struct sockaddr_un *ret,
		    socklen_t *ret_len)
{
	char namespace[32] = "";
	uint64_t id[2];

	if (readlink("/proc/self/ns/mnt", namespace, sizeof(namespace) - 1) < 0)
	namespace[0] = '\0';
	checksum_key(mount_point, strlen(mount_point), id);
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	/* From the second byte on: an abstract name. */
	snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1,
		 "pagefs-guard/%s/%016llx%016llx", namespace,
		 (unsigned long long)id[1], (unsigned long long)id[0]);
	*ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			       strlen(ret->sun_path + 1));
}

/* A socket that has the name, or -errno. */
static int take_name(const char *mount_point)
{
	uint64_t until_ns = clock_monotonic_ns() + NAME_WAIT_NS;
	struct sockaddr_un name;
	socklen_t len;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), error;

	if (fd < 0)
		return -errno;
	name_of(mount_point, &name, &len);
	while (bind(fd, (struct sockaddr *)&name, len) != 0) {
		error = -errno;
		if (error != -EADDRINUSE || clock_monotonic_ns() >= until_ns) {
			close(fd);
			return error;
		}
		usleep(NAME_RETRY_US);
	}
	return fd;
}

/* The daemon's first thread has ended: others may be stuck. */
static bool is_dead(pid_t daemon)
{
	char path[64], text[256];
	const char *state;
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)daemon);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		return true;
	text[len] = '\0';
	state = strrchr(text, ')');
	return state && (state[2] == 'Z' || state[2] == 'X');
}

/* A reference keeps the dead mount in place, so that nobody writes to the
 * directory below it: with MNT_FORCE the connection is aborted first, and then
 * the mount found busy. */
static void abort_connection(const char *mount_point)
{
	int held = open(mount_point, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (held >= 0 && mount_point_is_pagefs(mount_point))
		(void)umount2(mount_point, MNT_FORCE | UMOUNT_NOFOLLOW);
}

/* Holds nothing of the daemon's but the name. */
static void let_go(int name)
{
	int null = open("/dev/null", O_RDWR);

	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	dup2(name, STDERR_FILENO + 1);
	closefrom(STDERR_FILENO + 2);
}

static void guard_main(const char *mount_point, pid_t daemon, int name)
{
	sigset_t signals;

	sigfillset(&signals);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	prctl(PR_SET_PDEATHSIG, SIGHUP);
	prctl(PR_SET_NAME, "pagefs-guard");
	let_go(name);
	sigemptyset(&signals);
	sigaddset(&signals, SIGHUP);
	/* Others may send one, too; and the daemon may have died before the
	 * prctl(). */
	while (!is_dead(daemon) && getppid() == daemon)
		sigwaitinfo(&signals, NULL);
	abort_connection(mount_point);
	_exit(0);
}

pid_t guard_start(const char *mount_point)
{
	pid_t daemon = getpid(), guard;
	int name = take_name(mount_point);

	if (name < 0) {
		log_warning("%s: no guard (%s): if this daemon is killed, "
			    "callers may hang until `umount -f`",
			    mount_point, strerror(-name));
		return 0;
	}
	guard = fork();
	if (guard == 0)
		guard_main(mount_point, daemon, name);
	if (guard < 0)
		log_warning("%s: no guard: fork: %s", mount_point,
			    strerror(errno));
	close(name);
	return guard < 0 ? 0 : guard;
}

void guard_end(pid_t guard)
{
	if (!guard)
		return;
	kill(guard, SIGKILL);
	waitpid(guard, NULL, 0);
}
