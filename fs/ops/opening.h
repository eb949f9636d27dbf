/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_OPS_OPENING_H
#define PAGEFS_FS_OPS_OPENING_H

/*
 * The ways in which an OPEN goes, between the files of fs/ops/ only: each
 * answers the request.
 *
 *   opening_read     a committed version, for reading
 *   opening_write    a committed version, for writing: begins (or joins) the
 *                    staging page, keeps it for this thread, answers ESTALE;
 *                    the kernel looks up again and gets to
 *   opening_staging  a staging page
 */

#include "fs/fs.h"

void opening_read(fuse_req_t req, struct node *node, struct fuse_file_info *fi);
void opening_write(fuse_req_t req, struct node *node,
		   struct fuse_file_info *fi);
void opening_staging(fuse_req_t req, struct node *node,
		     struct fuse_file_info *fi);

/* CACHE_STAGE_* of these open flags. */
unsigned opening_flags(int flags);
/* Answers with an open handle. */
void opening_reply(struct fs *fs, fuse_req_t req, struct fuse_file_info *fi,
		   struct handle *handle);
/* The same with a writer, which is taken over. */
void opening_writer(struct fs *fs, fuse_req_t req, struct fuse_file_info *fi,
		    struct node *node, struct cache_writer *writer,
		    pid_t process);
/* Answers ESTALE, so that the kernel looks the name up and asks again; keeps
 * for that what is in the reservation (but for its name). */
void opening_again(fuse_req_t req, const struct cache_name *name,
		   const struct reservation *keep);

#endif
