/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/reads.h"

#include <stdatomic.h>

#include "tools/lib/checksum.h"

void cache_get_stats(struct cache *cache, struct cache_stats *ret)
{
	struct cache_counters *counters = cache->counters;

#define COPY(field)                                                            \
	ret->field =                                                           \
		atomic_load_explicit(&counters->field, memory_order_relaxed)
	COPY(opens);
	COPY(hits_memory);
	COPY(hits_disk);
	COPY(hits_empty);
	COPY(misses);
	COPY(failures);
	COPY(busy);
	COPY(stale);
	COPY(commits);
	COPY(bytes_committed);
	COPY(aborted_writers);
	COPY(evicted_pages);
	COPY(evicted_bytes);
	COPY(lost_pages);
	COPY(checksum_errors);
	COPY(disk_errors);
	COPY(timeouts);
	COPY(refused_reads);
	COPY(pending_pages);
	COPY(pending_bytes);
	COPY(written_pages);
	COPY(written_bytes);
	COPY(write_errors);
	COPY(waits_for_memory);
	COPY(no_space);
	COPY(fetches);
	COPY(fetches_shared);
	COPY(open_pages);
	COPY(open_writers);
	COPY(disk_alarm);
#undef COPY
}

/* ---- space ---- */

void cache_get_space(struct cache *cache, struct cache_space *ret)
{
	struct meta_totals totals = {0};
	struct arena_stats arena;
	struct meta_txn *txn;

	*ret = (struct cache_space){0};
	if (meta_begin_read(cache->meta, &txn) == 0) {
		meta_get_totals(txn, &totals);
		meta_abort(txn);
	}
	arena_get_stats(cache->arena, &arena);
	if (cache->buckets) {
		struct buckets_stats disk;
		uint64_t held;

		buckets_get_stats(cache->buckets, &disk);
		ret->total_bytes = disk.cap_bytes;
		/* What eviction would free at once: all but the pages that
		 * only memory has. */
		held = atomic_load(&cache->counters->pending_bytes);
		ret->available_bytes =
			disk.cap_bytes > held ? disk.cap_bytes - held : 0;
	} else {
		ret->total_bytes = arena.capacity_bytes;
		ret->available_bytes =
			arena.capacity_bytes > arena.pinned_bytes
				? arena.capacity_bytes - arena.pinned_bytes
				: 0;
	}
	if (totals.logical_bytes < ret->total_bytes)
		ret->free_bytes = ret->total_bytes - totals.logical_bytes;
	ret->pages = totals.pages + totals.directories + totals.symlinks;
	/* Names are bounded by the file system under the index alone. */
	ret->pages_free = UINT32_MAX;
}

/* ---- one page ---- */

struct facts {
	struct cache *cache;
	const struct meta_entry *entry;
	struct cache_facts *ret;
	enum meta_tier tier;
	uint32_t chunks;
	struct meta_chunk best; /* the newest row of the index at hand */
	bool has_best;
};

static void add_best(struct facts *facts)
{
	const struct meta_chunk *chunk = &facts->best;
	uint64_t *bytes = facts->tier == META_MEMORY ? &facts->ret->memory_bytes
						     : &facts->ret->disk_bytes;
	size_t blocks = checksum_block_count(chunk->len_bytes);

	if (!facts->has_best)
		return;
	facts->has_best = false;
	if (facts->tier == META_MEMORY) {
		if (arena_pin_quietly(facts->cache->arena, chunk->slot,
				      &chunk->id))
			return;
		arena_unpin(facts->cache->arena, chunk->slot);
	}
	*bytes += chunk->len_bytes;
	facts->chunks++;
	/* Either tier has the same checksums; the fuller one tells. */
	for (size_t i = 0; i < blocks; i++) {
		uint64_t sum = meta_checksum(chunk, i);

		facts->ret->checksum =
			checksum_bytes(&sum, sizeof(sum), facts->ret->checksum);
	}
}

static int facts_chunk(void *arg, const struct meta_chunk *chunk)
{
	struct facts *facts = arg;

	if (facts->has_best && facts->best.id.index != chunk->id.index)
		add_best(facts);
	if (chunk->id.version.clock > facts->entry->version.clock ||
	    !cache_chunk_current(chunk, facts->entry->version.clock))
		return 0;
	facts->best = *chunk;
	facts->has_best = true;
	return 0;
}

static bool facts_of_tier(struct facts *facts, struct meta_txn *txn,
			  enum meta_tier tier)
{
	facts->tier = tier;
	facts->chunks = 0;
	facts->ret->checksum = 0;
	meta_chunk_each(txn, tier, facts->entry->object, 0, facts_chunk, facts);
	add_best(facts);
	return facts->chunks == facts->entry->chunks;
}

int cache_get_facts(struct cache *cache, const struct meta_entry *entry,
		    struct cache_facts *ret)
{
	struct facts facts = {.cache = cache, .entry = entry, .ret = ret};
	struct meta_txn *txn;
	uint64_t checksum;
	int error = meta_begin_read(cache->meta, &txn);

	if (error)
		return error;
	*ret = (struct cache_facts){
		.version = entry->version,
		.hits = pages_hits(cache->pages, entry->object),
	};
	ret->in_memory = facts_of_tier(&facts, txn, META_MEMORY);
	checksum = ret->checksum;
	if (cache->buckets)
		ret->on_disk = facts_of_tier(&facts, txn, META_DISK);
	if (!ret->on_disk)
		ret->checksum = checksum;
	meta_abort(txn);
	return 0;
}
