/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/facts.h"
#include "cache/names.h"

#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>

/* One rename at work. */
struct move {
	struct cache *cache;
	struct meta_txn *txn;
	const struct cache_name *from, *to;
	uint64_t from_hash, to_hash;
	struct meta_entry moved;  /* what `from` leads to */
	struct meta_entry target; /* what `to` leads to, if anything */
	bool replaces;
	struct cache_garbage *garbage;
};

/* ---- may it be? ---- */

static int may_replace(const struct move *move)
{
	bool directory = move->moved.type == META_DIR;

	if (directory &&
	    names_below(move->txn, move->to->dir, move->moved.object))
		return -EINVAL;
	if (!move->replaces)
		return 0;
	if (directory && move->target.type != META_DIR)
		return -ENOTDIR;
	if (!directory && move->target.type == META_DIR)
		return -EISDIR;
	return 0;
}

static int may_exchange(const struct move *move)
{
	if (!move->replaces)
		return CACHE_MISS;
	if (move->moved.type == META_DIR &&
	    names_below(move->txn, move->to->dir, move->moved.object))
		return -EINVAL;
	if (move->target.type == META_DIR &&
	    names_below(move->txn, move->from->dir, move->target.object))
		return -EINVAL;
	return 0;
}

static int look(struct move *move)
{
	struct meta_entry dir;
	int error = meta_name_get(move->txn, move->from->dir, move->from->name,
				  move->from->len, &move->moved);

	if (error)
		return error == META_ABSENT ? CACHE_MISS : error;
	error = names_dir_get(move->txn, move->to->dir, &dir, NULL, NULL);
	if (error)
		return error == META_ABSENT ? -ENOENT : error;
	error = meta_name_get(move->txn, move->to->dir, move->to->name,
			      move->to->len, &move->target);
	move->replaces = error == 0;
	return error == META_ABSENT ? 0 : error;
}

/* ---- names ---- */

static int clear_target(struct move *move)
{
	const struct cache_name *to = move->to;
	int error;

	if (!move->replaces)
		return 0;
	if (move->target.type == META_DIR)
		return names_remove_dir(move->cache, move->txn, to,
					move->target.object);
	error = meta_name_del(move->txn, to->dir, to->name, to->len);
	return error ? error
		     : cache_object_unlink(move->cache, move->txn,
					   move->target.object, move->garbage);
}

static int put(struct move *move, struct meta_entry *entry,
	       const struct cache_name *from, uint64_t from_hash,
	       const struct cache_name *to, uint64_t to_hash)
{
	int error = meta_name_put(move->txn, to->dir, to->name, to->len, entry);

	if (!error)
		error = object_name_move(move->txn, entry->object, from->dir,
					 from_hash, to->dir, to_hash);
	if (!error && entry->type == META_DIR && from->dir != to->dir) {
		error = names_dir_links(move->txn, from->dir, -1);
		if (!error)
			error = names_dir_links(move->txn, to->dir, 1);
	}
	return error;
}

static int dirs_changed(struct move *move)
{
	int error = cache_dir_changed(move->cache, move->txn, move->from->dir);

	if (!error && move->from->dir != move->to->dir)
		error = cache_dir_changed(move->cache, move->txn,
					  move->to->dir);
	return error;
}

/* ---- what the journal hears ---- */

static int keys(struct move *move, char from[KEY_MAX_BYTES], size_t *from_len,
		char to[KEY_MAX_BYTES], size_t *to_len)
{
	int error = fact_key(move->txn, move->from, from, from_len);

	if (!error)
		error = fact_key(move->txn, move->to, to, to_len);
	return error == META_ABSENT ? -ENOENT : error;
}

static int tell_moved(struct move *move)
{
	char from[KEY_MAX_BYTES], to[KEY_MAX_BYTES];
	size_t from_len, to_len;
	int error = keys(move, from, &from_len, to, &to_len);

	return error ? error
		     : fact_queue_moved(move->cache, move->txn, from, from_len,
					to, to_len);
}

/* Three moves, by a name that nobody else has. */
static int tell_exchanged(struct move *move)
{
	char from[KEY_MAX_BYTES], to[KEY_MAX_BYTES], aside[64];
	size_t from_len, to_len, aside_len;
	int error = keys(move, from, &from_len, to, &to_len);

	if (error)
		return error;
	aside_len = (size_t)snprintf(
		aside, sizeof(aside), ".pagefs-exchange-%016llx",
		(unsigned long long)cache_next_version(move->cache).clock);
	error = fact_queue_moved(move->cache, move->txn, from, from_len, aside,
				 aside_len);
	if (!error)
		error = fact_queue_moved(move->cache, move->txn, to, to_len,
					 from, from_len);
	if (!error)
		error = fact_queue_moved(move->cache, move->txn, aside,
					 aside_len, to, to_len);
	return error;
}

/* A file at its new name.  A page whose chunks are still to be written takes
 * it along; `known`: some bucket has this name already. */
static int tell_set(struct move *move, const struct cache_name *name,
		    struct meta_entry *entry, bool known)
{
	entry->flags &= ~(uint32_t)META_NAME_NEW;
	if (entry_pending(move->cache, entry)) {
		entry->flags |= known ? 0 : META_NAME_NEW;
		return 0;
	}
	return cache_fact_set(move->cache, move->txn, name, entry);
}

/* ---- the two kinds ---- */

static int replace(struct move *move)
{
	bool known = move->replaces && !(move->target.flags & META_NAME_NEW);
	struct meta_entry old = move->moved;
	int error = clear_target(move);

	move->moved.ctime_ns = names_now_ns();
	if (!error)
		error = meta_name_del(move->txn, move->from->dir,
				      move->from->name, move->from->len);
	if (error)
		return error;
	if (old.type == META_DIR) {
		error = tell_moved(move);
	} else {
		/* The new name first: a journal that is cut between the two
		 * has the page twice rather than not at all. */
		error = tell_set(move, move->to, &move->moved, known);
		if (!error)
			error = names_forget(move->cache, move->txn, move->from,
					     &old);
	}
	if (!error)
		error = put(move, &move->moved, move->from, move->from_hash,
			    move->to, move->to_hash);
	return error ? error : dirs_changed(move);
}

static int exchange(struct move *move)
{
	bool from_known = !(move->moved.flags & META_NAME_NEW);
	bool to_known = !(move->target.flags & META_NAME_NEW);
	int error;

	move->moved.ctime_ns = move->target.ctime_ns = names_now_ns();
	if (move->moved.type == META_DIR || move->target.type == META_DIR) {
		move->moved.flags &= ~(uint32_t)META_NAME_NEW;
		move->target.flags &= ~(uint32_t)META_NAME_NEW;
		error = tell_exchanged(move);
	} else {
		error = tell_set(move, move->to, &move->moved, to_known);
		if (!error)
			error = tell_set(move, move->from, &move->target,
					 from_known);
	}
	if (!error)
		error = put(move, &move->moved, move->from, move->from_hash,
			    move->to, move->to_hash);
	if (!error)
		error = put(move, &move->target, move->to, move->to_hash,
			    move->from, move->from_hash);
	return error ? error : dirs_changed(move);
}

#define NOTHING_TO_DO 100

static int rename_in(struct move *move, unsigned flags)
{
	int error = look(move);

	if (error)
		return error;
	if (flags & RENAME_NOREPLACE && move->replaces &&
	    !names_hidden(move->cache, move->to))
		return -EEXIST;
	if (move->replaces && move->moved.object == move->target.object)
		return NOTHING_TO_DO;
	if (flags & RENAME_EXCHANGE) {
		error = may_exchange(move);
		return error ? error : exchange(move);
	}
	error = may_replace(move);
	return error ? error : replace(move);
}

int names_rename(struct cache *cache, const struct cache_name *from,
		 const struct cache_name *to, unsigned flags)
{
	struct cache_garbage garbage = {0};
	struct move move = {
		.cache = cache,
		.from = from,
		.to = to,
		.from_hash = meta_name_hash(from->name, from->len),
		.to_hash = meta_name_hash(to->name, to->len),
		.garbage = &garbage,
	};
	int error = meta_begin_write(cache->meta, &move.txn);

	if (error)
		return error;
	error = rename_in(&move, flags);
	if (error)
		meta_abort(move.txn);
	else
		error = cache_commit(cache, move.txn);
	if (error) {
		cache_garbage_drop(&garbage);
		return error == NOTHING_TO_DO ? 0 : error;
	}
	cache_garbage_free(cache, &garbage);
	writeback_kick(cache->writeback, false);
	return 0;
}

int names_may_replace(struct cache *cache, const struct cache_name *to,
		      unsigned flags)
{
	struct meta_entry entry;
	struct cache_found dir;
	uint64_t parent;
	int error = cache_directory(cache, to->dir, &dir, &parent);

	if (error)
		return error == CACHE_MISS ? -ENOENT : error;
	error = names_find(cache, to, &entry);
	if (error < 0)
		return error;
	if (error)
		return flags & RENAME_EXCHANGE ? -EINVAL : 0;
	if (flags & RENAME_NOREPLACE && !names_hidden(cache, to))
		return -EEXIST;
	return entry.type == META_DIR ? -EISDIR : 0;
}

/* A directory that is renamed over must hold no staged name either. */
static int target_holds_staged(struct cache *cache, const struct cache_name *to,
			       unsigned flags)
{
	struct meta_entry entry;
	int error = names_find(cache, to, &entry);

	if (error)
		return error < 0 ? error : 0;
	if (flags & (RENAME_EXCHANGE | RENAME_NOREPLACE) ||
	    entry.type != META_DIR)
		return 0;
	return stagings_in_dir(cache->stagings, entry.object) ? -ENOTEMPTY : 0;
}

int cache_rename(struct cache *cache, const struct cache_name *from,
		 const struct cache_name *to, unsigned flags)
{
	int error;

	if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE) ||
	    flags == (RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL;
	if (to->len > NAME_MAX_BYTES)
		return -ENAMETOOLONG;
	if (names_hidden(cache, from))
		return CACHE_MISS;
	error = target_holds_staged(cache, to, flags);
	if (!error)
		error = stagings_rename(cache, from, to, flags);
	if (!error)
		names_shown(cache, to);
	return error;
}
