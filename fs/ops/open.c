/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include "fs/ops/opening.h"

#include <errno.h>
#include <fcntl.h>

#include "fs/control.h"

void opening_reply(struct fs *fs, fuse_req_t req, struct fuse_file_info *fi,
		   struct handle *handle)
{
	handle_set(fi, handle);
	fi->direct_io = 1;
	/* A reader's close has nothing to say, and a version never changes. */
	if (!handle->writer && !handle->control) {
		fi->noflush = 1;
		fi->keep_cache = handle->page &&
				 fs_is_version(cache_page_entry(handle->page),
					       handle->node);
	}
	if (fuse_reply_open(req, fi) == -ENOENT)
		fs_close(fs, handle);
}

unsigned opening_flags(int flags)
{
	unsigned stage = 0;

	if (flags & O_TRUNC)
		stage |= CACHE_STAGE_TRUNCATE;
	if (flags & O_APPEND)
		stage |= CACHE_STAGE_APPEND;
	if ((flags & O_ACCMODE) == O_RDWR)
		stage |= CACHE_STAGE_READ;
	return stage;
}

void opening_writer(struct fs *fs, fuse_req_t req, struct fuse_file_info *fi,
		    struct node *node, struct cache_writer *writer,
		    pid_t process)
{
	struct handle *handle = handle_new(fs, node);
	bool committed;

	if (!handle) {
		cache_stage_close(writer, &committed);
		fuse_reply_err(req, ENOMEM);
		return;
	}
	handle_set_writer(handle, writer, process, fuse_req_ctx(req)->pid);
	opening_reply(fs, req, fi, handle);
}

void opening_again(fuse_req_t req, const struct cache_name *name,
		   const struct reservation *keep)
{
	struct fs *fs = fs_of(req);
	struct reservation reservation = *keep;

	reservation.name = negative_key(name->dir, name->name, name->len);
	fs->opens_again++;
	reserve_put(fs->reserves, fuse_req_ctx(req)->pid, &reservation);
	fuse_reply_err(req, ESTALE);
}

static void open_control(fuse_req_t req, struct node *node,
			 struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct control_file *file;
	struct handle *handle;
	int r = control_open(fs, node, fi->flags, &file);

	if (r) {
		fuse_reply_err(req, -r);
		return;
	}
	handle = handle_new(fs, node);
	if (!handle) {
		control_close(file);
		fuse_reply_err(req, ENOMEM);
		return;
	}
	handle->control = file;
	opening_reply(fs, req, fi, handle);
}

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct node *node = fs_node(req, ino);
	bool writes =
		(fi->flags & O_ACCMODE) != O_RDONLY || fi->flags & O_TRUNC;

	fs->opens++;
	if (!node)
		fuse_reply_err(req, ESTALE);
	else if (node->kind == NODE_CONTROL)
		open_control(req, node, fi);
	else if (node->kind == NODE_STAGING)
		opening_staging(req, node, fi);
	else if (node->kind != NODE_PAGE)
		fuse_reply_err(req, node->kind == NODE_DIR ? EISDIR : ELOOP);
	else if (writes)
		opening_write(req, node, fi);
	else
		opening_read(req, node, fi);
}
