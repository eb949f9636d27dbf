/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <errno.h>

#include "fs/late.h"

void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent,
	     const char *newname)
{
	struct fs *fs = fs_of(req);
	struct node *node = fs_node(req, ino);
	char buf[NAME_MAX_BYTES];
	struct cache_name from, to;
	struct cache_found found;
	int outcome;

	if (!fs_name(req, newparent, newname, &to))
		return;
	if (node && late_refused(req, node))
		return;
	if (!node || node->kind == NODE_CONTROL || node->kind == NODE_DIR)
		outcome = -EPERM;
	else if (node->kind == NODE_STAGING)
		outcome = cache_stage_link(node->staging, &to, &found);
	else if (!fs_node_name(fs, node, buf, &from))
		outcome = CACHE_MISS;
	else
		outcome = cache_link(fs->cache, &from, &to, &found);
	if (outcome) {
		fuse_reply_err(req, fs_errno(outcome));
		return;
	}
	/* It has a link more.  Attributes alone: that waits for no lock. */
	(void)fuse_lowlevel_notify_inval_inode(fs->session, ino, -1, 0);
	fs_reply_found(req, &to, &found);
}
