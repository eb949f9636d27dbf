/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct cache_creator creator;
	struct cache_found found;
	struct cache_name key;
	int outcome;

	if (!fs_name(req, parent, name, &key))
		return;
	creator = fs_creator(req, key.dir, mode | S_IFDIR);
	outcome = cache_mkdir(fs_of(req)->cache, &key, &creator, &found);
	if (outcome)
		fuse_reply_err(req, fs_errno(outcome));
	else
		fs_reply_found(req, &key, &found);
}
