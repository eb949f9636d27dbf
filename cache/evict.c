/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/fixed.h"
#include "cache/reads.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/lib/clock.h"
#include "tools/lib/log.h"

#define VICTIMS_MAX 64u

struct evictor {
	struct cache *cache;
	pthread_t thread;
	struct fixed *fixed; /* the thread's */
	/* A slot is a victim only under this one; see evict_begin(). */
	pthread_mutex_t victims_lock;

	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* Guarded by `lock`. */
	bool kicked;
	bool stop;
};

void evict_begin(struct cache *cache)
{
	if (cache->evictor)
		pthread_mutex_lock(&cache->evictor->victims_lock);
}

void evict_end(struct cache *cache)
{
	if (cache->evictor)
		pthread_mutex_unlock(&cache->evictor->victims_lock);
}

void evict_settle(struct cache *cache)
{
	evict_begin(cache);
	evict_end(cache);
}

/* ---- what is lost with its last slot ---- */

int evict_lost_add(struct evict_lost *lost, uint64_t object)
{
	uint64_t *objects;

	for (size_t i = 0; i < lost->count; i++)
		if (lost->objects[i] == object)
			return 0;
	objects = realloc(lost->objects,
			  (lost->count + 1) * sizeof(lost->objects[0]));
	if (!objects)
		return -ENOMEM;
	lost->objects = objects;
	objects[lost->count++] = object;
	return 0;
}

void evict_lost(struct cache *cache, struct evict_lost *lost)
{
	for (size_t i = 0; i < lost->count; i++)
		(void)cache_page_lost(cache, lost->objects[i]);
	cache_garbage_free(cache, &lost->garbage);
	free(lost->objects);
	*lost = (struct evict_lost){0};
}

/* ---- victims ---- */

enum fate {
	FATE_STAY,
	FATE_GO
};

struct batch {
	struct cache *cache;
	struct meta_txn *txn;
	struct arena_victim victims[VICTIMS_MAX];
	enum fate fates[VICTIMS_MAX];
	size_t count;
	struct evict_lost *lost;
};

/* A clean chunk without a disk row is what a bucket that was evicted has left:
 * nobody has hit it since, so it goes for good, as everything does where there
 * is no disk tier. What somebody reads on demand, or builds upon, stays. */
static int lose_victim(struct batch *batch, const struct chunk_id *id)
{
	int error;

	if (pages_open(batch->cache->pages, id->object))
		return FATE_STAY;
	error = evict_lost_add(batch->lost, id->object);
	if (!error)
		error = chunk_lose(batch->cache, batch->txn, id,
				   &batch->lost->garbage);
	return error ? error : FATE_GO;
}

/* Without a row that leads to the slot, whoever deleted that has left it to
 * us. */
static int decide(struct batch *batch, const struct arena_victim *victim)
{
	struct chunk_rows rows;
	int error = chunk_rows(batch->cache, batch->txn, &victim->id, &rows);

	if (error)
		return error;
	if (!rows.in_memory || rows.memory.slot != victim->slot)
		return FATE_GO;
	if (!rows.on_disk)
		return lose_victim(batch, &victim->id);
	error = meta_chunk_del(batch->txn, META_MEMORY, &victim->id);
	return error ? error : FATE_GO;
}

static int decide_all(struct batch *batch)
{
	int outcome = meta_begin_write(batch->cache->meta, &batch->txn);

	if (outcome)
		return outcome;
	for (size_t i = 0; i < batch->count; i++) {
		outcome = decide(batch, &batch->victims[i]);
		if (outcome < 0) {
			meta_abort(batch->txn);
			return outcome;
		}
		batch->fates[i] = (enum fate)outcome;
	}
	return cache_commit(batch->cache, batch->txn);
}

/* What would have to be written first goes back at once. */
static void put_dirty_back(struct batch *batch, bool *ret_dirty)
{
	struct cache *cache = batch->cache;
	size_t kept = 0;

	for (size_t i = 0; i < batch->count; i++) {
		if (batch->victims[i].dirty && cache->buckets) {
			arena_restore(cache->arena, batch->victims[i].slot);
			*ret_dirty = true;
		} else {
			batch->victims[kept++] = batch->victims[i];
		}
	}
	batch->count = kept;
}

static size_t finish(struct batch *batch, int error)
{
	struct cache *cache = batch->cache;
	uint64_t bytes = 0;
	size_t freed = 0;

	for (size_t i = 0; i < batch->count; i++) {
		const struct arena_victim *victim = &batch->victims[i];

		if (error || batch->fates[i] == FATE_STAY) {
			arena_restore(cache->arena, victim->slot);
			continue;
		}
		arena_free(cache->arena, victim->slot);
		bytes += victim->len_bytes;
		freed++;
	}
	CACHE_COUNT(cache, evicted_pages, freed);
	CACHE_COUNT(cache, evicted_bytes, bytes);
	return freed;
}

size_t evict_slots(struct cache *cache, const struct slot_class *class,
		   uint64_t bytes, struct evict_lost *lost, bool *ret_dirty)
{
	static struct log_limit limit;
	struct batch batch = {.cache = cache, .lost = lost};
	int error;

	batch.count = arena_victims(cache->arena, bytes, class, batch.victims,
				    VICTIMS_MAX);
	put_dirty_back(&batch, ret_dirty);
	if (!batch.count)
		return 0;
	error = decide_all(&batch);
	if (error)
		log_limited(&limit, LOG_LEVEL_WARNING,
			    "cannot evict: the index refuses (error %d)",
			    -error);
	return finish(&batch, error);
}

/* ---- the thread ---- */

static uint64_t part(double ratio, uint64_t whole)
{
	return (uint64_t)(ratio * (double)whole);
}

/* Below the watermark by eviction_ratio, or as far as clean pages reach. */
static void keep_level(struct cache *cache)
{
	const struct cache_config *config = &cache->config;
	struct evict_lost lost = {0};
	struct arena_stats stats;
	uint64_t high, low;
	bool dirty = false;
	size_t freed = 1;

	arena_get_stats(cache->arena, &stats);
	high = part(config->eviction_high_watermark_ratio,
		    stats.capacity_bytes);
	low = part(config->eviction_ratio, stats.capacity_bytes);
	low = high > low ? high - low : 0;
	if (stats.used_bytes <= high)
		return;
	while (freed && stats.used_bytes > low) {
		evict_begin(cache);
		freed = evict_slots(cache, NULL, stats.used_bytes - low, &lost,
				    &dirty);
		evict_end(cache);
		evict_lost(cache, &lost);
		arena_get_stats(cache->arena, &stats);
	}
	if (dirty)
		writeback_kick(cache->writeback, true);
}

static uint64_t work(struct evictor *evictor)
{
	struct cache *cache = evictor->cache;
	uint64_t again_ns, fixed_ns;

	pages_work(cache->pages);
	again_ns = fetches_work(cache->fetches);
	keep_level(cache);
	fixed_ns = fixed_work(evictor->fixed, clock_monotonic_ns());
	return fixed_ns < again_ns ? fixed_ns : again_ns;
}

static void sleep_until(struct evictor *evictor, uint64_t until_ns)
{
	struct timespec until = clock_to_timespec(until_ns);
	int rc = 0;

	while (!evictor->kicked && !evictor->stop && rc == 0) {
		if (until_ns == UINT64_MAX)
			rc = pthread_cond_wait(&evictor->wake, &evictor->lock);
		else
			rc = pthread_cond_clockwait(&evictor->wake,
						    &evictor->lock,
						    CLOCK_MONOTONIC, &until);
	}
}

static void *run(void *arg)
{
	struct evictor *evictor = arg;
	bool stop = false;

	pthread_setname_np(pthread_self(), "pagefs-evict");
	while (!stop) {
		uint64_t again_ns = work(evictor);

		pthread_mutex_lock(&evictor->lock);
		sleep_until(evictor, again_ns);
		evictor->kicked = false;
		stop = evictor->stop;
		pthread_mutex_unlock(&evictor->lock);
	}
	(void)work(evictor);
	return NULL;
}

void evictor_kick(struct evictor *evictor)
{
	if (!evictor)
		return;
	pthread_mutex_lock(&evictor->lock);
	if (!evictor->kicked) {
		evictor->kicked = true;
		pthread_cond_signal(&evictor->wake);
	}
	pthread_mutex_unlock(&evictor->lock);
}

int evictor_new(struct cache *cache, struct evictor **ret)
{
	struct evictor *evictor = calloc(1, sizeof(*evictor));
	int rc;

	if (!evictor || fixed_new(cache, &evictor->fixed)) {
		free(evictor);
		return -ENOMEM;
	}
	evictor->cache = cache;
	pthread_mutex_init(&evictor->victims_lock, NULL);
	pthread_mutex_init(&evictor->lock, NULL);
	pthread_cond_init(&evictor->wake, NULL);
	/* The thread looks for it there. */
	*ret = evictor;
	rc = pthread_create(&evictor->thread, NULL, run, evictor);
	if (rc) {
		*ret = NULL;
		fixed_free(evictor->fixed);
		free(evictor);
	}
	return -rc;
}

void evictor_free(struct evictor *evictor)
{
	if (!evictor)
		return;
	fetches_drain(evictor->cache->fetches);
	pthread_mutex_lock(&evictor->lock);
	evictor->stop = true;
	pthread_cond_signal(&evictor->wake);
	pthread_mutex_unlock(&evictor->lock);
	pthread_join(evictor->thread, NULL);
	fixed_free(evictor->fixed);
	pthread_cond_destroy(&evictor->wake);
	pthread_mutex_destroy(&evictor->lock);
	pthread_mutex_destroy(&evictor->victims_lock);
	free(evictor);
}
