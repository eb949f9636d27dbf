/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/names.h"

#include <errno.h>
#include <string.h>

static bool staged(struct cache *cache, const struct cache_name *name)
{
	struct cache_staging *staging = stagings_find(cache->stagings, name);

	if (staging)
		cache_staging_put(staging);
	return staging;
}

/* 0: the name is free now.  What the negative cache hides is replaced. */
static int claim(struct cache *cache, struct meta_txn *txn,
		 const struct cache_name *name, struct cache_garbage *garbage)
{
	struct meta_entry old;
	int error = meta_name_get(txn, name->dir, name->name, name->len, &old);

	if (error)
		return error == META_ABSENT ? 0 : error;
	if (old.type == META_DIR || !names_hidden(cache, name))
		return -EEXIST;
	/* Whoever gets the name next finds it free, and takes it for new. */
	if (!(old.flags & META_NAME_NEW))
		error = cache_fact_gone(cache, txn, name);
	if (!error)
		error = meta_name_del(txn, name->dir, name->name, name->len);
	return error ? error
		     : cache_object_unlink(cache, txn, old.object, garbage);
}

static int make_in(struct cache *cache, struct meta_txn *txn,
		   const struct cache_name *name, struct meta_entry *entry,
		   const char *target, struct cache_garbage *garbage)
{
	int error = claim(cache, txn, name, garbage);

	if (error)
		return error;
	entry->version = cache_next_version(cache);
	entry->object = entry->version.clock;
	error = cache_name_put(cache, txn, name, entry, garbage);
	if (!error && target)
		error = meta_attr_put(txn, entry->object, "", 0, target,
				      strlen(target));
	return error ? error : cache_fact_set(cache, txn, name, entry);
}

static int make(struct cache *cache, const struct cache_name *name,
		struct meta_entry *entry, const char *target)
{
	struct cache_garbage garbage = {0};
	struct meta_txn *txn;
	int error;

	if (name->len > NAME_MAX_BYTES)
		return -ENAMETOOLONG;
	if (staged(cache, name))
		return -EEXIST;
	error = meta_begin_write(cache->meta, &txn);
	if (error)
		return error;
	error = make_in(cache, txn, name, entry, target, &garbage);
	if (error)
		meta_abort(txn);
	else
		error = cache_commit(cache, txn);
	if (error) {
		cache_garbage_drop(&garbage);
		return error;
	}
	cache_garbage_free(cache, &garbage);
	names_shown(cache, name);
	writeback_kick(cache->writeback, false);
	return 0;
}

static struct meta_entry new_entry(enum meta_type type,
				   const struct cache_creator *creator)
{
	int64_t now_ns = names_now_ns();

	return (struct meta_entry){
		.type = type,
		.mode = creator->mode,
		.uid = creator->uid,
		.gid = creator->gid,
		.atime_ns = now_ns,
		.mtime_ns = now_ns,
		.ctime_ns = now_ns,
	};
}

int cache_mkdir(struct cache *cache, const struct cache_name *name,
		const struct cache_creator *creator, struct cache_found *ret)
{
	struct meta_entry entry = new_entry(META_DIR, creator);
	int error = make(cache, name, &entry, NULL);

	if (error)
		return error;
	*ret = (struct cache_found){
		.entry = entry,
		.links = 2,
		.ttl_ns = UINT64_MAX,
	};
	return 0;
}

int cache_symlink(struct cache *cache, const struct cache_name *name,
		  const char *target, const struct cache_creator *creator,
		  struct cache_found *ret)
{
	struct meta_entry entry = new_entry(META_SYMLINK, creator);
	int error;

	if (strlen(target) > SYMLINK_MAX_BYTES)
		return -ENAMETOOLONG;
	entry.size_bytes = strlen(target);
	error = make(cache, name, &entry, target);
	if (error)
		return error;
	*ret = (struct cache_found){
		.entry = entry,
		.links = 1,
		.ttl_ns = UINT64_MAX,
	};
	return 0;
}

/* ---- a second name ---- */

static int link_in(struct cache *cache, struct meta_txn *txn,
		   const struct cache_name *from, const struct cache_name *to,
		   struct cache_found *ret, struct cache_garbage *garbage)
{
	struct meta_entry *entry = &ret->entry;
	struct meta_object row;
	int error = meta_name_get(txn, from->dir, from->name, from->len, entry);

	if (error)
		return error == META_ABSENT ? CACHE_MISS : error;
	if (entry->type == META_DIR)
		return -EPERM;
	error = claim(cache, txn, to, garbage);
	if (error)
		return error;
	entry->ctime_ns = names_now_ns();
	error = cache_name_put(cache, txn, to, entry, garbage);
	/* With its chunks a pending page's names go out, all of them. */
	if (!error && !entry_pending(cache, entry))
		error = cache_fact_set(cache, txn, to, entry);
	if (!error)
		error = meta_object_get(txn, entry->object, &row);
	if (!error)
		ret->links = row.links;
	return error;
}

int cache_link(struct cache *cache, const struct cache_name *from,
	       const struct cache_name *to, struct cache_found *ret)
{
	struct cache_garbage garbage = {0};
	struct meta_txn *txn;
	int error;

	if (to->len > NAME_MAX_BYTES)
		return -ENAMETOOLONG;
	if (names_hidden(cache, from))
		return CACHE_MISS;
	if (staged(cache, to))
		return -EEXIST;
	*ret = (struct cache_found){.ttl_ns = UINT64_MAX};
	error = meta_begin_write(cache->meta, &txn);
	if (error)
		return error;
	error = link_in(cache, txn, from, to, ret, &garbage);
	if (error)
		meta_abort(txn);
	else
		error = cache_commit(cache, txn);
	if (error) {
		cache_garbage_drop(&garbage);
		return error;
	}
	cache_garbage_free(cache, &garbage);
	names_shown(cache, to);
	writeback_kick(cache->writeback, false);
	return 0;
}
