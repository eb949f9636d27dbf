/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <errno.h>

#include "fs/late.h"

/* Another may have taken its place between the walk to it and this. */
static int read_target(struct fs *fs, struct node *node, char *ret, size_t size)
{
	struct late late;
	int outcome = cache_readlink(fs->cache, node->object, ret, size);

	for (int i = 0; i < LATE_TRIES && outcome == CACHE_MISS; i++) {
		if (late_entry(fs, node, &late) || !late.named)
			break;
		outcome =
			cache_readlink(fs->cache, late.entry.object, ret, size);
	}
	return outcome;
}

void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct node *node = fs_node(req, ino);
	char target[SYMLINK_MAX_BYTES + 1];
	int outcome = -EINVAL;

	if (node && node->kind == NODE_SYMLINK)
		outcome = read_target(fs_of(req), node, target, sizeof(target));
	if (outcome)
		fuse_reply_err(req, fs_errno(outcome));
	else
		fuse_reply_readlink(req, target);
}
