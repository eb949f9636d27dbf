/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <errno.h>

#include "cache/negative.h"

/* What the negative cache hides shows itself again without a word when its
 * time is over: no listing is kept while there is such a name. */
static bool something_is_hidden(struct fs *fs)
{
	struct negative_stats stats;

	negative_get_stats(cache_negative(fs->cache), &stats);
	return stats.entries > 0;
}

static void keep_listing(struct fs *fs, struct handle *handle,
			 struct fuse_file_info *fi)
{
	if (handle->node->kind != NODE_DIR || something_is_hidden(fs))
		return;
	handle->listing = true;
	node_listing_begin(fs->nodes, handle->node);
	fi->cache_readdir = 1;
	fi->keep_cache = 1;
}

static void end_listing(struct fs *fs, struct handle *handle)
{
	if (!handle->listing)
		return;
	handle->listing = false;
	if (node_listing_end(fs->nodes, handle->node) ||
	    something_is_hidden(fs))
		inval_directory(fs->inval, handle->node->object);
}

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct node *node = fs_node(req, ino);
	struct handle *handle = node ? handle_new(fs, node) : NULL;

	if (!handle) {
		fuse_reply_err(req, node ? ENOMEM : ESTALE);
		return;
	}
	handle_set(fi, handle);
	keep_listing(fs, handle, fi);
	if (fuse_reply_open(req, fi) == -ENOENT) {
		end_listing(fs, handle);
		fs_close(fs, handle);
	}
}

void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	end_listing(fs_of(req), handle_of(fi));
	op_release(req, ino, fi);
}
