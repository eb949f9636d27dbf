/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_WIRE_H
#define PAGEFS_FS_WIRE_H

/*
 * What libfuse of this version has no call for is added to its messages on
 * their way to the kernel: the answer to INIT asks for mmap(MAP_SHARED) of
 * files that are read and written directly (FUSE_DIRECT_IO_ALLOW_MMAP, kernel
 * 6.6); without it such a mapping is ENODEV.  Newer libfuse (3.17) has a
 * capability for it, which is used where the header knows it.
 */

#include <stdbool.h>

struct fuse_session;
struct fuse_conn_info;

/* After fuse_session_mount(): 0 or -errno. */
int wire_attach(struct fuse_session *session);
/* From the init callback: asks for it where libfuse can. */
void wire_want(struct fuse_conn_info *conn);
/* Has INIT been answered?  And will MAP_SHARED work? */
bool wire_mmap_allowed(void);

#endif
