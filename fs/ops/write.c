/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <errno.h>

#include "fs/control.h"

void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size,
	      off_t offset, struct fuse_file_info *fi)
{
	struct handle *handle = handle_of(fi);
	uint64_t at = (uint64_t)offset;
	ssize_t written = -EBADF;

	(void)ino;
	if (handle->control) {
		written = control_write(handle->control, data, size);
		if (written == 0)
			written = (ssize_t)size;
	} else if (handle->writer) {
		/* 0: what was stored by mmap. */
		if (fuse_req_ctx(req)->pid)
			handle->last_thread = fuse_req_ctx(req)->pid;
		written = cache_stage_write(handle->writer, data, size, &at);
	}
	if (written < 0)
		fuse_reply_err(req, (int)-written);
	else
		fuse_reply_write(req, (size_t)written);
}
