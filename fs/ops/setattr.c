/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <errno.h>
#include <stdlib.h>

#include "fs/late.h"
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

/* truncate(2) of a committed version makes the next one, at once.  Whoever
 * writes that page goes on, and commits it. */
static int truncate_page(fuse_req_t req, struct node *node, uint64_t size,
			 struct handle *handle, bool *ret_committed)
{
	struct fs *fs = fs_of(req);
	char buf[NAME_MAX_BYTES];
	struct cache_writer *writer;
	struct cache_name name;
	bool late;
	int outcome;

	if (handle && handle->writer)
		return cache_stage_truncate(
			cache_writer_staging(handle->writer), size);
	if (!fs_node_name(fs, node, buf, &name))
		return CACHE_MISS;
	outcome = cache_stage_open(fs->cache, &name, 0, NULL, fs_process(req),
				   &writer);
	if (outcome)
		return outcome > 0 ? CACHE_MISS : outcome;
	outcome = cache_stage_truncate(cache_writer_staging(writer), size);
	if (outcome == 0)
		outcome = cache_stage_flush(writer, false, ret_committed);
	cache_stage_close(writer, &late);
	*ret_committed |= late;
	return outcome;
}

static int set_size(fuse_req_t req, struct node *node, uint64_t size,
		    struct handle *handle, bool *ret_committed)
{
	switch (node->kind) {
	case NODE_PAGE:
		return truncate_page(req, node, size, handle, ret_committed);
	case NODE_STAGING:
		return cache_stage_truncate(node->staging, size);
	case NODE_CONTROL: /* echo x > file */
		return 0;
	default:
		return -EISDIR;
	}
}

/* Goes to what the node's name leads to, if its own version was replaced; to
 * nothing, if only who has it open could see it. */
static int set_named(struct fs *fs, struct node *node, unsigned which,
		     const struct meta_entry *values)
{
	struct cache_name name = {0, "", 0};
	char buf[NAME_MAX_BYTES];
	struct cache_found found;
	struct late late;
	int outcome;

	if (node->number != NODE_ROOT && !fs_node_name(fs, node, buf, &name))
		return CACHE_MISS;
	outcome = cache_set_attributes(fs->cache, &name, node->object, which,
				       values, &found);
	for (int i = 0; i < LATE_TRIES && outcome == CACHE_MISS; i++) {
		if (node->kind == NODE_DIR) /* removed, or moved just now */
			return node_gone(fs->nodes, node, &found.entry)
				       ? 0
				       : CACHE_STALE;
		outcome = late_entry(fs, node, &late);
		if (outcome || !late.named)
			return outcome;
		outcome = cache_set_attributes(fs->cache, &late.name,
					       late.entry.object, which, values,
					       &found);
	}
	return outcome;
}

static int set_others(struct fs *fs, struct node *node, unsigned which,
		      const struct meta_entry *values)
{
	if (node->kind == NODE_CONTROL)
		return -EPERM;
	if (node->kind == NODE_STAGING)
		return cache_stage_set_attributes(node->staging, which, values);
	return set_named(fs, node, which, values);
}

/* An answer that waits until the kernel knows that there is a new version. */
struct answer {
	fuse_req_t req;
	struct fs *fs;
	struct stat attr;
	double seconds;
};

static void answer(void *arg)
{
	struct answer *a = arg;
	struct fs *fs = a->fs;

	fuse_reply_attr(a->req, &a->attr, a->seconds);
	free(a);
	fs_background_end(fs);
}

static void reply(fuse_req_t req, struct node *node, bool committed)
{
	struct fs *fs = fs_of(req);
	struct answer *a = malloc(sizeof(*a));
	int error = a ? fs_getattr(fs, node, &a->attr, &a->seconds) : ENOMEM;

	if (error) {
		free(a);
		fuse_reply_err(req, error);
		return;
	}
	a->req = req;
	a->fs = fs;
	fs_background_begin(fs);
	if (committed)
		fs_published(fs, node, answer, a);
	else
		answer(a);
}

void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct node *node = fs_node(req, ino);
	struct meta_entry values;
	unsigned which = which_of(to_set, attr, &values);
	int outcome = node ? 0 : CACHE_STALE;
	bool committed = false;

	if (node && !fi && late_refused(req, node))
		return;
	reserve_drop(fs->reserves, fuse_req_ctx(req)->pid);
	if (node && to_set & FUSE_SET_ATTR_SIZE)
		outcome = set_size(req, node, (uint64_t)attr->st_size,
				   fi ? handle_of(fi) : NULL, &committed);
	if (outcome == 0 && which)
		outcome = set_others(fs, node, which, &values);
	if (outcome)
		fuse_reply_err(req, fs_errno(outcome));
	else
		reply(req, node, committed);
}
