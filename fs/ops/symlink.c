/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent,
		const char *name)
{
	struct cache_creator creator;
	struct cache_found found;
	struct cache_name key;
	int outcome;

	if (!fs_name(req, parent, name, &key))
		return;
	creator = fs_creator(req, key.dir, 0777);
	creator.mode = 0777;
	outcome = cache_symlink(fs_of(req)->cache, &key, target, &creator,
				&found);
	if (outcome)
		fuse_reply_err(req, fs_errno(outcome));
	else
		fs_reply_found(req, &key, &found);
}
