/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/fetch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/checksum.h"
#include "tools/lib/clock.h"

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
	/* Until a read is settled, it may still kick the evictor. */
	pthread_mutex_lock(&fetches->lock);
	while (fetches->running || fetches->submitted)
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

void fetch_answer(struct fetch *fetch, struct list *waiters, int outcome,
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

void fetch_move_and_take(struct fetch *fetch, enum fetch_state state,
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

void fetch_end_with(struct fetch *fetch, int outcome,
		    const struct cache_slot *slot)
{
	struct list waiters;

	fetch_move_and_take(fetch, FETCH_ENDED, &waiters);
	fetch_answer(fetch, &waiters, outcome, slot);
	if (slot)
		arena_unpin(fetch->cache->arena, slot->slot);
	fetch_unref(fetch);
}

void fetch_end(struct fetch *fetch, int outcome)
{
	fetch_end_with(fetch, outcome, NULL);
}

/* ---- who wants one ---- */

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
		fetch_start(fetch);
		return;
	}
	CACHE_COUNT(cache, fetches_shared, 1);
	if (is_loaded) {
		done(arg, 0, &slot);
		free(fetch);
	}
}
