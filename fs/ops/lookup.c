/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/control.h"
#include "tools/lib/clock.h"

/* How often a version may be replaced while it is being opened. */
#define TRIES 16

/* The version answered is opened now, for the OPEN that follows: else, under
 * a storm of new versions, that one could come too late again. */
struct ahead {
	struct fs *fs;
	pid_t thread;
	struct key_id key;
	_Atomic int users; /* this look-up, and the callback */
	_Atomic int outcome;
};

#define AHEAD_PENDING (-1)

static void ahead_put(struct ahead *ahead)
{
	if (--ahead->users == 0)
		free(ahead);
}

static void ahead_opened(void *arg, int outcome, struct cache_page *page)
{
	struct ahead *ahead = arg;

	if (page)
		reserve_page(ahead->fs->reserves, ahead->thread, &ahead->key,
			     page);
	ahead->outcome = outcome;
	fs_background_end(ahead->fs);
	ahead_put(ahead);
}

/* 0, also while the disk works on it; CACHE_STALE: look again. */
static int open_ahead(struct fs *fs, const struct cache_name *name,
		      const struct meta_entry *entry, pid_t thread,
		      const struct key_id *key)
{
	struct ahead *ahead = malloc(sizeof(*ahead));
	int outcome;

	if (!ahead)
		return 0;
	*ahead = (struct ahead){
		.fs = fs,
		.thread = thread,
		.key = *key,
		.users = 2,
		.outcome = AHEAD_PENDING,
	};
	fs_background_begin(fs);
	cache_page_open(fs->cache, name, entry, ahead_opened, ahead);
	outcome = ahead->outcome;
	ahead_put(ahead);
	return outcome == CACHE_STALE ? CACHE_STALE : 0;
}

/* The thread comes back to open for writing, and what it is to open is there,
 * or is begun now: it gets that, whatever else happens to the name. */
static bool look_to_write(fuse_req_t req, const struct cache_name *name,
			  const struct key_id *key, struct cache_found *ret)
{
	struct fs *fs = fs_of(req);
	pid_t thread = fuse_req_ctx(req)->pid, process;
	struct cache_writer *writer;
	unsigned flags;

	if (reserve_wants_writer(fs->reserves, thread, key, &flags)) {
		process = fs_process(req);
		if (cache_stage_open(fs->cache, name, flags, NULL, process,
				     &writer) == 0)
			reserve_writer(fs->reserves, thread, key, writer,
				       process);
	}
	*ret = (struct cache_found){
		.staging = reserve_staging(fs->reserves, thread, key),
	};
	if (!ret->staging)
		return false;
	cache_staging_entry(ret->staging, &ret->entry, &ret->links);
	return true;
}

static int look(fuse_req_t req, const struct cache_name *name,
		struct cache_found *ret)
{
	struct fs *fs = fs_of(req);
	pid_t thread = fuse_req_ctx(req)->pid;
	struct key_id key = negative_key(name->dir, name->name, name->len);
	int outcome;

	if (look_to_write(req, name, &key, ret))
		return CACHE_STAGED;
	outcome = fs_lookup(req, name, ret);
	for (int i = 0; i < TRIES; i++) {
		if (outcome || ret->entry.type != META_FILE ||
		    !reserve_has(fs->reserves, thread, &key) ||
		    open_ahead(fs, name, &ret->entry, thread, &key) == 0)
			break;
		outcome = fs_lookup(req, name, ret);
	}
	if (outcome > 0 && outcome != CACHE_STAGED)
		reserve_absent(fs->reserves, thread, &key);
	return outcome;
}

static uint64_t ttl_hidden(struct fs *fs, const struct cache_name *name,
			   uint64_t ttl_ns)
{
	return control_hidden(fs, name, ttl_ns) ? ttl_ns : 0;
}

void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs *fs = fs_of(req);
	struct node *node = fs_node(req, parent);
	struct cache_found found;
	struct cache_name key;
	int outcome;

	fs->lookups++;
	if (node && control_lookup(req, node, name))
		return;
	if (!fs_name(req, parent, name, &key))
		return;
	outcome = look(req, &key, &found);
	if (outcome == 0 || outcome == CACHE_STAGED)
		fs_reply_found(req, &key, &found);
	else if (outcome == CACHE_HIDDEN)
		fs_reply_absent(req, ttl_hidden(fs, &key, found.ttl_ns));
	else if (outcome == CACHE_MISS)
		fs_reply_absent(req, found.ttl_ns);
	else
		fuse_reply_err(req, fs_errno(outcome));
}
