/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/reads.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/lib/clock.h"

/* See page_gather.c. */
#define TRIES 4

/* One look: pinned (0), CACHE_HOLE, to be fetched (*ret_fetch), or nowhere
 * although a row says that it was in memory (CACHE_MISS). */
static int look(struct cache *cache, const struct slot_class *owner,
		uint64_t object, uint32_t index, uint64_t at_clock,
		struct cache_slot *ret, struct fetch **ret_fetch)
{
	struct chunk_where where;
	struct meta_txn *txn;
	int outcome;

	*ret_fetch = NULL;
	if (meta_begin_read(cache->meta, &txn))
		return CACHE_BUSY;
	outcome = chunk_find(cache, txn, object, index, at_clock, &where);
	if (outcome < 0)
		outcome = CACHE_BUSY;
	if (!outcome && chunk_pin(cache, &where, ret)) {
		outcome = CACHE_MISS;
		if (where.on_disk && owner) {
			*ret_fetch = fetch_prepare(cache, owner, &where);
			if (!*ret_fetch)
				outcome = CACHE_BUSY;
		}
	}
	meta_abort(txn);
	/* What was lost while somebody has it open is no hole. */
	if (outcome == CACHE_HOLE && pages_lost(cache->pages, object, at_clock))
		outcome = CACHE_MISS;
	return outcome;
}

int cache_chunk_pin(struct cache *cache, uint64_t object, uint32_t index,
		    uint64_t at_clock, struct cache_slot *ret)
{
	struct fetch *none;

	return look(cache, NULL, object, index, at_clock, ret, &none);
}

void cache_chunk_fetch(struct cache *cache, const struct slot_class *class,
		       uint64_t object, uint32_t index, uint64_t at_clock,
		       cache_fetched_fn *done, void *arg)
{
	struct cache_slot slot;
	struct fetch *fetch;
	int outcome =
		look(cache, class, object, index, at_clock, &slot, &fetch);

	for (int i = 1; i < TRIES && outcome == CACHE_MISS && !fetch; i++) {
		evict_settle(cache);
		outcome = look(cache, class, object, index, at_clock, &slot,
			       &fetch);
	}
	if (fetch)
		fetch_begin(fetch, done, arg);
	else
		done(arg, outcome, outcome ? NULL : &slot);
}

/* ---- waiting ---- */

/* Shared by the one who waits and the one who answers. */
struct wait {
	struct cache *cache;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool answered, left;
	int outcome;
	struct cache_slot slot;
};

static void wait_free(struct wait *wait)
{
	pthread_cond_destroy(&wait->wake);
	pthread_mutex_destroy(&wait->lock);
	free(wait);
}

static void wait_done(void *arg, int outcome, const struct cache_slot *slot)
{
	struct wait *wait = arg;
	bool left;

	pthread_mutex_lock(&wait->lock);
	left = wait->left;
	wait->answered = true;
	wait->outcome = outcome;
	if (slot && !left)
		wait->slot = *slot;
	pthread_cond_signal(&wait->wake);
	pthread_mutex_unlock(&wait->lock);
	if (!left)
		return;
	if (slot)
		arena_unpin(wait->cache->arena, slot->slot);
	wait_free(wait);
}

static int wait_until(struct wait *wait, uint64_t deadline_ns,
		      struct cache_slot *ret)
{
	struct timespec until = clock_to_timespec(deadline_ns);
	int rc = 0, outcome = CACHE_FAILED;
	bool answered;

	pthread_mutex_lock(&wait->lock);
	while (!wait->answered && rc == 0)
		rc = pthread_cond_clockwait(&wait->wake, &wait->lock,
					    CLOCK_MONOTONIC, &until);
	answered = wait->answered;
	wait->left = !answered;
	pthread_mutex_unlock(&wait->lock);
	if (!answered)
		return outcome;
	outcome = wait->outcome;
	*ret = wait->slot;
	wait_free(wait);
	return outcome;
}

int cache_chunk_fetch_wait(struct cache *cache, const struct slot_class *class,
			   uint64_t object, uint32_t index, uint64_t at_clock,
			   uint64_t deadline_ns, struct cache_slot *ret)
{
	struct wait *wait = calloc(1, sizeof(*wait));

	if (!wait)
		return CACHE_BUSY;
	wait->cache = cache;
	pthread_mutex_init(&wait->lock, NULL);
	pthread_cond_init(&wait->wake, NULL);
	cache_chunk_fetch(cache, class, object, index, at_clock, wait_done,
			  wait);
	return wait_until(wait, deadline_ns, ret);
}
