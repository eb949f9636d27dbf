/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/fetch.h"
#include "cache/rows.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/lib/clock.h"
#include "tools/lib/log.h"

/* Waiting for a slot: what frees one doesn't always tell. */
#define HUNGRY_PAUSE_NS (2 * CLOCK_NS_PER_MS)
/* A slot that is half evicted will be one or the other in a moment. */
#define PROMOTE_PAUSE_NS CLOCK_NS_PER_MS

/* Bytes that are wrong, in a slot or (place.len_bytes not 0) at a place. */
struct condemned {
	struct list link;
	struct chunk_id id;
	slot_t slot;
	struct bucket_place place;
	bool lost; /* there was no other copy */
};

bool fetches_hungry(struct fetches *fetches)
{
	return atomic_load_explicit(&fetches->hungry_count,
				    memory_order_relaxed) != 0;
}

/* ---- the rows of what was fetched ---- */

enum promotion {
	PROMOTE_AGAIN,	  /* not now */
	PROMOTE_DONE,	  /* the row leads to our slot */
	PROMOTE_UNWANTED, /* the chunk has gone, or has another slot */
};

/* Only while its disk row stands: an object that was deleted meanwhile must
 * not get a row again. */
static enum promotion promote(struct meta_txn *txn, const struct fetch *fetch)
{
	struct cache *cache = fetch->cache;
	struct chunk_rows rows;
	struct meta_chunk row = {
		.id = fetch->id,
		.len_bytes = fetch->len_bytes,
		.slot = fetch->slot,
		.checksums = fetch->checksums,
	};

	if (chunk_rows(cache, txn, &fetch->id, &rows))
		return PROMOTE_AGAIN;
	if (!rows.on_disk)
		return PROMOTE_UNWANTED;
	if (rows.in_memory && rows.memory.slot != fetch->slot) {
		if (arena_pin_quietly(cache->arena, rows.memory.slot,
				      &fetch->id))
			return PROMOTE_AGAIN; /* somebody is evicting it */
		arena_unpin(cache->arena, rows.memory.slot);
		return PROMOTE_UNWANTED;
	}
	return meta_chunk_put(txn, META_MEMORY, &row) ? PROMOTE_UNWANTED
						      : PROMOTE_DONE;
}

static void forget(struct fetch *fetch, bool keep_slot)
{
	struct fetches *fetches = fetch->cache->fetches;

	pthread_mutex_lock(&fetches->lock);
	fetch_move(fetch, FETCH_ENDED);
	fetch_take_out(fetches, fetch);
	pthread_mutex_unlock(&fetches->lock);
	if (!keep_slot)
		arena_free(fetch->cache->arena, fetch->slot);
	arena_unpin(fetch->cache->arena, fetch->slot);
	fetch_unref(fetch);
}

/* Which of the list got a row is remembered in `tries`. */
static int promote_all(struct fetches *fetches, struct list *loaded)
{
	struct meta_txn *txn;
	int error = meta_begin_write(fetches->cache->meta, &txn);

	if (error)
		return error;
	/* Ours must not be taken for what stood there before. */
	error = stale_sweep(fetches->cache->stale, txn);
	if (error) {
		meta_abort(txn);
		return error;
	}
	list_for_each (node, loaded) {
		struct fetch *fetch = list_entry(node, struct fetch, link);

		fetch->tries = promote(txn, fetch);
	}
	return cache_commit(fetches->cache, txn);
}

static void give_back(struct fetches *fetches, struct list *loaded)
{
	pthread_mutex_lock(&fetches->lock);
	list_splice_back(&fetches->loaded, loaded);
	pthread_mutex_unlock(&fetches->lock);
}

/* Without a row the slot could never be found again: then it goes. */
void fetches_promote(struct fetches *fetches)
{
	static struct log_limit limit;
	struct list loaded, again;
	int error;

	list_init(&loaded);
	list_init(&again);
	pthread_mutex_lock(&fetches->promote_lock);
	pthread_mutex_lock(&fetches->lock);
	list_splice_back(&loaded, &fetches->loaded);
	pthread_mutex_unlock(&fetches->lock);
	error = list_empty(&loaded) ? 0 : promote_all(fetches, &loaded);
	if (error)
		log_limited(
			&limit, LOG_LEVEL_WARNING,
			"cannot index what was read from disk (error %d): it "
			"is not kept in memory",
			-error);
	list_for_each_safe (node, &loaded) {
		struct fetch *fetch = list_entry(node, struct fetch, link);

		if (!error && fetch->tries == PROMOTE_AGAIN) {
			list_remove(node);
			list_push_back(&again, node);
		} else {
			forget(fetch, !error && fetch->tries == PROMOTE_DONE);
		}
	}
	give_back(fetches, &again);
	pthread_mutex_unlock(&fetches->promote_lock);
}

/* ---- fetches that wait for a slot ---- */

static struct fetch *take_hungry(struct fetches *fetches, uint64_t now_ns)
{
	struct fetch *fetch = NULL;

	pthread_mutex_lock(&fetches->lock);
	list_for_each (node, &fetches->hungry) {
		struct fetch *each = list_entry(node, struct fetch, link);

		if (now_ns == 0 || each->deadline_ns <= now_ns) {
			fetch = each;
			break;
		}
	}
	if (fetch) {
		list_remove(&fetch->link);
		atomic_fetch_sub(&fetches->hungry_count, 1);
	}
	pthread_mutex_unlock(&fetches->lock);
	return fetch;
}

static void put_back(struct fetches *fetches, struct fetch *fetch)
{
	pthread_mutex_lock(&fetches->lock);
	list_push_front(&fetches->hungry, &fetch->link);
	atomic_fetch_add(&fetches->hungry_count, 1);
	pthread_mutex_unlock(&fetches->lock);
}

static bool feed(struct fetch *fetch)
{
	struct cache *cache = fetch->cache;
	struct fetches *fetches = cache->fetches;
	struct slot_class class = arena_class_for(
		cache->arena, fetch->len_bytes, fetch->owner.uid,
		fetch->owner.gid, fetch->owner.mode);

	if (cache_room(cache, &class, 0, false, &fetch->slot))
		return false;
	pthread_mutex_lock(&fetches->lock);
	fetch_move(fetch, FETCH_READING);
	pthread_mutex_unlock(&fetches->lock);
	fetch_submit(fetch);
	return true;
}

/* First come, first served; who is past his deadline goes away. */
static void feed_all(struct fetches *fetches)
{
	struct fetch *fetch;

	while ((fetch = take_hungry(fetches, clock_monotonic_ns())) != NULL) {
		CACHE_COUNT(fetches->cache, no_space, 1);
		fetch_end(fetch, CACHE_BUSY);
	}
	while ((fetch = take_hungry(fetches, 0)) != NULL) {
		if (feed(fetch))
			continue;
		put_back(fetches, fetch);
		CACHE_COUNT(fetches->cache, waits_for_memory, 1);
		writeback_kick(fetches->cache->writeback, true);
		return;
	}
}

/* ---- what was damaged ---- */

static void condemn(struct fetches *fetches, const struct condemned *what)
{
	struct condemned *condemned = malloc(sizeof(*condemned));

	if (!condemned)
		return; /* it will be found again */
	*condemned = *what;
	pthread_mutex_lock(&fetches->lock);
	list_push_back(&fetches->condemned, &condemned->link);
	pthread_mutex_unlock(&fetches->lock);
	evictor_kick(fetches->cache->evictor);
}

void fetches_condemn_slot(struct fetches *fetches, const struct chunk_id *id,
			  slot_t slot)
{
	struct condemned condemned = {.id = *id, .slot = slot};
	static struct log_limit limit;

	CACHE_COUNT(fetches->cache, checksum_errors, 1);
	log_limited(
		&limit, LOG_LEVEL_WARNING,
		"a page in memory was damaged when pagefs last stopped; it is "
		"read from disk, or dropped");
	condemn(fetches, &condemned);
}

void fetches_condemn_place(struct fetches *fetches, const struct chunk_id *id,
			   const struct bucket_place *place)
{
	struct condemned condemned = {
		.id = *id, .slot = SLOT_NONE, .place = *place};

	condemn(fetches, &condemned);
}

static bool same_place(const struct meta_chunk *row,
		       const struct bucket_place *place)
{
	return row->bucket == place->bucket &&
	       row->data_block == place->data_block;
}

/* Deletes the row if it still says what was found wrong; with the last copy
 * the chunk is lost. */
static int execute(struct cache *cache, struct meta_txn *txn,
		   struct condemned *condemned, struct cache_garbage *garbage)
{
	const struct chunk_id *id = &condemned->id;
	struct chunk_rows rows;
	int error = chunk_rows(cache, txn, id, &rows);

	if (error)
		return error;
	if (condemned->slot != SLOT_NONE) {
		if (!rows.in_memory || rows.memory.slot != condemned->slot)
			return 0;
		if (rows.on_disk)
			return chunk_drop(txn, META_MEMORY, &rows.memory,
					  garbage);
	} else {
		if (!rows.on_disk || !same_place(&rows.disk, &condemned->place))
			return 0;
		if (rows.in_memory)
			error = chunk_leave_disk(cache, txn, &rows.memory,
						 &rows.disk, true, garbage);
		if (rows.in_memory && error != META_ABSENT)
			return error;
	}
	condemned->lost = true;
	return chunk_lose(cache, txn, id, garbage);
}

static int execute_in(struct cache *cache, struct list *condemned,
		      struct cache_garbage *garbage)
{
	struct meta_txn *txn;
	int error = meta_begin_write(cache->meta, &txn);

	if (error)
		return error;
	list_for_each (node, condemned) {
		error = execute(cache, txn,
				list_entry(node, struct condemned, link),
				garbage);
		if (error) {
			meta_abort(txn);
			return error;
		}
	}
	return cache_commit(cache, txn);
}

static int execute_all(struct cache *cache, struct list *condemned)
{
	struct cache_garbage garbage = {0};
	int error;

	evict_begin(cache);
	error = execute_in(cache, condemned, &garbage);
	evict_end(cache);
	if (error)
		cache_garbage_drop(&garbage);
	else
		cache_garbage_free(cache, &garbage);
	return error;
}

static void bury(struct fetches *fetches)
{
	struct list condemned;
	int error;

	list_init(&condemned);
	pthread_mutex_lock(&fetches->lock);
	list_splice_back(&condemned, &fetches->condemned);
	pthread_mutex_unlock(&fetches->lock);
	if (list_empty(&condemned))
		return;
	error = execute_all(fetches->cache, &condemned);
	list_for_each_safe (node, &condemned) {
		struct condemned *each =
			list_entry(node, struct condemned, link);

		if (!error && each->lost)
			(void)cache_page_lost(fetches->cache, each->id.object);
		free(each);
	}
}

uint64_t fetches_work(struct fetches *fetches)
{
	bool loaded;

	fetches_promote(fetches);
	feed_all(fetches);
	bury(fetches);
	if (fetches_hungry(fetches))
		return clock_monotonic_ns() + HUNGRY_PAUSE_NS;
	pthread_mutex_lock(&fetches->lock);
	loaded = !list_empty(&fetches->loaded);
	pthread_mutex_unlock(&fetches->lock);
	return loaded ? clock_monotonic_ns() + PROMOTE_PAUSE_NS : UINT64_MAX;
}
