/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct cache_name key;

	if (!fs_name(req, parent, name, &key))
		return;
	fuse_reply_err(req, fs_errno(cache_rmdir(fs_of(req)->cache, &key)));
}
