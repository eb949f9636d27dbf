/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/fetch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/checksum.h"
#include "tools/lib/clock.h"
#include "tools/lib/log.h"

/* A bucket that is dropped while we look for it has had its live chunks moved:
 * then the row says where to. */
#define TRIES_MAX 3u

static const struct {
	const char *name;
	unsigned next; /* bits of states */
} states[FETCH_STATES] = {
	[FETCH_STARTING] = {"starting", 1u << FETCH_READING |
						1u << FETCH_HUNGRY |
						1u << FETCH_ENDED},
	[FETCH_HUNGRY] = {"hungry", 1u << FETCH_READING | 1u << FETCH_ENDED},
	[FETCH_READING] = {"reading", 1u << FETCH_LOADED | 1u << FETCH_ENDED},
	[FETCH_LOADED] = {"loaded", 1u << FETCH_ENDED},
	[FETCH_ENDED] = {"ended", 0},
};

bool fetch_may_move(enum fetch_state from, enum fetch_state to)
{
	return states[from].next >> to & 1;
}

const char *fetch_state_name(enum fetch_state state)
{
	return states[state].name;
}

static bool running(enum fetch_state state)
{
	return state == FETCH_STARTING || state == FETCH_HUNGRY ||
	       state == FETCH_READING;
}

/* Under the lock. */
void fetch_move(struct fetch *fetch, enum fetch_state state)
{
	struct fetches *fetches = fetch->cache->fetches;

	assert(fetch_may_move(fetch->state, state));
	if (running(fetch->state) && !running(state))
		fetches->running--;
	fetch->state = state;
	if (!fetches->running)
		pthread_cond_broadcast(&fetches->drained);
}

/* ---- life ---- */

int fetches_new(struct cache *cache, struct fetches **ret)
{
	struct fetches *fetches = calloc(1, sizeof(*fetches));
	struct arena_stats arena;

	if (!fetches)
		return -ENOMEM;
	arena_get_stats(cache->arena, &arena);
	fetches->cache = cache;
	fetches->quarantine_max_bytes = arena.capacity_bytes / 20;
	pthread_mutex_init(&fetches->promote_lock, NULL);
	pthread_mutex_init(&fetches->lock, NULL);
	pthread_cond_init(&fetches->drained, NULL);
	list_init(&fetches->hungry);
	list_init(&fetches->loaded);
	list_init(&fetches->condemned);
	*ret = fetches;
	return 0;
}

void fetches_drain(struct fetches *fetches)
{
	pthread_mutex_lock(&fetches->lock);
	while (fetches->running)
		pthread_cond_wait(&fetches->drained, &fetches->lock);
	pthread_mutex_unlock(&fetches->lock);
}

/* The evictor has gone: what is loaded has its rows. Reads that are late hold
 * us up here, as they would in io_close(). */
void fetches_free(struct fetches *fetches)
{
	if (!fetches)
		return;
	pthread_mutex_lock(&fetches->lock);
	while (fetches->running || fetches->submitted)
		pthread_cond_wait(&fetches->drained, &fetches->lock);
	pthread_mutex_unlock(&fetches->lock);
	fetches_promote(fetches);
	pthread_cond_destroy(&fetches->drained);
	pthread_mutex_destroy(&fetches->lock);
	pthread_mutex_destroy(&fetches->promote_lock);
	free(fetches);
}

struct fetch *fetch_prepare(struct cache *cache, const struct slot_class *owner,
			    const struct chunk_where *where)
{
	size_t blocks = checksum_block_count(where->len_bytes);
	struct fetch *fetch =
		malloc(sizeof(*fetch) + blocks * sizeof(uint64_t));

	if (!fetch)
		return NULL;
	memset(fetch, 0, sizeof(*fetch));
	fetch->cache = cache;
	fetch->id = where->id;
	fetch->len_bytes = where->len_bytes;
	fetch->owner = *owner;
	fetch->slot = SLOT_NONE;
	fetch->place = where->place;
	fetch->refs = 1;
	list_init(&fetch->link);
	list_init(&fetch->waiters);
	for (size_t i = 0; i < blocks; i++)
		fetch->checksums[i] = meta_checksum(&where->row, i);
	return fetch;
}

struct fetch **fetch_next(struct fetch *fetch)
{
	return &fetch->next;
}

void fetch_drop_all(struct fetch *chain)
{
	while (chain) {
		struct fetch *fetch = chain;

		chain = fetch->next;
		free(fetch);
	}
}

void fetch_unref(struct fetch *fetch)
{
	struct fetches *fetches = fetch->cache->fetches;
	bool last;

	pthread_mutex_lock(&fetches->lock);
	last = --fetch->refs == 0;
	pthread_mutex_unlock(&fetches->lock);
	if (last)
		free(fetch);
}

/* ---- the table: under the lock ---- */

static struct fetch **chain_of(struct fetches *fetches,
			       const struct chunk_id *id)
{
	uint64_t hash =
		(id->object ^ id->version.clock) * 0x9E3779B97F4A7C15ull;

	return &fetches->chains[((hash >> 40) + id->index) % FETCH_CHAINS];
}

static struct fetch *find(struct fetches *fetches, const struct chunk_id *id)
{
	struct fetch *fetch = *chain_of(fetches, id);

	while (fetch && !chunk_id_equal(&fetch->id, id))
		fetch = fetch->next;
	return fetch;
}

static void insert(struct fetches *fetches, struct fetch *fetch)
{
	struct fetch **chain = chain_of(fetches, &fetch->id);

	fetch->next = *chain;
	*chain = fetch;
	fetches->running++;
}

void fetch_take_out(struct fetches *fetches, struct fetch *fetch)
{
	struct fetch **at = chain_of(fetches, &fetch->id);

	while (*at != fetch)
		at = &(*at)->next;
	*at = fetch->next;
	list_remove(&fetch->link);
}

/* ---- answers ---- */

/* Each gets a pin of his own. */
static void answer(struct fetch *fetch, struct list *waiters, int outcome,
		   const struct cache_slot *slot)
{
	struct arena *arena = fetch->cache->arena;

	if (slot)
		arena_ref(arena, slot->slot);
	fetch->done(fetch->arg, outcome, slot);
	list_for_each_safe (node, waiters) {
		struct fetch *waiter = list_entry(node, struct fetch, link);

		if (slot)
			arena_ref(arena, slot->slot);
		waiter->done(waiter->arg, outcome, slot);
		free(waiter);
	}
}

/* Moves on, and takes the waiters: nobody joins any more, or (LOADED) whoever
 * comes finds the slot. */
static void move_and_take(struct fetch *fetch, enum fetch_state state,
			  struct list *ret_waiters)
{
	struct fetches *fetches = fetch->cache->fetches;

	list_init(ret_waiters);
	pthread_mutex_lock(&fetches->lock);
	fetch_move(fetch, state);
	if (state == FETCH_ENDED)
		fetch_take_out(fetches, fetch);
	else
		list_push_back(&fetches->loaded, &fetch->link);
	list_splice_back(ret_waiters, &fetch->waiters);
	pthread_mutex_unlock(&fetches->lock);
}

static void end_with(struct fetch *fetch, int outcome,
		     const struct cache_slot *slot)
{
	struct list waiters;

	move_and_take(fetch, FETCH_ENDED, &waiters);
	answer(fetch, &waiters, outcome, slot);
	if (slot)
		arena_unpin(fetch->cache->arena, slot->slot);
	fetch_unref(fetch);
}

void fetch_end(struct fetch *fetch, int outcome)
{
	end_with(fetch, outcome, NULL);
}

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
		end_with(fetch, 0, &slot);
	else
		end_with(fetch, CACHE_FAILED, NULL);
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
	/* Keeps the struct while its row is written by another thread. */
	move_and_take(fetch, FETCH_LOADED, &waiters);
	answer(fetch, &waiters, 0, &slot);
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
		end_with(fetch, 0, &slot);
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

	fetch->request = (struct io_request){
		.done = read_done,
		.settled = read_settled,
		.arg = fetch,
		.deadline_ns = fetch->deadline_ns,
	};
	count_submitted(fetch, 1);
	if (bucket_read(cache->buckets, &fetch->place,
			arena_data(cache->arena, fetch->slot),
			&fetch->request) == 0)
		return;
	count_submitted(fetch, -1);
	bucket_gone(fetch);
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
static void start(struct fetch *fetch)
{
	struct cache *cache = fetch->cache;
	struct fetches *fetches = cache->fetches;
	struct slot_class class;
	struct cache_slot slot;
	bool moved;

	if (!look_again(fetch, &slot, &moved)) {
		end_with(fetch, 0, &slot);
		return;
	}
	/* So much is stuck in the disk already that more would only pile up. */
	if (atomic_load(&fetches->quarantined_bytes) >
	    fetches->quarantine_max_bytes) {
		CACHE_COUNT(cache, timeouts, 1);
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

/* Under the lock. */
static void ref_loaded(const struct fetch *fetch, struct cache_slot *ret)
{
	arena_ref(fetch->cache->arena, fetch->slot);
	ret->slot = fetch->slot;
	ret->id = fetch->id;
	ret->len_bytes = fetch->len_bytes;
}

int fetch_pin_loaded(struct fetches *fetches, const struct chunk_id *id,
		     struct cache_slot *ret)
{
	struct fetch *fetch;
	bool is_loaded;

	pthread_mutex_lock(&fetches->lock);
	fetch = find(fetches, id);
	is_loaded = fetch && fetch->state == FETCH_LOADED;
	if (is_loaded)
		ref_loaded(fetch, ret);
	pthread_mutex_unlock(&fetches->lock);
	return is_loaded ? 0 : CACHE_MISS;
}

void fetch_begin(struct fetch *fetch, cache_fetched_fn *done, void *arg)
{
	struct cache *cache = fetch->cache;
	struct fetches *fetches = cache->fetches;
	struct cache_slot slot;
	struct fetch *first;
	bool is_loaded;

	fetch->done = done;
	fetch->arg = arg;
	fetch->deadline_ns = clock_deadline_ns(fetch->len_bytes);
	pthread_mutex_lock(&fetches->lock);
	first = find(fetches, &fetch->id);
	is_loaded = first && first->state == FETCH_LOADED;
	if (!first) {
		insert(fetches, fetch);
	} else if (is_loaded) {
		ref_loaded(first, &slot);
	} else {
		list_push_back(&first->waiters, &fetch->link);
	}
	pthread_mutex_unlock(&fetches->lock);
	if (!first) {
		CACHE_COUNT(cache, fetches, 1);
		start(fetch);
		return;
	}
	CACHE_COUNT(cache, fetches_shared, 1);
	if (is_loaded) {
		done(arg, 0, &slot);
		free(fetch);
	}
}
