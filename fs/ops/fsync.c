/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

/* A page that is only read may still be on its way to the disk. */
void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
	      struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct handle *handle = handle_of(fi);
	int outcome = 0;

	(void)ino;
	(void)datasync;
	if (handle->writer) {
		outcome = cache_stage_sync(handle->writer);
		if (outcome == 0)
			fs_published(fs, handle->node, NULL, NULL);
	} else if (!handle->control) {
		outcome = cache_sync(fs->cache);
	}
	fuse_reply_err(req, fs_errno(outcome));
}

void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync,
		 struct fuse_file_info *fi)
{
	op_fsync(req, ino, datasync, fi);
}
