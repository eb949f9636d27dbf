/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <errno.h>

#include "fs/ops/opening.h"
#include "tools/lib/clock.h"

static unsigned which_of(int to_set, const struct stat *attr,
			 struct meta_entry *ret)
{
	int64_t now = (int64_t)clock_realtime_ns();
	unsigned which = 0;

	*ret = (struct meta_entry){
		.mode = attr->st_mode & 07777,
		.uid = attr->st_uid,
		.gid = attr->st_gid,
		.atime_ns = (int64_t)clock_from_timespec(attr->st_atim),
		.mtime_ns = (int64_t)clock_from_timespec(attr->st_mtim),
	};
	if (to_set & FUSE_SET_ATTR_MODE)
		which |= CACHE_SET_MODE;
	if (to_set & FUSE_SET_ATTR_UID)
		which |= CACHE_SET_UID;
	if (to_set & FUSE_SET_ATTR_GID)
		which |= CACHE_SET_GID;
	if (to_set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_ATIME_NOW))
		which |= CACHE_SET_ATIME;
	if (to_set & (FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW))
		which |= CACHE_SET_MTIME;
	if (to_set & FUSE_SET_ATTR_ATIME_NOW)
		ret->atime_ns = now;
	if (to_set & FUSE_SET_ATTR_MTIME_NOW)
		ret->mtime_ns = now;
	return which;
}

/* The writer that a first truncate(2) began for this thread: committed when
 * it ends, as nobody else will close it. */
static void end_truncate(fuse_req_t req, struct node *node,
			 struct reservation *r)
{
	bool committed;

	if (cache_stage_flush(r->writer, false, &committed) == 0 && committed)
		fs_published(fs_of(req), node, NULL, NULL);
	reservation_release(r);
}

/* truncate(2) of a committed version: a writer is begun, and the kernel sent
 * to look up its page.  */
static int truncate_page(fuse_req_t req, struct node *node, uint64_t size,
			 struct handle *handle)
{
	struct fs *fs = fs_of(req);
	char buf[NAME_MAX_BYTES];
	struct cache_name name;
	struct reservation r;
	struct key_id key;
	int outcome;

	if (handle && handle->writer)
		return cache_stage_truncate(
			cache_writer_staging(handle->writer), size);
	if (!fs_node_name(fs, node, buf, &name))
		return CACHE_STALE;
	key = negative_key(name.dir, name.name, name.len);
	if (reserve_take(fs->reserves, fuse_req_ctx(req)->pid, &key, &r) &&
	    r.writer) {
		outcome = cache_stage_truncate(cache_writer_staging(r.writer),
					       size);
		end_truncate(req, node, &r);
		return outcome;
	}
	r = (struct reservation){.name = key};
	outcome = cache_stage_open(fs->cache, &name, 0, NULL, fs_process(req),
				   &r.writer);
	if (outcome)
		return outcome;
	reserve_put(fs->reserves, fuse_req_ctx(req)->pid, &r);
	return CACHE_STALE;
}

static int truncate_staging(fuse_req_t req, struct node *node, uint64_t size,
			    struct handle *handle)
{
	struct fs *fs = fs_of(req);
	char buf[NAME_MAX_BYTES];
	struct cache_name name;
	struct reservation r;
	struct key_id key;
	int outcome = cache_stage_truncate(node->staging, size);

	if (handle || !fs_node_name(fs, node, buf, &name))
		return outcome;
	key = negative_key(name.dir, name.name, name.len);
	if (!reserve_take(fs->reserves, fuse_req_ctx(req)->pid, &key, &r))
		return outcome;
	if (r.writer)
		end_truncate(req, node, &r);
	else
		reservation_release(&r);
	return outcome;
}

static int set_size(fuse_req_t req, struct node *node, uint64_t size,
		    struct handle *handle)
{
	switch (node->kind) {
	case NODE_PAGE:
		return truncate_page(req, node, size, handle);
	case NODE_STAGING:
		return truncate_staging(req, node, size, handle);
	case NODE_CONTROL: /* echo x > file */
		return 0;
	default:
		return -EISDIR;
	}
}

static int set_others(struct fs *fs, struct node *node, unsigned which,
		      const struct meta_entry *values)
{
	char buf[NAME_MAX_BYTES];
	struct cache_name name = {0, "", 0};
	struct cache_found found;
	struct cache_page *page;
	int outcome;

	if (node->kind == NODE_CONTROL)
		return -EPERM;
	if (node->kind == NODE_STAGING)
		return cache_stage_set_attributes(node->staging, which, values);
	if (node->number != NODE_ROOT && !fs_node_name(fs, node, buf, &name))
		return CACHE_STALE;
	outcome = cache_set_attributes(fs->cache, &name, node->object, which,
				       values, &found);
	if (outcome != CACHE_MISS)
		return outcome;
	/* Unlinked and open: nobody will see it but who has it open. */
	page = node_page(fs->nodes, node);
	if (!page)
		return CACHE_STALE;
	cache_page_close(page);
	return 0;
}

void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct node *node = fs_node(req, ino);
	struct meta_entry values;
	unsigned which = which_of(to_set, attr, &values);
	double seconds;
	int outcome = node ? 0 : CACHE_STALE;

	if (node && to_set & FUSE_SET_ATTR_SIZE)
		outcome = set_size(req, node, (uint64_t)attr->st_size,
				   fi ? handle_of(fi) : NULL);
	if (outcome == 0 && which)
		outcome = set_others(fs, node, which, &values);
	if (outcome == 0)
		outcome = -fs_getattr(fs, node, attr, &seconds);
	if (outcome)
		fuse_reply_err(req, fs_errno(outcome));
	else
		fuse_reply_attr(req, attr, seconds);
}
