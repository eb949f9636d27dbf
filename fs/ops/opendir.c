/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <errno.h>

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct node *node = fs_node(req, ino);
	struct handle *handle = node ? handle_new(fs, node) : NULL;

	if (!handle) {
		fuse_reply_err(req, node ? ENOMEM : ESTALE);
		return;
	}
	handle_set(fi, handle);
	if (fuse_reply_open(req, fi) == -ENOENT)
		fs_close(fs, handle);
}

void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	op_release(req, ino, fi);
}
