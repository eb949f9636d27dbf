/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/fetch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/clock.h"
#include "tools/lib/log.h"

/* A bucket that is dropped while we look for it has had its live chunks moved:
 * then the row says where to. */
#define TRIES_MAX 3u

/* The row as it is now: 0 and its copy in memory, pinned; else CACHE_MISS, and
 * *ret_moved: it is on disk, at another place, which is fetch->place now. */
static int look_again(struct fetch *fetch, struct cache_slot *ret,
		      bool *ret_moved)
{
	struct cache *cache = fetch->cache;
	struct chunk_where where;
	struct meta_txn *txn;
	int outcome;

	*ret_moved = false;
	if (meta_begin_read(cache->meta, &txn))
		return CACHE_MISS;
	outcome = chunk_find(cache, txn, fetch->id.object, fetch->id.index,
			     fetch->id.version.clock, &where);
	if (outcome || !chunk_id_equal(&where.id, &fetch->id)) {
		meta_abort(txn);
		return CACHE_MISS;
	}
	outcome = chunk_pin(cache, &where, ret);
	if (where.on_disk &&
	    (where.place.bucket != fetch->place.bucket ||
	     where.place.data_block != fetch->place.data_block)) {
		fetch->place = where.place;
		*ret_moved = true;
	}
	meta_abort(txn);
	return outcome;
}

/* The disk has failed: the other tier may have it by now. */
static void fail(struct fetch *fetch, bool damaged)
{
	struct cache *cache = fetch->cache;
	struct bucket_place place = fetch->place;
	struct chunk_id id = fetch->id;
	struct cache_slot slot;
	bool moved;

	if (!look_again(fetch, &slot, &moved))
		fetch_end_with(fetch, 0, &slot);
	else
		fetch_end_with(fetch, CACHE_FAILED, NULL);
	/* After the answers: the negative cache hides the name before the page
	 * is dropped. */
	if (damaged)
		fetches_condemn_place(cache->fetches, &id, &place);
}

/* ---- the read ---- */

static void loaded(struct fetch *fetch)
{
	struct cache *cache = fetch->cache;
	struct cache_slot slot = {
		.slot = fetch->slot,
		.id = fetch->id,
		.len_bytes = fetch->len_bytes,
	};
	struct list waiters;
	char *data = arena_data(cache->arena, fetch->slot);

	/* The checksum doesn't cover what pads the record. */
	memset(data + fetch->len_bytes, 0,
	       round_up_block(fetch->len_bytes) - fetch->len_bytes);
	arena_commit(cache->arena, fetch->slot, &fetch->id, fetch->len_bytes,
		     false);
	/* From LOADED on the evictor's thread may drop the fetch's own pin; the
	 * struct is held by the ring until this returns. */
	arena_ref(cache->arena, fetch->slot);
	fetch_move_and_take(fetch, FETCH_LOADED, &waiters);
	fetch_answer(fetch, &waiters, 0, &slot);
	arena_unpin(cache->arena, slot.slot);
	evictor_kick(cache->evictor);
}

static bool says_damaged(struct fetch *fetch, int64_t res)
{
	static struct log_limit limit;
	struct cache *cache = fetch->cache;
	const char *why = "its checksum does not match";

	if (res < (int64_t)fetch->len_bytes)
		why = "the bucket is cut short";
	else if (chunk_good(arena_data(cache->arena, fetch->slot), &fetch->id,
			    fetch->len_bytes, fetch->checksums))
		return false;
	CACHE_COUNT(cache, checksum_errors, 1);
	log_limited(&limit, LOG_LEVEL_WARNING,
		    "bucket %u: the chunk at block %u is damaged (%s) and is "
		    "dropped; run pagefs fsck --verify to find others",
		    fetch->place.bucket, fetch->place.data_block, why);
	return true;
}

/* The kernel may still write to the slot: it stays out of use until then. */
static void read_late(struct fetch *fetch)
{
	struct cache *cache = fetch->cache;

	CACHE_COUNT(cache, timeouts, 1);
	fetch->late = true;
	atomic_fetch_add(&cache->fetches->quarantined_bytes,
			 arena_slot_bytes(cache->arena, fetch->slot));
	arena_quarantine(cache->arena, fetch->slot);
	fail(fetch, false);
}

static void read_failed(struct fetch *fetch, int64_t res)
{
	static struct log_limit limit;
	struct cache *cache = fetch->cache;

	arena_free(cache->arena, fetch->slot);
	if (res == -ESHUTDOWN) {
		fetch_end(fetch, CACHE_BUSY);
		return;
	}
	CACHE_COUNT(cache, disk_errors, 1);
	log_limited(&limit, LOG_LEVEL_WARNING,
		    "bucket %u: cannot read: %s; the page is a miss",
		    fetch->place.bucket, strerror((int)-res));
	fail(fetch, false);
}

/* Ring's thread. */
static void read_done(struct io_request *request, int64_t res)
{
	struct fetch *fetch = request->arg;

	if (res == -ETIMEDOUT) {
		read_late(fetch);
	} else if (res < 0) {
		read_failed(fetch, res);
	} else if (says_damaged(fetch, res)) {
		arena_free(fetch->cache->arena, fetch->slot);
		fail(fetch, true);
	} else {
		loaded(fetch);
	}
}

/* Ring's thread: the last it does with the request. */
static void read_settled(struct io_request *request)
{
	struct fetch *fetch = request->arg;
	struct cache *cache = fetch->cache;
	struct fetches *fetches = cache->fetches;
	bool last;

	if (fetch->late) {
		atomic_fetch_sub(&fetches->quarantined_bytes,
				 arena_slot_bytes(cache->arena, fetch->slot));
		arena_quarantine_end(cache->arena, fetch->slot);
	}
	pthread_mutex_lock(&fetches->lock);
	last = --fetch->refs == 0;
	fetches->submitted--;
	pthread_cond_broadcast(&fetches->drained);
	pthread_mutex_unlock(&fetches->lock);
	if (last)
		free(fetch);
}

/* Its bucket isn't there: moved, in memory again, or lost. */
static void bucket_gone(struct fetch *fetch)
{
	struct cache *cache = fetch->cache;
	struct cache_slot slot;
	bool moved;

	if (!look_again(fetch, &slot, &moved)) {
		arena_free(cache->arena, fetch->slot);
		fetch_end_with(fetch, 0, &slot);
	} else if (moved && ++fetch->tries < TRIES_MAX) {
		fetch_submit(fetch);
	} else {
		CACHE_COUNT(cache, disk_errors, 1);
		arena_free(cache->arena, fetch->slot);
		fail(fetch, true);
	}
}

static void count_submitted(struct fetch *fetch, int more)
{
	struct fetches *fetches = fetch->cache->fetches;

	pthread_mutex_lock(&fetches->lock);
	fetches->submitted += (unsigned)more;
	fetch->refs += (unsigned)more;
	pthread_mutex_unlock(&fetches->lock);
}

void fetch_submit(struct fetch *fetch)
{
	struct cache *cache = fetch->cache;
	int outcome;

	fetch->request = (struct io_request){
		.done = read_done,
		.settled = read_settled,
		.arg = fetch,
		.deadline_ns = fetch->deadline_ns,
	};
	bucket_touch(cache->buckets, &fetch->place);
	count_submitted(fetch, 1);
	outcome = bucket_read(cache->buckets, &fetch->place,
			      arena_data(cache->arena, fetch->slot),
			      &fetch->request);
	if (!outcome)
		return;
	count_submitted(fetch, -1);
	if (outcome == BUCKET_GONE)
		bucket_gone(fetch);
	else
		read_failed(fetch, outcome);
}

/* ---- starting ---- */

static void wait_for_room(struct fetch *fetch)
{
	struct fetches *fetches = fetch->cache->fetches;

	pthread_mutex_lock(&fetches->lock);
	fetch_move(fetch, FETCH_HUNGRY);
	list_push_back(&fetches->hungry, &fetch->link);
	atomic_fetch_add(&fetches->hungry_count, 1);
	pthread_mutex_unlock(&fetches->lock);
	evictor_kick(fetch->cache->evictor);
}

/* It is in the table: from here on nobody else reads this chunk. A fetch that
 * ended just before has written its row by now, so look once more. */
void fetch_start(struct fetch *fetch)
{
	struct cache *cache = fetch->cache;
	struct fetches *fetches = cache->fetches;
	struct slot_class class;
	struct cache_slot slot;
	bool moved;

	if (!look_again(fetch, &slot, &moved)) {
		fetch_end_with(fetch, 0, &slot);
		return;
	}
	/* So much is stuck in the disk already that more would only pile up. */
	if (atomic_load(&fetches->quarantined_bytes) >
	    fetches->quarantine_max_bytes) {
		CACHE_COUNT(cache, refused_reads, 1);
		fetch_end(fetch, CACHE_FAILED);
		return;
	}
	class = arena_class_for(cache->arena, fetch->len_bytes,
				fetch->owner.uid, fetch->owner.gid,
				fetch->owner.mode);
	if (cache_room(cache, &class, 0, false, &fetch->slot)) {
		wait_for_room(fetch);
		return;
	}
	pthread_mutex_lock(&fetches->lock);
	fetch_move(fetch, FETCH_READING);
	pthread_mutex_unlock(&fetches->lock);
	fetch_submit(fetch);
}
