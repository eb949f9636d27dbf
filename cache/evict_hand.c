/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/reads.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/lib/clock.h"

/* The operator's hand: what is pending is written, then memory is emptied. */

static int evict_all(struct cache *cache)
{
	size_t freed;

	do {
		struct evict_lost lost = {0};
		bool dirty = false;

		evict_begin(cache);
		freed = evict_slots(cache, NULL, UINT64_MAX, &lost, &dirty);
		evict_end(cache);
		evict_lost(cache, &lost);
	} while (freed);
	return 0;
}

struct dropping {
	struct cache *cache;
	struct meta_txn *txn;
	struct cache_garbage garbage;
	uint64_t bytes;
};

/* Only what has a copy on disk. */
static int drop_chunk(struct dropping *dropping, const struct chunk_id *id)
{
	struct chunk_rows rows;
	int error = chunk_rows(dropping->cache, dropping->txn, id, &rows);

	if (error || !rows.in_memory || !rows.on_disk)
		return error;
	dropping->bytes += rows.memory.len_bytes;
	return chunk_drop(dropping->txn, META_MEMORY, &rows.memory,
			  &dropping->garbage);
}

static int drop_page(struct dropping *dropping, const struct meta_entry *entry)
{
	uint64_t from = 0;
	uint32_t index;
	int outcome;

	while (!(outcome = chunk_next(dropping->cache, dropping->txn,
				      entry->object, entry->version.clock, from,
				      &index))) {
		struct chunk_where where;

		outcome = chunk_find(dropping->cache, dropping->txn,
				     entry->object, index, entry->version.clock,
				     &where);
		if (!outcome)
			outcome = drop_chunk(dropping, &where.id);
		if (outcome < 0)
			return outcome;
		from = (uint64_t)index + 1;
	}
	return outcome < 0 ? outcome : 0;
}

/* A slot that is pinned is freed with its last pin. */
static int evict_page(struct cache *cache, const struct meta_entry *entry)
{
	struct dropping dropping = {.cache = cache};
	int error = meta_begin_write(cache->meta, &dropping.txn);

	if (error)
		return error;
	error = drop_page(&dropping, entry);
	if (error)
		meta_abort(dropping.txn);
	else
		error = cache_commit(cache, dropping.txn);
	if (error) {
		cache_garbage_drop(&dropping.garbage);
		return error;
	}
	CACHE_COUNT(cache, evicted_pages, dropping.garbage.slot_count);
	CACHE_COUNT(cache, evicted_bytes, dropping.bytes);
	cache_garbage_free(cache, &dropping.garbage);
	return 0;
}

static int find_name(struct cache *cache, const struct cache_name *name,
		     struct meta_entry *ret)
{
	struct meta_txn *txn;
	int outcome = meta_begin_read(cache->meta, &txn);

	if (outcome)
		return outcome;
	outcome = meta_name_get(txn, name->dir, name->name, name->len, ret);
	meta_abort(txn);
	if (outcome < 0)
		return outcome;
	return outcome || ret->type != META_FILE ? CACHE_MISS : 0;
}

int cache_evict(struct cache *cache, const struct cache_name *name)
{
	struct meta_entry entry = {0};
	int outcome;

	if (!cache->buckets)
		return -ENOTSUP;
	outcome = name ? find_name(cache, name, &entry) : 0;
	if (outcome)
		return outcome;
	outcome = cache_sync(cache);
	if (outcome)
		return outcome;
	fetches_promote(cache->fetches);
	return name ? evict_page(cache, &entry) : evict_all(cache);
}
