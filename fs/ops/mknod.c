/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <errno.h>

/* An empty page.  Devices, pipes and sockets are no pages. */
void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	      dev_t device)
{
	struct fs *fs = fs_of(req);
	struct cache_creator creator;
	struct cache_writer *writer;
	struct cache_found found;
	struct cache_name key;
	bool committed;
	int outcome;

	(void)device;
	if (!S_ISREG(mode)) {
		fuse_reply_err(req, EPERM);
		return;
	}
	if (!fs_name(req, parent, name, &key))
		return;
	creator = fs_creator(req, key.dir, mode);
	outcome = cache_stage_open(fs->cache, &key,
				   CACHE_STAGE_CREATE | CACHE_STAGE_EXCLUSIVE,
				   &creator, fs_process(req), &writer);
	if (outcome == 0) {
		outcome = cache_stage_flush(writer, false, &committed);
		cache_stage_close(writer, &committed);
	}
	if (outcome == 0)
		outcome = fs_lookup(req, &key, &found);
	if (outcome == 0)
		fs_reply_found(req, &key, &found);
	else
		fuse_reply_err(req, fs_errno(outcome));
}
