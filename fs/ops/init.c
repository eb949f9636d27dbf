/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include "fs/wire.h"

/* Versions are nodes of their own, so nothing that is cached goes bad by
 * itself; locks are the kernel's; nothing is exported by NFS. */
#define UNWANTED                                                               \
	((unsigned)(FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_WRITEBACK_CACHE |      \
		    FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |             \
		    FUSE_CAP_SPLICE_MOVE | FUSE_CAP_POSIX_LOCKS |              \
		    FUSE_CAP_FLOCK_LOCKS | FUSE_CAP_EXPORT_SUPPORT))

static void want(struct fuse_conn_info *conn, unsigned flag)
{
	if (conn->capable & flag)
		conn->want |= flag;
}

void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct fs *fs = userdata;

	conn->want &= ~UNWANTED;
	want(conn, FUSE_CAP_EXPLICIT_INVAL_DATA);
	want(conn, FUSE_CAP_ATOMIC_O_TRUNC);
	want(conn, FUSE_CAP_DONT_MASK);
	want(conn, FUSE_CAP_PARALLEL_DIROPS);
	want(conn, FUSE_CAP_READDIRPLUS);
	want(conn, FUSE_CAP_READDIRPLUS_AUTO);
	want(conn, FUSE_CAP_ASYNC_READ);
	want(conn, FUSE_CAP_ASYNC_DIO);
	want(conn, FUSE_CAP_CACHE_SYMLINKS);
	conn->max_write = FS_REQUEST_BYTES;
	conn->max_background = FS_BACKGROUND;
	conn->congestion_threshold = FS_BACKGROUND * 3 / 4;
	conn->time_gran = 1;
	wire_want(conn);
	fs->ready(fs->ready_arg);
}
