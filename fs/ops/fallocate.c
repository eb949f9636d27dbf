/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <errno.h>

void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset,
		  off_t length, struct fuse_file_info *fi)
{
	struct handle *handle = handle_of(fi);
	int outcome = -EBADF;

	(void)ino;
	if (handle->writer)
		outcome = cache_stage_allocate(handle->writer, mode,
					       (uint64_t)offset,
					       (uint64_t)length);
	fuse_reply_err(req, fs_errno(outcome));
}
