/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <errno.h>
#include <fcntl.h>

#include "fs/ops/opening.h"

static unsigned create_flags(int flags)
{
	unsigned stage = opening_flags(flags) | CACHE_STAGE_CREATE;

	return flags & O_EXCL ? stage | CACHE_STAGE_EXCLUSIVE : stage;
}

/* The kernel gets the staging page's node, and the handle. */
static void created(fuse_req_t req, const struct cache_name *name,
		    struct cache_writer *writer, pid_t process,
		    struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct cache_found found = {.staging = cache_writer_staging(writer)};
	struct fuse_entry_param entry;
	struct handle *handle = NULL;
	struct node *node;
	bool committed;

	cache_staging_entry(found.staging, &found.entry, &found.links);
	cache_staging_ref(found.staging);
	if (fs_entry(fs, name, &found, &entry))
		goto err_writer;
	node = node_get(fs->nodes, entry.ino);
	/* Begun over a version that was committed since the kernel looked. */
	if (found.entry.version.clock)
		node_set_shown(fs->nodes, node);
	handle = handle_new(fs, node);
	if (!handle)
		goto err_entry;
	handle_set_writer(handle, writer, process, fuse_req_ctx(req)->pid);
	handle_set(fi, handle);
	fi->direct_io = 1;
	if (fuse_reply_create(req, &entry, fi) == -ENOENT) {
		fs_close(fs, handle);
		node_forget(fs->nodes, node, 1);
	}
	return;

err_entry:
	node_forget(fs->nodes, node, 1);
err_writer:
	cache_stage_close(writer, &committed);
	fuse_reply_err(req, ENOMEM);
}

void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	pid_t process = fs_process(req);
	struct cache_creator creator;
	struct cache_writer *writer;
	struct cache_name key;
	int outcome;

	if (!fs_name(req, parent, name, &key))
		return;
	creator = fs_creator(req, key.dir, mode);
	reserve_drop(fs->reserves, fuse_req_ctx(req)->pid);
	outcome = cache_stage_open(fs->cache, &key, create_flags(fi->flags),
				   &creator, process, &writer);
	if (outcome == 0)
		created(req, &key, writer, process, fi);
	else if (outcome == -ELOOP) /* a symlink by now: follow it */
		opening_again(req, &key, &(struct reservation){0});
	else if (outcome == CACHE_STALE) /* replaced again and again */
		fuse_reply_err(req, ENOENT);
	else
		fuse_reply_err(req, fs_errno(outcome));
}
