/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	fs_close(fs_of(req), handle_of(fi));
	fuse_reply_err(req, 0);
}
