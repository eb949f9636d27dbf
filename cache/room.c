/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/reads.h"

#include <errno.h>
#include <time.h>

#include "tools/lib/clock.h"

/* Room is made for more than one, or each slot would cost a transaction: so
 * many bytes, but no more than this part of the arena. */
#define BATCH_BYTES (UINT64_C(32) << 20)
#define BATCH_PART 32u

/* What frees a slot doesn't always tell (an unpin, a delete). */
#define PAUSE_NS CLOCK_NS_PER_MS
#define BATCH_WAIT_NS (5 * CLOCK_NS_PER_MS)

struct slot_class cache_class(struct cache *cache, uint64_t len_bytes,
			      const struct meta_entry *owner)
{
	return arena_class_for(cache->arena, len_bytes, owner->uid, owner->gid,
			       owner->mode);
}

/* The evictor starts in time, so that allocations don't have to evict. */
static void watch_level(struct cache *cache)
{
	struct arena_stats stats;

	arena_get_stats(cache->arena, &stats);
	if ((double)stats.used_bytes >
	    cache->config.eviction_high_watermark_ratio *
		    (double)stats.capacity_bytes)
		evictor_kick(cache->evictor);
}

/* Past its limits of files and mappings the arena can't grow either: what it
 * has is evicted and used again. */
static bool full(int outcome)
{
	return outcome == ARENA_FULL || outcome == -ENOSPC ||
	       outcome == -EMFILE || outcome == -ENFILE || outcome == -ENOMEM;
}

static uint64_t batch_bytes(struct cache *cache, const struct slot_class *class)
{
	struct arena_stats stats;
	uint64_t bytes;

	arena_get_stats(cache->arena, &stats);
	bytes = stats.capacity_bytes / BATCH_PART;
	if (bytes > BATCH_BYTES)
		bytes = BATCH_BYTES;
	return bytes > class->slot_bytes ? bytes : class->slot_bytes;
}

/* One at a time: what the one before has made room for may be enough. A region
 * of another class may take several rounds to empty. */
static int evict_and_alloc(struct cache *cache, const struct slot_class *class,
			   bool *ret_dirty, slot_t *ret)
{
	struct evict_lost lost = {0};
	uint64_t bytes = batch_bytes(cache, class);
	int outcome;

	evict_begin(cache);
	outcome = arena_alloc(cache->arena, class, ret);
	while (full(outcome) &&
	       evict_slots(cache, class, bytes, &lost, ret_dirty))
		outcome = arena_alloc(cache->arena, class, ret);
	evict_end(cache);
	evict_lost(cache, &lost);
	return outcome;
}

static void wait_for_batch(struct cache *cache, bool dirty, uint64_t now_ns,
			   uint64_t deadline_ns)
{
	struct timespec pause = {.tv_nsec = PAUSE_NS};
	uint64_t until_ns = now_ns + BATCH_WAIT_NS;

	if (dirty && cache->buckets) {
		writeback_kick(cache->writeback, true);
		(void)writeback_wait_batch(
			cache->writeback,
			until_ns < deadline_ns ? until_ns : deadline_ns);
		if (clock_monotonic_ns() >= now_ns + PAUSE_NS)
			return;
	}
	/* Nothing to write, or writing fails: pins may go. */
	nanosleep(&pause, NULL);
}

int cache_room(struct cache *cache, const struct slot_class *class,
	       uint64_t deadline_ns, bool wait, slot_t *ret)
{
	int outcome = arena_alloc(cache->arena, class, ret);

	for (bool waited = false; full(outcome); waited = true) {
		uint64_t now_ns = clock_monotonic_ns();
		bool dirty = false;

		if (waited && now_ns >= deadline_ns) {
			CACHE_COUNT(cache, no_space, 1);
			return -ENOSPC;
		}
		outcome = evict_and_alloc(cache, class, &dirty, ret);
		if (!full(outcome))
			break;
		if (!wait)
			return -ENOSPC;
		if (!waited)
			CACHE_COUNT(cache, waits_for_memory, 1);
		wait_for_batch(cache, dirty, now_ns, deadline_ns);
	}
	if (!outcome) {
		watch_level(cache);
		if (arena_hungry(cache->arena))
			ahead_kick(cache->ahead);
	}
	return outcome;
}
