/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <stdio.h>

#include "fs/late.h"

/* The kernel moves its entry along: the node must know where it is, or its
 * next open would have to look it up once more. */
static void follow(struct fs *fs, const struct cache_name *from,
		   const struct cache_name *to)
{
	struct cache_found found;
	int outcome = cache_lookup(fs->cache, to, 0, &found);

	if (outcome == 0)
		fs_renamed(fs, from, to, &found);
	else if (outcome == CACHE_STAGED)
		cache_staging_put(found.staging);
}

void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
	       fuse_ino_t newparent, const char *newname, unsigned int flags)
{
	struct fs *fs = fs_of(req);
	struct cache_found over;
	struct cache_name from, to;
	int outcome;

	if (!fs_name(req, parent, name, &from) ||
	    !fs_name(req, newparent, newname, &to))
		return;
	late_before(fs, &to, &over);
	outcome = cache_rename(fs->cache, &from, &to, flags);
	if (outcome == 0) {
		follow(fs, &from, &to);
		if (flags & RENAME_EXCHANGE)
			follow(fs, &to, &from);
		else
			late_gone(fs, &to, &over);
	}
	fuse_reply_err(req, fs_errno(outcome));
}
