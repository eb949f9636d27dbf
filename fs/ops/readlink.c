/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <errno.h>

void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct node *node = fs_node(req, ino);
	char target[SYMLINK_MAX_BYTES + 1];
	int outcome = -EINVAL;

	if (node && node->kind == NODE_SYMLINK)
		outcome = cache_readlink(fs_of(req)->cache, node->object,
					 target, sizeof(target));
	if (outcome)
		fuse_reply_err(req, fs_errno(outcome));
	else
		fuse_reply_readlink(req, target);
}
