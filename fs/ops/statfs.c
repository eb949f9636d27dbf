/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <sys/statvfs.h>

void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct cache_space space;
	struct statvfs answer = {
		.f_bsize = BLOCK_BYTES,
		.f_frsize = BLOCK_BYTES,
		.f_namemax = NAME_MAX_BYTES,
	};

	(void)ino;
	cache_get_space(fs_of(req)->cache, &space);
	answer.f_blocks = space.total_bytes / BLOCK_BYTES;
	answer.f_bfree = space.free_bytes / BLOCK_BYTES;
	answer.f_bavail = space.available_bytes / BLOCK_BYTES;
	answer.f_files = space.pages + space.pages_free;
	answer.f_ffree = space.pages_free;
	answer.f_favail = space.pages_free;
	fuse_reply_statfs(req, &answer);
}
