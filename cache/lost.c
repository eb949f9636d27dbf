/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/names.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

struct counting {
	struct cache *cache;
	uint64_t clock;
	bool *there; /* by index */
	uint32_t chunks, room;
	bool memory;
};

static int count_chunk(void *arg, const struct meta_chunk *chunk)
{
	struct counting *counting = arg;
	struct arena *arena = counting->cache->arena;

	if (chunk->id.version.clock > counting->clock ||
	    !cache_chunk_current(chunk, counting->clock) ||
	    chunk->id.index >= counting->room ||
	    counting->there[chunk->id.index])
		return 0;
	/* A row of memory may be older than what its slot holds now. */
	if (counting->memory) {
		if (arena_pin_quietly(arena, chunk->slot, &chunk->id) != 0)
			return 0;
		arena_unpin(arena, chunk->slot);
	}
	counting->there[chunk->id.index] = true;
	counting->chunks++;
	return 0;
}

/* How many of the page's chunks are somewhere, or -errno. */
static int64_t chunks_there(struct cache *cache, struct meta_txn *txn,
			    const struct meta_entry *entry)
{
	struct counting counting = {
		.cache = cache,
		.clock = entry->version.clock,
		.room = (uint32_t)((entry->size_bytes >> entry->chunk_shift) +
				   1),
		.memory = true,
	};
	int error;

	counting.there = calloc(counting.room, sizeof(*counting.there));
	if (!counting.there)
		return -ENOMEM;
	error = meta_chunk_each(txn, META_MEMORY, entry->object, 0, count_chunk,
				&counting);
	counting.memory = false;
	if (error >= 0 && cache->buckets)
		error = meta_chunk_each(txn, META_DISK, entry->object, 0,
					count_chunk, &counting);
	free(counting.there);
	return error < 0 ? error : (int64_t)counting.chunks;
}

struct losing {
	struct cache *cache;
	struct meta_txn *txn;
	struct cache_garbage garbage;
	struct object_name first;
	uint64_t lost;
};

static int lose_name(void *arg, const struct object_name *name)
{
	struct losing *losing = arg;
	struct cache_name at = {name->dir, name->name, name->len};
	int64_t there = chunks_there(losing->cache, losing->txn, &name->entry);
	int error;

	if (there < 0)
		return (int)there;
	if (there >= name->entry.chunks)
		return 0;
	error = cache_fact_gone(losing->cache, losing->txn, &at);
	if (!error)
		error = meta_name_del(losing->txn, name->dir, name->name,
				      name->len);
	if (!error)
		error = cache_object_unlink(losing->cache, losing->txn,
					    name->entry.object,
					    &losing->garbage);
	if (!error && !losing->lost++)
		losing->first = *name;
	return error;
}

static int lose_in_transaction(struct cache *cache, uint64_t object,
			       struct losing *losing)
{
	int error = meta_begin_write(cache->meta, &losing->txn);

	if (error)
		return error;
	error = object_each_name(losing->txn, object, lose_name, losing);
	if (error || !losing->lost)
		meta_abort(losing->txn);
	else
		error = cache_commit(cache, losing->txn);
	return error;
}

int cache_page_lost(struct cache *cache, uint64_t object)
{
	struct losing losing = {.cache = cache};
	int error;

	/* What is half evicted may come back: it is not lost. */
	evict_begin(cache);
	error = lose_in_transaction(cache, object, &losing);
	evict_end(cache);
	if (error || !losing.lost) {
		cache_garbage_drop(&losing.garbage);
		return error ? error : CACHE_MISS;
	}
	cache_garbage_free(cache, &losing.garbage);
	CACHE_COUNT(cache, lost_pages, losing.lost);
	cache_changed(cache,
		      &(struct cache_name){losing.first.dir, losing.first.name,
					   losing.first.len});
	if (cache->writeback)
		writeback_kick(cache->writeback, false);
	return 0;
}
