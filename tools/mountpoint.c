/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/mountpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <mntent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/lib/strbuf.h"

static bool is_dots(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, "/");
}

/* Makes `path` absolute and free of links in its directories, also where its
 * last components aren't there yet (a key that is about to be put). A link at
 * the end is a key itself and is not followed. */
static int absolute(const char *path, char ret[PATH_MAX])
{
	char buffer[PATH_MAX], name[PATH_MAX];
	const char *directory;
	size_t len;
	int error;

	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	strcpy(buffer, path);
	strcpy(name, path);
	if (is_dots(basename(name)))
		return realpath(path, ret) ? 0 : -errno;
	directory = dirname(buffer);
	if (!realpath(directory, ret)) {
		error = errno == ENOENT ? absolute(directory, ret) : -errno;
		if (error)
			return error;
	}
	strcpy(name, path); /* basename() may have changed it */
	len = strlen(ret);
	if (snprintf(ret + len, PATH_MAX - len, "%s%s", len > 1 ? "/" : "",
		     basename(name)) >= (int)(PATH_MAX - len))
		return -ENAMETOOLONG;
	return 0;
}

static bool lies_in(const char *path, const char *mount, size_t mount_len)
{
	return !strncmp(path, mount, mount_len) &&
	       (path[mount_len] == '/' || path[mount_len] == '\0');
}

static bool is_pagefs(const struct mntent *entry)
{
	return !strcmp(entry->mnt_type, "fuse.pagefs");
}

int mountpoint_find(const char *path, struct mountpoint *ret)
{
	FILE *mounts;
	char whole[PATH_MAX];
	struct mntent *entry;
	size_t best = 0;
	bool ours = false;
	int error = absolute(path, whole);

	if (error)
		return error;
	mounts = setmntent("/proc/self/mounts", "r");
	if (!mounts)
		return -errno;
	while ((entry = getmntent(mounts))) {
		size_t len = strlen(entry->mnt_dir);

		/* The longest counts, and of equal ones the last: that is
		 * the one on top. */
		if (len < best || !lies_in(whole, entry->mnt_dir, len))
			continue;
		best = len;
		ours = is_pagefs(entry);
	}
	endmntent(mounts);
	if (!ours)
		return -ENOENT;
	snprintf(ret->path, sizeof(ret->path), "%.*s", (int)best, whole);
	snprintf(ret->key, sizeof(ret->key), "%s",
		 whole[best] == '/' ? whole + best + 1 : "");
	return 0;
}

int mountpoint_only(struct mountpoint *ret)
{
	FILE *mounts = setmntent("/proc/self/mounts", "r");
	struct mntent *entry;
	int count = 0;

	if (!mounts)
		return -errno;
	while ((entry = getmntent(mounts))) {
		if (!is_pagefs(entry))
			continue;
		count++;
		snprintf(ret->path, sizeof(ret->path), "%s", entry->mnt_dir);
		ret->key[0] = '\0';
	}
	endmntent(mounts);
	return count == 1 ? 0 : count ? -E2BIG : -ENOENT;
}

int mountpoint_choose(const char *command, int count, char **arguments,
		      struct mountpoint *ret)
{
	int error = count ? mountpoint_find(arguments[0], ret)
			  : mountpoint_only(ret);

	if (error == -E2BIG)
		fprintf(stderr,
			"pagefs %s: there are several pagefs mounts: name "
			"one of them (findmnt -t fuse.pagefs lists them)\n",
			command);
	else if (error == -ENOENT)
		fprintf(stderr,
			"pagefs %s: %s: no pagefs mount there ('pagefs mount "
			"DIR' makes one)\n",
			command, count ? arguments[0] : "this host");
	else if (error)
		fprintf(stderr, "pagefs %s: %s: %s\n", command,
			count ? arguments[0] : "/proc/self/mounts",
			strerror(-error));
	return error;
}

static int control_open(const struct mountpoint *mountpoint,
			const char *control, int flags)
{
	char path[PATH_MAX + 64];
	int fd;

	snprintf(path, sizeof(path), "%s/.pagefs/%s", mountpoint->path,
		 control);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int mountpoint_read(const struct mountpoint *mountpoint, const char *control,
		    struct strbuf *ret)
{
	int fd = control_open(mountpoint, control, O_RDONLY);
	char piece[16384];
	ssize_t n;

	if (fd < 0)
		return fd;
	while ((n = read(fd, piece, sizeof(piece))) > 0)
		strbuf_add(ret, piece, (size_t)n);
	n = n < 0 ? -errno : 0;
	close(fd);
	return n ? (int)n : strbuf_error(ret);
}

int mountpoint_write(const struct mountpoint *mountpoint, const char *control,
		     const char *text)
{
	int fd = control_open(mountpoint, control, O_WRONLY), error = 0;
	size_t len = strlen(text);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = write(fd, text, len);
	if (n < 0)
		error = -errno;
	else if ((size_t)n != len)
		error = -EIO;
	if (close(fd) && !error)
		error = -errno;
	return error;
}
