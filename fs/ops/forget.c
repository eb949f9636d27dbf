/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

static void forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
	struct node *node = fs_node(req, ino);

	if (node)
		node_forget(fs_of(req)->nodes, node, count);
}

void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
	forget(req, ino, count);
	fuse_reply_none(req);
}

void op_forget_multi(fuse_req_t req, size_t count,
		     struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		forget(req, forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}
