/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <errno.h>

/* The kernel asks about SEEK_DATA and SEEK_HOLE only. */
void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence,
	      struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct handle *handle = handle_of(fi);
	struct cache_page *page;
	off_t found = -EINVAL;

	(void)ino;
	if (handle->writer) {
		found = cache_stage_seek(handle->writer, offset, whence);
	} else if ((page = node_page(fs->nodes, handle->node))) {
		found = cache_page_seek(page, offset, whence);
		cache_page_close(page);
	}
	if (found < 0)
		fuse_reply_err(req, (int)-found);
	else
		fuse_reply_lseek(req, found);
}
