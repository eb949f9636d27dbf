/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "tools/lib/clock.h"

static bool same_name(const struct cache_name *a, const struct cache_name *b)
{
	return a->dir == b->dir && a->len == b->len &&
	       memcmp(a->name, b->name, a->len) == 0;
}

/* The kind of what is committed there: 0 and *ret, or CACHE_MISS. */
static int committed_entry(struct cache *cache, const struct cache_name *name,
			   struct meta_entry *ret)
{
	struct meta_txn *txn;
	int outcome = meta_begin_read(cache->meta, &txn);

	if (outcome)
		return outcome;
	outcome = meta_name_get(txn, name->dir, name->name, name->len, ret);
	meta_abort(txn);
	return outcome == META_ABSENT ? CACHE_MISS : outcome;
}

/* ---- under names_lock ---- */

static bool is_staged(struct stagings *stagings, const struct cache_name *name)
{
	bool staged;

	pthread_mutex_lock(&stagings->table_lock);
	staged = stage_find(stagings, name) != NULL;
	pthread_mutex_unlock(&stagings->table_lock);
	return staged;
}

/* The table follows: what was staged at `to` loses its name, or (exchange)
 * gets the other one. */
static void move_staged(struct stagings *stagings,
			const struct cache_name *from,
			const struct cache_name *to, bool exchange)
{
	struct cache_staging *at_from, *at_to;

	pthread_mutex_lock(&stagings->table_lock);
	at_from = stage_find(stagings, from);
	at_to = stage_find(stagings, to);
	if (at_to)
		stage_name_clear(at_to);
	if (at_from)
		stage_name_set(at_from, to);
	if (at_to && exchange)
		stage_name_set(at_to, from);
	pthread_mutex_unlock(&stagings->table_lock);
}

/* A name with only a staged page changes places with a committed one, or with
 * another that is only staged. */
static int exchange(struct cache *cache, const struct cache_name *from,
		    const struct cache_name *to)
{
	struct meta_entry entry;
	int at_from = committed_entry(cache, from, &entry);
	int at_to = committed_entry(cache, to, &entry);

	if (at_from < 0 || at_to < 0)
		return at_from < 0 ? at_from : at_to;
	if (at_from == 0 && at_to == 0)
		return names_rename(cache, from, to, RENAME_EXCHANGE);
	if (at_from && !is_staged(cache->stagings, from))
		return CACHE_MISS;
	if (at_to && !is_staged(cache->stagings, to))
		return CACHE_MISS;
	if (at_from == 0)
		return names_rename(cache, from, to, 0);
	return at_to == 0 ? names_rename(cache, to, from, 0) : 0;
}

static int replace(struct cache *cache, const struct cache_name *from,
		   const struct cache_name *to, unsigned flags)
{
	int outcome;

	if (flags & RENAME_NOREPLACE && is_staged(cache->stagings, to))
		return -EEXIST;
	outcome = names_rename(cache, from, to, flags);
	if (outcome != CACHE_MISS || !is_staged(cache->stagings, from))
		return outcome;
	return names_may_replace(cache, to, flags);
}

/* ---- rename ---- */

/*
 * Where all writers are at rest, the page is whole, also one whose size was
 * set and that was written through a mapping: its commit waited for this.
 * Where they are at work, it moves as it is, and is committed under its new
 * name.
 */
static int commit_at_rest(struct cache *cache, const struct cache_name *name)
{
	struct cache_staging *staging = stagings_find(cache->stagings, name);
	bool active, committed;
	int error = 0;

	if (!staging)
		return 0;
	pthread_mutex_lock(&staging->lock);
	pthread_mutex_lock(&cache->stagings->table_lock);
	active = stage_active(staging, NULL);
	pthread_mutex_unlock(&cache->stagings->table_lock);
	if (!active)
		error = stage_commit(staging, &committed);
	pthread_mutex_unlock(&staging->lock);
	cache_staging_put(staging);
	return error;
}

int stagings_rename(struct cache *cache, const struct cache_name *from,
		    const struct cache_name *to, unsigned flags)
{
	struct stagings *stagings = cache->stagings;
	int outcome = commit_at_rest(cache, from);

	if (outcome)
		return outcome;
	pthread_mutex_lock(&stagings->names_lock);
	outcome = flags & RENAME_EXCHANGE ? exchange(cache, from, to)
					  : replace(cache, from, to, flags);
	if (outcome == 0 && !same_name(from, to))
		move_staged(stagings, from, to, flags & RENAME_EXCHANGE);
	pthread_mutex_unlock(&stagings->names_lock);
	return outcome;
}

int stagings_unlink(struct cache *cache, const struct cache_name *name)
{
	struct stagings *stagings = cache->stagings;
	struct cache_staging *staging;
	int outcome;

	pthread_mutex_lock(&stagings->names_lock);
	outcome = names_unlink(cache, name);
	if (outcome == 0 || outcome == CACHE_MISS) {
		pthread_mutex_lock(&stagings->table_lock);
		staging = stage_find(stagings, name);
		if (staging) {
			stage_name_clear(staging);
			outcome = 0;
		}
		pthread_mutex_unlock(&stagings->table_lock);
	}
	pthread_mutex_unlock(&stagings->names_lock);
	return outcome;
}

/* ---- link ---- */

/* A page without a name gets one; it is committed under it when its writers
 * are at rest, like any other. */
static int link_anonymous(struct cache_staging *staging,
			  const struct cache_name *to)
{
	struct cache *cache = staging->cache;
	struct stagings *stagings = cache->stagings;
	int outcome;

	pthread_mutex_lock(&stagings->names_lock);
	outcome = is_staged(stagings, to)
			  ? -EEXIST
			  : names_may_replace(cache, to, RENAME_NOREPLACE);
	if (outcome == 0) {
		pthread_mutex_lock(&stagings->table_lock);
		if (staging->over)
			outcome = CACHE_STALE;
		else
			stage_name_set(staging, to);
		pthread_mutex_unlock(&stagings->table_lock);
	}
	pthread_mutex_unlock(&stagings->names_lock);
	return outcome;
}

int cache_stage_link(struct cache_staging *staging, const struct cache_name *to,
		     struct cache_found *ret)
{
	struct cache_name name;
	char copy[NAME_MAX_BYTES + 1];
	bool committed;
	int outcome;

	if (to->len == 0 || to->len > NAME_MAX_BYTES)
		return -ENAMETOOLONG;
	if (!cache_staging_name(staging, &name.dir, copy, &name.len)) {
		if (staging->broken)
			return CACHE_MISS;
		outcome = link_anonymous(staging, to);
		if (outcome)
			return outcome;
		cache_staging_ref(staging);
		ret->staging = staging;
		ret->ttl_ns = 0;
		cache_staging_entry(staging, &ret->entry, &ret->links);
		return CACHE_STAGED;
	}
	/* Two names can share what is committed only. */
	pthread_mutex_lock(&staging->lock);
	outcome = stage_commit(staging, &committed);
	pthread_mutex_unlock(&staging->lock);
	name.name = copy;
	return outcome ? outcome : cache_link(staging->cache, &name, to, ret);
}
