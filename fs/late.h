/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_LATE_H
#define PAGEFS_FS_LATE_H

/*
 * Requests that come too late: about a version that was replaced since the
 * kernel walked to it; or too early: about a staging page that is nobody's
 * business yet.  The kernel walks a path anew once after ESTALE, and each
 * request of a call can use that up, so these are answered as well as can be.
 *
 * Threads: any.
 */

#include <stdbool.h>
#include <stdint.h>

#include "fs/fs.h"

/* The entry that a request about a page or symlink is answered from: of the
 * node's version while its name leads to it or somebody has it open; else of
 * what the name leads to now, as if the kernel had walked there later; else of
 * the version as it was unlinked. */
#define LATE_TRIES 16 /* a name that is replaced again and again */

struct late {
	struct meta_entry entry;
	uint32_t links;
	bool own;   /* the name leads to the node's version */
	bool named; /* the name leads to `entry` */
	struct cache_name name;
	char buf[NAME_MAX_BYTES];
};
/* 0, CACHE_MISS: nothing is known any more, -errno. */
int late_entry(struct fs *fs, struct node *node, struct late *ret);

/* For a moment the kernel shows a staging page to all: between CREATE's reply
 * and the note that its entry is not to be trusted.  Who has no writable handle
 * on it, nor a descriptor, is sent to look the name up (ESTALE, once): true,
 * and the request is answered. */
bool late_refused(fuse_req_t req, struct node *node);
/* The same for who wants to read it: also when all of it is committed, as what
 * comes to it later is not his business. */
bool late_refused_open(fuse_req_t req, struct node *node);

/* What a name leads to that is about to lose it (entry.object 0: not of
 * interest), and that it has lost it: the kernel may ask about it still. */
void late_before(struct fs *fs, const struct cache_name *name,
		 struct cache_found *ret);
void late_gone(struct fs *fs, const struct cache_name *name,
	       const struct cache_found *found);

#endif
