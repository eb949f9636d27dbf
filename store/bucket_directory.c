/* SPDX-License-Identifier: Apache-2.0 */
#include "store/bucket_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/lib/clock.h"
#include "tools/lib/log.h"

#define REASON_BYTES 256
#define LOCK_NAME "pagefs.lock"
#define SUPERBLOCK_NAME "pagefs"

__attribute__((format(printf, 3, 4))) static int refuse(char *reason, int error,
							const char *format, ...)
{
	va_list arguments;

	if (reason) {
		va_start(arguments, format);
		vsnprintf(reason, REASON_BYTES, format, arguments);
		va_end(arguments);
	}
	return error;
}

static int make_with_parents(const char *dir)
{
	char *path = strdup(dir);
	int error = 0;

	if (!path)
		return -ENOMEM;
	for (char *at = path + 1; *at && !error; at++) {
		if (*at != '/')
			continue;
		*at = '\0';
		if (mkdir(path, 0700) && errno != EEXIST)
			error = -errno;
		*at = '/';
	}
	if (!error && mkdir(path, 0700) && errno != EEXIST)
		error = -errno;
	free(path);
	return error;
}

static int open_directory(int parent_fd, const char *name)
{
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* The lock's file holds the pid of whoever has it, for messages only. */
static int take_lock(int dir_fd, const char *dir, char *reason)
{
	char pid[24] = "";
	int fd = openat(dir_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ssize_t n;
	int error;

	if (fd < 0) {
		error = -errno;
		return refuse(reason, error, "%s/" LOCK_NAME ": %s", dir,
			      strerror(-error));
	}
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		error = -errno;
		n = pread(fd, pid, sizeof(pid) - 1, 0);
		pid[n > 0 ? n : 0] = '\0';
		pid[strcspn(pid, "\n")] = '\0';
		close(fd);
		return refuse(
			reason, error,
			error == -EWOULDBLOCK
				? "%s is in use by another pagefs, pid %s; "
				  "unmount that one, or give this one a "
				  "directory of its own"
				: "%s can't be locked (%s)",
			dir, error == -EWOULDBLOCK ? pid : strerror(-error));
	}
	n = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
	/* Only a message would suffer. */
	if (ftruncate(fd, 0) || pwrite(fd, pid, (size_t)n, 0) != n)
		log_warning("%s/" LOCK_NAME ": the pid could not be written",
			    dir);
	return fd;
}

/* Whole or not at all: written under another name first. */
int directory_write_superblock(struct buckets *buckets)
{
	unsigned char block[BLOCK_BYTES];
	int error = 0, fd;

	format_encode_superblock(&buckets->superblock, block);
	fd = openat(buckets->parent_fd, SUPERBLOCK_NAME ".new",
		    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	errno = EIO; /* for a short write */
	if (pwrite(fd, block, sizeof(block), 0) != (ssize_t)sizeof(block) ||
	    fdatasync(fd))
		error = -errno;
	close(fd);
	if (!error && renameat(buckets->parent_fd, SUPERBLOCK_NAME ".new",
			       buckets->parent_fd, SUPERBLOCK_NAME))
		error = -errno;
	if (!error && fsync(buckets->parent_fd))
		error = -errno;
	return error;
}

static int new_superblock(struct buckets *buckets, uint64_t node)
{
	struct format_superblock *superblock = &buckets->superblock;

	*superblock = (struct format_superblock){
		.version = FORMAT_VERSION,
		.node = node,
		.created_ns = clock_realtime_ns(),
	};
	while (superblock->node == 0) {
		if (getrandom(&superblock->node, sizeof(superblock->node), 0) <
		    0)
			return -errno;
	}
	return directory_write_superblock(buckets);
}

static int read_superblock(struct buckets *buckets, const char *dir,
			   uint64_t node, char *reason)
{
	unsigned char block[BLOCK_BYTES];
	int fd = openat(buckets->parent_fd, SUPERBLOCK_NAME,
			O_RDONLY | O_CLOEXEC);
	ssize_t n;
	int r;

	if (fd < 0 && errno == ENOENT)
		r = new_superblock(buckets, node);
	else if (fd < 0)
		r = -errno;
	else {
		n = pread(fd, block, sizeof(block), 0);
		r = n < 0 ? -errno
			  : format_decode_superblock(block, (size_t)n,
						     &buckets->superblock);
		close(fd);
	}
	switch (r) {
	case 0:
		return 0;
	case FORMAT_NEWER:
		return refuse(
			reason, -EPROTO,
			"%s was written by a newer pagefs (format %" PRIu32
			", this one knows %u); upgrade pagefs, or give it "
			"another directory",
			dir, buckets->superblock.version, FORMAT_VERSION);
	case FORMAT_OTHER:
		return refuse(reason, -EPROTO,
			      "%s/" SUPERBLOCK_NAME
			      " is not a pagefs superblock; "
			      "give pagefs a directory of its own",
			      dir);
	case FORMAT_DAMAGED:
		return refuse(
			reason, -EPROTO,
			"%s/" SUPERBLOCK_NAME " is damaged; remove it and "
			"start again: a new one is made, and the buckets are "
			"kept",
			dir);
	default:
		return refuse(reason, r, "%s/" SUPERBLOCK_NAME ": %s", dir,
			      strerror(-r));
	}
}

/* The node's id is the caller's where it has one. */
static void settle_node(struct buckets *buckets, const char *dir, uint64_t node)
{
	if (node == 0 || node == buckets->superblock.node)
		return;
	log_info("disk: %s was node %016" PRIx64 "'s, and is %016" PRIx64
		 "'s from now on",
		 dir, buckets->superblock.node, node);
	buckets->superblock.node = node;
	if (directory_write_superblock(buckets))
		log_warning("disk: %s/" SUPERBLOCK_NAME " could not be written",
			    dir);
}

static int open_buckets(struct buckets *buckets, const char *dir, char *reason)
{
	int error = 0;

	if (asprintf(&buckets->path, "%s/buckets", dir) < 0) {
		buckets->path = NULL;
		return -ENOMEM;
	}
	if (mkdirat(buckets->parent_fd, "buckets", 0700) && errno != EEXIST)
		error = -errno;
	if (!error)
		error = buckets->fd =
			open_directory(buckets->parent_fd, "buckets");
	if (error < 0)
		return refuse(reason, error, "%s: %s", buckets->path,
			      strerror(-error));
	return 0;
}

int directory_open(struct buckets *buckets, const struct buckets_config *config,
		   char *reason)
{
	int error = make_with_parents(config->dir);

	buckets->parent_fd = buckets->lock_fd = buckets->fd = -1;
	if (!error) {
		buckets->parent_fd = open_directory(AT_FDCWD, config->dir);
		if (buckets->parent_fd < 0)
			error = buckets->parent_fd;
	}
	if (error)
		return refuse(
			reason, error,
			"%s: %s; make it, or let pagefs' user write there",
			config->dir, strerror(-error));
	error = buckets->lock_fd =
		take_lock(buckets->parent_fd, config->dir, reason);
	if (error >= 0)
		error = read_superblock(buckets, config->dir, config->node,
					reason);
	if (!error)
		error = open_buckets(buckets, config->dir, reason);
	if (error) {
		directory_close(buckets);
		return error;
	}
	settle_node(buckets, config->dir, config->node);
	return 0;
}

static void close_if_open(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void directory_close(struct buckets *buckets)
{
	close_if_open(&buckets->fd);
	close_if_open(&buckets->parent_fd);
	close_if_open(&buckets->lock_fd); /* last: it frees the lock */
	free(buckets->path);
	buckets->path = NULL;
}
