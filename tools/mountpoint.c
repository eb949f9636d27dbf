/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/mountpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/lib/strbuf.h"

/* Where the last component of path[0 .. end) starts, slashes at its end
 * aside, which *end is cut by. */
static size_t last_component(const char *path, size_t *end)
{
	size_t start;

	while (*end > 1 && path[*end - 1] == '/')
		(*end)--;
	start = *end;
	while (start && path[start - 1] != '/')
		start--;
	return start;
}

static bool is_dots(const char *name, size_t len)
{
	return len <= 2 && !strncmp(name, "..", len);
}

/* Adds components that are not there (yet). */
static int append(char path[PATH_MAX], const char *rest, const char *end)
{
	size_t len = strlen(path);

	while (rest < end) {
		size_t step = (size_t)(end - rest);
		const char *slash = memchr(rest, '/', step);

		if (slash)
			step = (size_t)(slash - rest);
		if (step && is_dots(rest, step))
			return -ENOENT;
		if (len + step + 2 > PATH_MAX)
			return -ENAMETOOLONG;
		if (step && path[len - 1] != '/')
			path[len++] = '/';
		memcpy(path + len, rest, step);
		len += step;
		path[len] = '\0';
		rest += step + 1;
	}
	return 0;
}

/* Makes `path` absolute and free of links in its directories, also where its
 * last components aren't there yet (a key that is about to be put). A link at
 * the end is a key itself and is not followed. */
static int absolute(const char *path, char ret[PATH_MAX])
{
	char directory[PATH_MAX];
	size_t end = strlen(path), start;

	if (end >= PATH_MAX)
		return -ENAMETOOLONG;
	start = last_component(path, &end);
	if (is_dots(path + start, end - start))
		return realpath(path, ret) ? 0 : -errno;
	for (size_t at = start;; at = last_component(path, &at)) {
		snprintf(directory, sizeof(directory), "%.*s", (int)at, path);
		if (realpath(at ? directory : ".", ret))
			return append(ret, path + at, path + end);
		if (errno != ENOENT || !at)
			return -errno;
	}
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

/* The file system that an absolute path lies in: 0 if it is a pagefs. */
static int find_mount(const char *path, struct mountpoint *ret)
{
	FILE *mounts = setmntent("/proc/self/mounts", "r");
	struct mntent *entry;
	size_t best = 0;
	bool ours = false;

	if (!mounts)
		return -errno;
	while ((entry = getmntent(mounts))) {
		size_t len = strlen(entry->mnt_dir);

		/* The longest counts, and of equal ones the last: that is
		 * the one on top. */
		if (len < best || !lies_in(path, entry->mnt_dir, len))
			continue;
		best = len;
		ours = is_pagefs(entry);
	}
	endmntent(mounts);
	if (!ours)
		return -ENOENT;
	snprintf(ret->path, sizeof(ret->path), "%.*s", (int)best, path);
	snprintf(ret->key, sizeof(ret->key), "%s",
		 path[best] == '/' ? path + best + 1 : "");
	return 0;
}

int mountpoint_find(const char *path, struct mountpoint *ret)
{
	char whole[PATH_MAX];
	struct stat st;
	int error = absolute(path, whole);

	if (!error)
		error = find_mount(whole, ret);
	/* A link outside that leads to the mount, or to a directory in it. */
	if (error == -ENOENT && !stat(path, &st) && S_ISDIR(st.st_mode) &&
	    realpath(path, whole))
		error = find_mount(whole, ret);
	return error;
}

int mountpoint_only(struct mountpoint *ret)
{
	FILE *mounts = setmntent("/proc/self/mounts", "r");
	struct mntent *entry;
	int count = 0;

	if (!mounts)
		return -errno;
	ret->key[0] = '\0';
	while ((entry = getmntent(mounts))) {
		/* One on top of another is one. */
		if (!is_pagefs(entry) ||
		    (count && !strcmp(ret->path, entry->mnt_dir)))
			continue;
		count++;
		snprintf(ret->path, sizeof(ret->path), "%s", entry->mnt_dir);
	}
	endmntent(mounts);
	return count == 1 ? 0 : count ? -E2BIG : -ENOENT;
}

bool mountpoint_dead(int error)
{
	return error == -ENOTCONN || error == -ECONNABORTED;
}

const char *mountpoint_reason(int error)
{
	if (mountpoint_dead(error))
		return "the daemon of this mount is gone: mount again, or "
		       "clean up with 'pagefs umount'";
	return strerror(-error);
}

static void complain(const char *command, const char *path, int error)
{
	fprintf(stderr, "pagefs %s: ", command);
	if (error == -E2BIG)
		fputs("there are several pagefs mounts: name one of them "
		      "(findmnt -t fuse.pagefs lists them)\n",
		      stderr);
	else if (error == -ENOENT)
		fprintf(stderr,
			"%s: no pagefs mount there ('pagefs mount DIR' makes "
			"one)\n",
			path ? path : "this host");
	else
		fprintf(stderr, "%s: %s\n", path ? path : "/proc/self/mounts",
			mountpoint_reason(error));
}

int mountpoint_choose(const char *command, int count, char **arguments,
		      struct mountpoint *ret)
{
	int error = count ? mountpoint_find(arguments[0], ret)
			  : mountpoint_only(ret);

	if (error)
		complain(command, count ? arguments[0] : NULL, error);
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

int mountpoint_write_key(const struct mountpoint *mountpoint,
			 const char *control, const char *before,
			 const char *key)
{
	struct strbuf line;
	int error;

	if (strchr(key, '\n'))
		return -EINVAL;
	strbuf_init(&line, 0);
	strbuf_printf(&line, "%s/%s", before, key);
	error = strbuf_error(&line);
	if (!error)
		error = mountpoint_write(mountpoint, control,
					 strbuf_text(&line));
	strbuf_release(&line);
	return error;
}
