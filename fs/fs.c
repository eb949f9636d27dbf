/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/fs.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "fs/control.h"
#include "fs/late.h"
#include "fs/ops/ops.h"
#include "fs/process.h"
#include "tools/lib/clock.h"
#include "tools/lib/log.h"

/* getlk, setlk and flock are not here: the kernel keeps locks itself.  Nor is
 * copy_file_range: the kernel then copies by reading and writing. */
const struct fuse_lowlevel_ops fs_operations = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.readlink = op_readlink,
	.mknod = op_mknod,
	.mkdir = op_mkdir,
	.unlink = op_unlink,
	.rmdir = op_rmdir,
	.symlink = op_symlink,
	.rename = op_rename,
	.link = op_link,
	.open = op_open,
	.create = op_create,
	.read = op_read,
	.write = op_write,
	.flush = op_flush,
	.release = op_release,
	.fsync = op_fsync,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.releasedir = op_releasedir,
	.fsyncdir = op_fsyncdir,
	.statfs = op_statfs,
	.setxattr = op_setxattr,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	.removexattr = op_removexattr,
	.fallocate = op_fallocate,
	.lseek = op_lseek,
};

struct node *fs_node(fuse_req_t req, fuse_ino_t number)
{
	return node_get(fs_of(req)->nodes, number);
}

bool fs_name(fuse_req_t req, fuse_ino_t parent, const char *name,
	     struct cache_name *ret)
{
	struct node *node = fs_node(req, parent);
	size_t len = strlen(name);
	int error = 0;

	if (!node)
		error = ESTALE;
	else if (node->kind == NODE_CONTROL || control_is_name(node, name))
		error = EPERM;
	else if (node->kind != NODE_DIR)
		error = ENOTDIR;
	else if (len > NAME_MAX_BYTES)
		error = ENAMETOOLONG;
	if (error) {
		fuse_reply_err(req, error);
		return false;
	}
	*ret = (struct cache_name){node->object, name, len};
	return true;
}

bool fs_node_name(struct fs *fs, struct node *node, char buf[NAME_MAX_BYTES],
		  struct cache_name *ret)
{
	ret->name = buf;
	return node_name(fs->nodes, node, &ret->dir, buf, &ret->len);
}

int fs_errno(int outcome)
{
	if (outcome <= 0)
		return -outcome;
	return outcome == CACHE_STALE ? ESTALE : ENOENT;
}

pid_t fs_process(fuse_req_t req)
{
	static _Atomic bool warned;
	pid_t thread = fuse_req_ctx(req)->pid;
	pid_t process = process_of_thread(thread);

	if (!process) {
		fs_of(req)->unseen_processes++;
		if (!warned && !thread)
			log_warning("a process of another pid namespace writes "
				    "here: what it writes shows itself to all "
				    "as it is committed, and is kept when it "
				    "is killed");
		warned = warned || !thread;
	}
	return process;
}

struct cache_creator fs_creator(fuse_req_t req, uint64_t dir, mode_t mode)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct cache_creator creator = {
		.uid = ctx->uid,
		.gid = ctx->gid,
		.mode = mode & 07777 & ~ctx->umask,
	};
	struct cache_found found;
	uint64_t parent;

	if (cache_directory(fs_of(req)->cache, dir, &found, &parent) ||
	    !(found.entry.mode & S_ISGID))
		return creator;
	creator.gid = found.entry.gid;
	if (S_ISDIR(mode))
		creator.mode |= S_ISGID;
	return creator;
}

void fs_attributes(const struct fs *fs, const struct meta_entry *entry,
		   uint32_t links, struct stat *ret)
{
	static const mode_t types[] = {
		[META_FILE] = S_IFREG,
		[META_DIR] = S_IFDIR,
		[META_SYMLINK] = S_IFLNK,
	};
	const struct fs_settings *settings = &fs->settings;
	mode_t mode = entry->mode & 07777;

	if (settings->has_umask && entry->type != META_SYMLINK)
		mode = 0777 & ~settings->umask;
	*ret = (struct stat){
		.st_ino = entry->object,
		.st_mode = types[entry->type] | mode,
		.st_nlink = links,
		.st_uid = settings->has_uid ? settings->uid : entry->uid,
		.st_gid = settings->has_gid ? settings->gid : entry->gid,
		.st_size = (off_t)entry->size_bytes,
		.st_blksize = FS_BLOCK_SIZE,
		.st_blocks =
			(blkcnt_t)(round_up_block(entry->stored_bytes) / 512),
		.st_atim = clock_to_timespec((uint64_t)entry->atime_ns),
		.st_mtim = clock_to_timespec((uint64_t)entry->mtime_ns),
		.st_ctim = clock_to_timespec((uint64_t)entry->ctime_ns),
	};
}

double fs_seconds(uint64_t ttl_ns)
{
	double seconds = (double)ttl_ns / (double)CLOCK_NS_PER_SECOND;

	return seconds < FS_LONG_SECONDS ? seconds : FS_LONG_SECONDS;
}

/* Tells a page's names apart. */
static uint64_t link_of(const struct cache_name *name)
{
	return negative_key(name->dir, name->name, name->len).lo | 1;
}

static struct node_key key_of(const struct cache_name *name,
			      const struct cache_found *found)
{
	struct node_key key = {.object = found->entry.object};

	switch (found->entry.type) {
	case META_DIR:
		key.kind = NODE_DIR;
		break;
	case META_SYMLINK:
		key.kind = NODE_SYMLINK;
		break;
	case META_FILE:
		key.kind = found->staging ? NODE_STAGING : NODE_PAGE;
		key.staging = found->staging;
		if (found->staging)
			break;
		key.clock = found->entry.version.clock;
		if (found->links > 1)
			key.link = link_of(name);
	}
	return key;
}

/* What happens to one of a page's names changes the others' links. */
static double attribute_seconds(enum node_kind kind, nlink_t links)
{
	if (kind == NODE_DIR)
		return 1.0;
	return links > 1 ? 0.0 : FS_LONG_SECONDS;
}

int fs_entry(struct fs *fs, const struct cache_name *name,
	     struct cache_found *found, struct fuse_entry_param *ret)
{
	struct node_key key = key_of(name, found);
	struct node *node =
		node_enter(fs->nodes, &key, name->dir, name->name, name->len);

	*ret = (struct fuse_entry_param){0};
	if (node) {
		ret->ino = node->number;
		fs_attributes(fs, &found->entry, found->links, &ret->attr);
		ret->attr.st_ino = node->object;
		if (key.kind != NODE_STAGING) {
			ret->entry_timeout = fs_seconds(found->ttl_ns);
			ret->attr_timeout =
				key.kind == NODE_DIR ? 1.0 : FS_LONG_SECONDS;
		}
	}
	if (found->staging)
		cache_staging_put(found->staging);
	found->staging = NULL;
	return node ? 0 : -ENOMEM;
}

void fs_reply_found(fuse_req_t req, const struct cache_name *name,
		    struct cache_found *found)
{
	struct fs *fs = fs_of(req);
	struct fuse_entry_param entry;

	if (fs_entry(fs, name, found, &entry)) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	if (fuse_reply_entry(req, &entry) == -ENOENT)
		node_forget(fs->nodes, node_get(fs->nodes, entry.ino), 1);
}

void fs_reply_absent(fuse_req_t req, uint64_t ttl_ns)
{
	struct fuse_entry_param entry = {.entry_timeout = fs_seconds(ttl_ns)};

	/* The kernel remembers what isn't there only by a reply with node 0
	 * and a timeout, not by an error. */
	if (ttl_ns)
		fuse_reply_entry(req, &entry);
	else
		fuse_reply_err(req, ENOENT);
}

int fs_lookup(fuse_req_t req, const struct cache_name *name,
	      struct cache_found *ret)
{
	struct fs *fs = fs_of(req);

	*ret = (struct cache_found){.ttl_ns = 0};

	int outcome = cache_lookup(fs->cache, name, 0, ret);

	/* Only a name that is being written (0: ask again) looks different to
	 * its writers, and only for that the process is found out. */
	if (outcome < 0 || outcome == CACHE_STAGED || ret->ttl_ns)
		return outcome;

	pid_t process = fs_process(req);

	if (!process)
		return outcome;
	*ret = (struct cache_found){.ttl_ns = 0};
	return cache_lookup(fs->cache, name, process, ret);
}

bool fs_is_version(const struct meta_entry *entry, const struct node *node)
{
	return entry->type == META_FILE && entry->object == node->object &&
	       entry->version.clock == node->clock;
}

/* A directory, also one that was removed while somebody is in it. */
static int getattr_directory(struct fs *fs, struct node *node, struct stat *ret)
{
	struct cache_found found = {0};
	uint64_t parent;
	int outcome = cache_directory(fs->cache, node->object, &found, &parent);

	if (outcome == CACHE_MISS && node_gone(fs->nodes, node, &found.entry)) {
		found.links = 0;
		outcome = 0;
	}
	if (!outcome)
		fs_attributes(fs, &found.entry, found.links, ret);
	return fs_errno(outcome);
}

int fs_getattr(struct fs *fs, struct node *node, struct stat *ret,
	       double *ret_seconds)
{
	struct meta_entry entry;
	struct late late;
	uint32_t links;
	int outcome;

	*ret_seconds = 0.0;
	switch (node->kind) {
	case NODE_DIR:
		*ret_seconds = attribute_seconds(NODE_DIR, 0);
		return getattr_directory(fs, node, ret);
	case NODE_STAGING:
		cache_staging_entry(node->staging, &entry, &links);
		fs_attributes(fs, &entry, links, ret);
		ret->st_ino = node->object;
		return 0;
	case NODE_CONTROL:
		control_attributes(fs, node, ret);
		return 0;
	case NODE_PAGE:
	case NODE_SYMLINK:
		break;
	}
	outcome = late_entry(fs, node, &late);
	if (outcome)
		return fs_errno(outcome);
	fs_attributes(fs, &late.entry, late.links, ret);
	if (late.own)
		*ret_seconds = attribute_seconds(node->kind, late.links);
	return 0;
}

void fs_renamed(struct fs *fs, const struct cache_name *from,
		const struct cache_name *to, const struct cache_found *found)
{
	struct node_key key = key_of(to, found);

	node_renamed(fs->nodes, &key, to->dir, to->name, to->len);
	if (key.kind != NODE_PAGE)
		return;
	/* The kernel's node is from before the page got its second name, or
	 * from before it lost it, or stands for the old name. */
	key.link = 0;
	node_moved(fs->nodes, &key, from, to);
	key.link = link_of(from);
	node_moved(fs->nodes, &key, from, to);
}

void fs_gone(struct fs *fs, const struct cache_name *name,
	     const struct cache_found *found)
{
	struct node_key key = key_of(name, found);

	node_set_gone(fs->nodes, &key, &found->entry);
}

void fs_published(struct fs *fs, struct node *node, void (*done)(void *arg),
		  void *arg)
{
	char buf[NAME_MAX_BYTES + 1];
	struct cache_name name = {0, buf, 0};
	bool named, shown = node_shown(fs->nodes, node);

	if (node->kind == NODE_STAGING)
		named = cache_staging_name(node->staging, &name.dir, buf,
					   &name.len);
	else
		named = fs_node_name(fs, node, buf, &name);
	node_set_shown(fs->nodes, node);
	/* By its name, also for the listing's sake: that waits for those who
	 * read it just now, and what they make of it isn't kept. */
	if (named && (shown || node_listed(fs->nodes, name.dir))) {
		inval_name(fs->inval, name.dir, buf, name.len, done, arg);
		return;
	}
	if (done)
		done(arg);
}

void fs_close(struct fs *fs, struct handle *handle)
{
	bool committed = false;

	if (handle->writer)
		cache_stage_close(handle->writer, &committed);
	if (committed)
		fs_published(fs, handle->node, NULL, NULL);
	handle_free(fs, handle);
}

void fs_background_begin(struct fs *fs)
{
	fs->background++;
}

void fs_background_end(struct fs *fs)
{
	fs->background--;
}

void fs_end(struct fs *fs)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct handle *handle;
	bool committed;

	/* Each has a deadline. */
	while (fs->background)
		nanosleep(&pause, NULL);
	reserves_free(fs->reserves);
	fs->reserves = NULL;
	while ((handle = handle_left(fs))) {
		/* What its writer did not finish is no page. */
		if (handle->writer)
			(void)cache_stage_flush(handle->writer, true,
						&committed);
		fs_close(fs, handle);
	}
	nodes_clear(fs->nodes);
}

void fs_changed(void *arg, const struct cache_name *name)
{
	struct fs *fs = arg;

	inval_name(fs->inval, name->dir, name->name, name->len, NULL, NULL);
}

void fs_tick(struct fs *fs)
{
	reserves_expire(fs->reserves, clock_monotonic_ns());
}
