/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include "fs/late.h"

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs *fs = fs_of(req);
	struct cache_found found;
	struct cache_name key;
	int outcome;

	if (!fs_name(req, parent, name, &key))
		return;
	late_before(fs, &key, &found);
	outcome = cache_rmdir(fs->cache, &key);
	if (outcome == 0)
		late_gone(fs, &key, &found);
	fuse_reply_err(req, fs_errno(outcome));
}
