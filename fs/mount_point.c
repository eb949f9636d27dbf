/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/mount.h"
#include "tools/lib/log.h"

extern char **environ;

static int fail(char *reason, int error, const char *what, const char *path,
		const char *why)
{
	snprintf(reason, MOUNT_REASON_BYTES, "%s %.700s: %s", what, path, why);
	return error;
}

/* An absolute path without asking a file system that may be dead: only the
 * directories above the last component are resolved. */
static int absolute(const char *path, char ret[PATH_MAX])
{
	char copy[PATH_MAX], above[PATH_MAX];
	size_t len = strlen(path);
	char *slash;

	if (len >= sizeof(copy))
		return -ENAMETOOLONG;
	memcpy(copy, path, len + 1);
	while (len > 1 && copy[len - 1] == '/')
		copy[--len] = '\0';
	slash = strrchr(copy, '/');
	if (slash == copy || strcmp(copy, ".") == 0 || strcmp(copy, "..") == 0)
		return realpath(copy, ret) ? 0 : -errno;
	if (slash)
		*slash = '\0';
	if (!realpath(slash ? copy : ".", above))
		return -errno;
	if (snprintf(ret, PATH_MAX, "%s/%s", strcmp(above, "/") ? above : "",
		     slash ? slash + 1 : copy) >= PATH_MAX)
		return -ENAMETOOLONG;
	return 0;
}

bool mount_point_is_pagefs(const char *path)
{
	FILE *mounts = setmntent("/proc/self/mounts", "r");
	bool ours = false;
	struct mntent *entry;

	while (mounts && (entry = getmntent(mounts))) {
		if (strcmp(entry->mnt_dir, path) == 0)
			ours = strcmp(entry->mnt_type, "fuse.pagefs") == 0;
	}
	if (mounts)
		endmntent(mounts);
	return ours;
}

int mount_point_detach(const char *path)
{
	char program[] = "fusermount3", options[] = "-uqz", end[] = "--";
	char copy[PATH_MAX];
	char *argv[] = {program, options, end, copy, NULL};
	pid_t pid;
	int status, error;

	if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		return 0;
	if (errno != EPERM)
		return -errno;
	snprintf(copy, sizeof(copy), "%s", path);
	error = posix_spawnp(&pid, program, NULL, NULL, argv, environ);
	if (error)
		return -error;
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

static int clean_up(const char *path, char *reason)
{
	int error = mount_point_detach(path);

	if (error)
		return fail(reason, error, "mount point", path,
			    "holds a mount whose daemon is gone, and it can't "
			    "be taken away: try `fusermount3 -u` or, as root, "
			    "`umount -l`");
	log_warning("%s: took away a mount whose daemon was gone", path);
	return 0;
}

/* The kernel may know the attributes still when there is nobody to ask any
 * more; how much space there is, it always asks. */
static int look(const char *path, struct stat *ret)
{
	struct statvfs space;

	return statvfs(path, &space) || stat(path, ret) ? -errno : 0;
}

int mount_point_check(const char *path, char ret_path[PATH_MAX],
		      char reason[MOUNT_REASON_BYTES])
{
	char found[PATH_MAX];
	struct statvfs fs;
	struct stat st;
	int error = absolute(path, found);

	/* A dead mount's stat may be answered by what the kernel remembers. */
	if (!error && (stat(found, &st) != 0 || statvfs(found, &fs) != 0))
		error = -errno;
	if (error == -ENOTCONN || error == -ECONNABORTED) {
		error = clean_up(found, reason);
		if (error)
			return error;
		error = look(found, &st);
	}
	if (error == -ENOENT)
		return fail(reason, error, "mount point", path,
			    "there is no such directory; make it with mkdir");
	if (error)
		return fail(reason, error, "mount point", path,
			    strerror(-error));
	if (!S_ISDIR(st.st_mode))
		return fail(reason, -ENOTDIR, "mount point", path,
			    "is not a directory");
	if (mount_point_is_pagefs(found))
		return fail(reason, -EBUSY, "mount point", path,
			    "pagefs is mounted there already; `pagefs umount` "
			    "ends it");
	if (!realpath(found, ret_path))
		return fail(reason, -errno, "mount point", path,
			    strerror(errno));
	if (access(ret_path, W_OK) != 0 && geteuid() != 0)
		return fail(reason, -EACCES, "mount point", path,
			    "is not yours to write to, as fusermount3 wants "
			    "it");
	return 0;
}

/* The device number of the file system mounted there, as the kernel's table of
 * mounts has it: asking the file system itself might wait for ourselves. */
static bool device_of(const char *path, char ret[32])
{
	FILE *table = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t room = 0;
	bool found = false;

	while (table && getline(&line, &room, table) > 0) {
		char device[32], where[PATH_MAX];

		/* Blanks in paths are written as \040: no match, no tuning. */
		if (sscanf(line, "%*d %*d %31s %*s %4095s", device, where) ==
			    2 &&
		    strcmp(where, path) == 0) {
			memcpy(ret, device, sizeof(device));
			found = true;
		}
	}
	free(line);
	if (table)
		fclose(table);
	return found;
}

void mount_point_read_ahead(const char *path, unsigned kib)
{
	char device[32], file[96], text[16];
	int fd, len;

	if (!device_of(path, device))
		return;
	snprintf(file, sizeof(file), "/sys/class/bdi/%s/read_ahead_kb", device);
	fd = open(file, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	len = snprintf(text, sizeof(text), "%u", kib);
	if (write(fd, text, (size_t)len) != len)
		log_debug("%s: %s", file, strerror(errno));
	close(fd);
}
