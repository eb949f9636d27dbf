/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <errno.h>

#include "fs/late.h"

void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct node *node = fs_node(req, ino);
	struct stat attr;
	double seconds;
	int error = ESTALE;

	(void)fi;
	if (node && late_refused(req, node))
		return;
	if (node)
		error = fs_getattr(fs_of(req), node, &attr, &seconds);
	if (error)
		fuse_reply_err(req, error);
	else
		fuse_reply_attr(req, &attr, seconds);
}
