/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `pagefs umount`: unmounts, and returns when the daemon has written what was
 * pending and is gone.
 */

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/holders.h"
#include "tools/lib/clock.h"
#include "tools/lib/size.h"
#include "tools/lib/strbuf.h"
#include "tools/mountpoint.h"
#include "tools/tools.h"

extern char **environ;

struct umount_options {
	bool keep_memory;
	bool lazy;
	uint64_t timeout_ns;
};

#define FIELD(name) .offset = offsetof(struct umount_options, name)

static const struct option_spec specs[] = {
	{.name = "keep-memory",
	 .type = OPTION_FLAG,
	 .letter = 'k',
	 FIELD(keep_memory),
	 .help = "keep the memory tier for the next mount (an upgrade)"},
	{.name = "lazy",
	 .type = OPTION_FLAG,
	 .letter = 'l',
	 FIELD(lazy),
	 .help = "take the mount away now; the daemon ends when the last "
		 "file is closed"},
	{.name = "timeout",
	 .type = OPTION_DURATION,
	 FIELD(timeout_ns),
	 .help = "how long to wait for the daemon to end",
	 .initial = "2m"},
	{.name = NULL},
};

static const struct command command = {
	.name = "umount",
	.arguments = "[OPTION]... [MOUNT]",
	.summary = "Stop a mount: what is pending is written to disk, memory "
		   "is freed.",
	.detail = "Returns when the daemon is gone. A mount whose daemon is "
		  "gone already is taken\naway; its memory tier stays for the "
		  "next mount, which finds its pages again.",
	.examples = "  pagefs umount /mnt/kv\n"
		    "  pagefs umount --keep-memory /mnt/kv && pagefs mount "
		    "/mnt/kv",
	.specs = specs,
	.max_arguments = 1,
};

/* What the daemon says of itself before it is stopped. */
struct daemon {
	int pidfd; /* -1: it can't be seen */
	long pid;
	uint64_t pending_pages;
	uint64_t pending_bytes;
};

/* 0 or -errno (mountpoint_dead()). */
static int ask_daemon(const struct mountpoint *mountpoint, struct daemon *ret)
{
	struct strbuf text;
	json_t *stats;
	int error;

	*ret = (struct daemon){.pidfd = -1};
	strbuf_init(&text, 0);
	error = mountpoint_read(mountpoint, "stats.json", &text);
	stats = error ? NULL : json_loads(strbuf_text(&text), 0, NULL);
	strbuf_release(&text);
	ret->pid = (long)json_number_value(json_object_get(stats, "pid"));
	ret->pending_pages = (uint64_t)json_number_value(
		json_object_get(stats, "pending_pages"));
	ret->pending_bytes = (uint64_t)json_number_value(
		json_object_get(stats, "pending_bytes"));
	json_decref(stats);
	if (ret->pid > 0)
		ret->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)ret->pid, 0);
	return error;
}

/* Root does it himself, others through the setuid helper: 0 or -errno. */
static int unmount(const char *path, bool lazy)
{
	char program[] = "fusermount3", mode[] = "-u", quiet[] = "-q",
	     detach[] = "-z", end[] = "--", mount[PATH_MAX];
	char *argv[] = {program, mode, quiet, end, mount, NULL, NULL};
	pid_t pid;
	int status, error;

	if (!umount2(path, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)))
		return 0;
	if (errno != EPERM)
		return -errno;
	snprintf(mount, sizeof(mount), "%s", path);
	if (lazy) {
		argv[3] = detach;
		argv[4] = end;
		argv[5] = mount;
	}
	error = posix_spawnp(&pid, program, NULL, NULL, argv, environ);
	if (error)
		return error == ENOENT ? -ENOPKG : -error;
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EBUSY;
}

static void print_holder(void *arg, const struct holder *holder)
{
	(void)arg;
	fprintf(stderr, "  %d %s: %s %s\n", (int)holder->pid, holder->program,
		holder->how, holder->path);
}

static int explain(const char *path, int error)
{
	if (error == -ENOPKG)
		return command_fail(&command,
				    "%s: fusermount3 is missing (apt install "
				    "fuse3)",
				    path);
	command_fail(&command, "%s: %s", path,
		     error == -EBUSY ? "is in use by:" : strerror(-error));
	if (error == -EBUSY && !holders_each(path, print_holder, NULL))
		fputs("  (processes of other users: look as root)\n", stderr);
	if (error == -EBUSY)
		fputs("End them, or use --lazy.\n", stderr);
	return COMMAND_FAILED;
}

static int clean_up(const char *path)
{
	int error = unmount(path, true);

	if (error)
		return explain(path, error);
	fprintf(stderr,
		"pagefs umount: %s: the daemon was gone already; the mount "
		"has been taken away\n",
		path);
	return COMMAND_OK;
}

static void say_what_for(const struct daemon *daemon)
{
	char size[SIZE_TEXT_MAX];

	if (daemon->pending_pages)
		fprintf(stderr,
			"pagefs umount: waiting for the daemon (pid %ld) to "
			"write %llu pages (%s) to disk\n",
			daemon->pid, (unsigned long long)daemon->pending_pages,
			size_format_rounded(daemon->pending_bytes, size,
					    sizeof(size)));
	else
		fprintf(stderr,
			"pagefs umount: waiting for the daemon (pid %ld) to "
			"end\n",
			daemon->pid);
}

/* True once the process is gone. */
static bool is_gone(const struct daemon *daemon, int wait_ms)
{
	struct pollfd poll_fd = {.fd = daemon->pidfd, .events = POLLIN};

	return poll(&poll_fd, 1, wait_ms) == 1;
}

static int await(const struct umount_options *values,
		 const struct daemon *daemon, const char *path)
{
	uint64_t end_ns = clock_monotonic_ns() + values->timeout_ns;

	if (daemon->pidfd < 0 || is_gone(daemon, 1000))
		return COMMAND_OK;
	if (values->lazy) {
		fprintf(stderr,
			"pagefs umount: %s: the daemon (pid %ld) ends when "
			"the last file is closed\n",
			path, daemon->pid);
		return COMMAND_OK;
	}
	say_what_for(daemon);
	while (clock_monotonic_ns() < end_ns)
		if (is_gone(daemon, 100))
			return COMMAND_OK;
	return command_fail(
		&command,
		"%s: is unmounted, but its daemon (pid %ld) still runs: the "
		"disk is slow (its log says), or the mount is held in another "
		"mount namespace, such as a container's",
		path, daemon->pid);
}

static int stop(const struct umount_options *values,
		const struct mountpoint *mountpoint)
{
	struct daemon daemon;
	int error = ask_daemon(mountpoint, &daemon), code;

	if (mountpoint_dead(error))
		return clean_up(mountpoint->path);
	/* Where we may not ask (another user's mount), memory is kept. */
	if (!error)
		error = mountpoint_write(mountpoint, "stop",
					 values->keep_memory ? "keep" : "free");
	/* A read-only one decides by itself: it keeps what others left. */
	if (error && error != -EROFS)
		fprintf(stderr,
			"pagefs umount: %s: %s: the memory tier is kept\n",
			mountpoint->path, strerror(-error));
	error = unmount(mountpoint->path, values->lazy);
	if (error) {
		mountpoint_write(mountpoint, "stop", "keep");
		code = explain(mountpoint->path, error);
	} else {
		code = await(values, &daemon, mountpoint->path);
	}
	if (daemon.pidfd >= 0)
		close(daemon.pidfd);
	return code;
}

int tool_umount(int argc, char **argv)
{
	struct umount_options values;
	struct mountpoint mountpoint;
	struct options options;
	int first, code;

	if (command_parse(&command, argc, argv, &values, &options, &first,
			  &code)) {
		if (mountpoint_choose("umount", argc - first, argv + first,
				      &mountpoint))
			code = COMMAND_FAILED;
		else if (*mountpoint.key)
			code = command_fail(
				&command,
				"%s: is a path in the mount %s, not a mount",
				argv[first], mountpoint.path);
		else
			code = stop(&values, &mountpoint);
	}
	options_release(&options);
	return code;
}
