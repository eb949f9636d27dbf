/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <errno.h>

#include "fs/control.h"

/* Straight from the slots, from whichever thread has the bytes. */
static void have_bytes(void *arg, ssize_t result, const struct iovec *iov,
		       int count)
{
	fuse_req_t req = arg;
	struct fs *fs = fs_of(req);

	if (result < 0)
		fuse_reply_err(req, (int)-result);
	else
		fuse_reply_iov(req, iov, count);
	fs_background_end(fs);
}

static void read_control(fuse_req_t req, struct control_file *file, size_t size,
			 off_t offset)
{
	size_t len;
	const char *text = control_read(file, (size_t)offset, size, &len);

	fuse_reply_buf(req, text, len);
}

void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
	     struct fuse_file_info *fi)
{
	struct handle *handle = handle_of(fi);

	(void)ino;
	if (handle->control) {
		read_control(req, handle->control, size, offset);
		return;
	}
	fs_background_begin(fs_of(req));
	if (handle->writer)
		cache_stage_read(handle->writer, (uint64_t)offset, size,
				 have_bytes, req);
	else
		cache_page_read(handle->page, (uint64_t)offset, size,
				have_bytes, req);
}
