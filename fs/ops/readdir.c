/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/control.h"
#include "meta/meta.h"

/*
 * A name's cookie is its hash, so that a listing goes on behind it whatever
 * has come and gone.  "." and ".." have the cookies 1 and 2; a name that
 * hashes to one of these would be listed twice (once in 2^62).
 *
 * Names of one hash stand behind each other.  An answer ends before the
 * second of them, and the handle remembers which the first was.
 */
enum {
	COOKIE_DOT = 1,
	COOKIE_DOTDOT = 2
};

#define NAME_TERMINATED (NAME_MAX_BYTES + 1)

struct answer {
	fuse_req_t req;
	struct fs *fs;
	struct node *dir;
	bool plus;
	char *buf;
	size_t size, used;
	struct meta_txn *txn; /* plus: for the links */
	uint64_t after;	      /* where it began */
	uint64_t last;	      /* cookie of the name before, 0: none */
	char name[NAME_TERMINATED];
	/* The last name whose hash others behind it have, or may have. */
	char same[NAME_TERMINATED];
	uint64_t same_cookie; /* 0: none */
};

static bool add(struct answer *a, const char *name,
		const struct fuse_entry_param *entry, uint64_t cookie)
{
	size_t room = a->size - a->used, need;

	if (a->plus)
		need = fuse_add_direntry_plus(a->req, a->buf + a->used, room,
					      name, entry, (off_t)cookie);
	else
		need = fuse_add_direntry(a->req, a->buf + a->used, room, name,
					 &entry->attr, (off_t)cookie);
	if (need > room)
		return false;
	a->used += need;
	return true;
}

static size_t needed(const struct answer *a, const char *name)
{
	struct fuse_entry_param none = {0};

	if (a->plus)
		return fuse_add_direntry_plus(a->req, NULL, 0, name, &none, 0);
	return fuse_add_direntry(a->req, NULL, 0, name, NULL, 0);
}

static bool add_dots(struct answer *a, uint64_t *offset)
{
	struct fuse_entry_param entry = {0};
	struct cache_found found;
	uint64_t parent = META_ROOT;

	if (*offset >= COOKIE_DOTDOT)
		return true;
	if (a->dir->kind == NODE_DIR)
		(void)cache_directory(a->fs->cache, a->dir->object, &found,
				      &parent);
	entry.attr.st_mode = S_IFDIR;
	entry.attr.st_ino = a->dir->object;
	if (*offset < COOKIE_DOT && !add(a, ".", &entry, COOKIE_DOT))
		return false;
	entry.attr.st_ino = parent;
	*offset = COOKIE_DOTDOT;
	return add(a, "..", &entry, COOKIE_DOTDOT);
}

static uint32_t links_of(struct answer *a, uint64_t object)
{
	struct meta_object row;

	if (!a->txn || meta_object_get(a->txn, object, &row))
		return 1;
	return row.links;
}

static void remember(struct answer *a, uint64_t cookie)
{
	a->same_cookie = cookie;
	memcpy(a->same, a->name, sizeof(a->same));
}

/* Non-zero: the answer is full. */
static int each(void *arg, uint64_t cookie, const char *name, size_t len,
		const struct meta_entry *meta)
{
	struct answer *a = arg;
	struct fuse_entry_param entry = {0};
	struct cache_name key = {a->dir->object, name, len};
	struct cache_found found = {.entry = *meta, .ttl_ns = UINT64_MAX};

	if (cookie == a->last) {
		remember(a, cookie);
		return 1;
	}
	memcpy(a->name, name, len);
	a->name[len] = '\0';
	if (needed(a, a->name) > a->size - a->used)
		return 1;
	if (a->plus) {
		found.links = links_of(a, meta->object);
		if (fs_entry(a->fs, &key, &found, &entry))
			return 1;
	} else {
		fs_attributes(a->fs, meta, 1, &entry.attr);
	}
	a->last = cookie;
	if (cookie == a->after)
		remember(a, cookie);
	(void)add(a, a->name, &entry, cookie);
	return 0;
}

static void list_names(struct answer *a, struct handle *handle, uint64_t offset)
{
	struct cache *cache = a->fs->cache;
	char after_name[NAME_TERMINATED];
	bool within;

	a->after = offset == COOKIE_DOTDOT ? 0 : offset;
	pthread_mutex_lock(&handle->lock);
	within = a->after && handle->after == a->after;
	memcpy(after_name, handle->after_name, sizeof(after_name));
	pthread_mutex_unlock(&handle->lock);
	if (a->plus && meta_begin_read(cache_meta(cache), &a->txn))
		a->txn = NULL;
	(void)cache_list(cache, a->dir->object, a->after,
			 within ? after_name : NULL,
			 within ? strlen(after_name) : 0, each, a);
	meta_abort(a->txn);
	if (!a->same_cookie)
		return;
	pthread_mutex_lock(&handle->lock);
	handle->after = a->same_cookie;
	memcpy(handle->after_name, a->same, sizeof(a->same));
	pthread_mutex_unlock(&handle->lock);
}

static void list_control(struct answer *a, uint64_t offset)
{
	struct fuse_entry_param entry = {.attr.st_mode = S_IFREG};
	unsigned index = (unsigned)(offset - COOKIE_DOTDOT);
	uint64_t number;
	const char *name;

	for (; (name = control_name(index, &number)); index++) {
		entry.attr.st_ino = UINT64_MAX - number;
		if (!add(a, name, &entry, index + 1 + COOKIE_DOTDOT))
			return;
	}
}

static void list(fuse_req_t req, size_t size, off_t offset,
		 struct fuse_file_info *fi, bool plus)
{
	struct handle *handle = handle_of(fi);
	struct answer a = {
		.req = req,
		.fs = fs_of(req),
		.dir = handle->node,
		.plus = plus,
		.buf = malloc(size ? size : 1),
		.size = size,
	};
	uint64_t at = (uint64_t)offset;

	if (!a.buf) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	if (add_dots(&a, &at)) {
		if (a.dir->kind == NODE_CONTROL)
			list_control(&a, at);
		else
			list_names(&a, handle, at);
	}
	fuse_reply_buf(req, a.buf, a.used);
	free(a.buf);
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		struct fuse_file_info *fi)
{
	(void)ino;
	list(req, size, offset, fi, false);
}

void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *fi)
{
	(void)ino;
	list(req, size, offset, fi, true);
}
