/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_REBUILD_H
#define PAGEFS_CACHE_REBUILD_H

/*
 * Checking and mending a disk tier that nobody has mounted: `pagefs fsck`.
 * Takes the directory's lock.  Blocks; one thread.  A rebuild forgets the pages
 * that only memory has: mount and unmount first, where that works.
 */

#include <stddef.h>
#include <stdint.h>

enum cache_fsck_mode {
	/* Reads headers and the index: does each page of the index have its
	 * records, and is each record whole? */
	CACHE_FSCK_CHECK,
	/* Reads all bytes, too, and checks their checksums. */
	CACHE_FSCK_VERIFY,
	/* Throws the index away and builds it from the buckets. */
	CACHE_FSCK_REBUILD,
};

struct cache_fsck_report {
	uint64_t buckets, records, chunks, chunk_bytes;
	uint64_t damaged;    /* records that are not what was written */
	uint64_t names;	     /* in the index: all kinds */
	uint64_t pages;	     /* of these, with chunks */
	uint64_t incomplete; /* pages without a good copy of a chunk: they
				will be misses (or are in memory only) */
	uint64_t pending;    /* pages not in a bucket yet: memory has them */
};

struct cache_fsck_config {
	const char *dir;
	enum cache_fsck_mode mode;
	/* A line about something found, not terminated by a newline; may be
	 * NULL. */
	void (*found)(void *arg, const char *line);
	/* Now and then: so many buckets of so many. */
	void (*progress)(void *arg, uint64_t done, uint64_t all);
	void *arg;
};

/* 0, whatever was found; -EWOULDBLOCK: it is mounted; -ENOENT: nothing is
 * there; -ENOTDIR: it is no disk tier, and is left as it was; -errno.
 * ret_reason (512 bytes) says why, and on what. */
int cache_fsck(const struct cache_fsck_config *config,
	       struct cache_fsck_report *ret, char *ret_reason);

#endif
