/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena.h"

#include <assert.h>
#include <errno.h>

#include "store/arena_internal.h"
#include "tools/lib/log.h"

unsigned arena_chunk_shift(const struct arena *arena)
{
	unsigned shift = CHUNK_SHIFT_SMALL;

	/* Four to a region at least, where that leaves a useful size. */
	while (shift < CHUNK_SHIFT_MAX &&
	       (4ull << (shift + 1)) <= arena->region_bytes)
		shift++;
	return shift;
}

/* ---- from free to reserved to live ---- */

/* Under `lock`: a free slot of this class, recycled ones first. */
static int take_slot(struct arena *arena, const struct slot_class *key,
		     slot_t *ret)
{
	struct arena_class *class = arena_class_find(arena, key);
	struct arena_region *region;
	slot_t number;

	if (!class || list_empty(&class->usable))
		return ARENA_FULL;
	region = list_first(&class->usable, struct arena_region, link);
	if (region->recycled) {
		number = arena_region_take_free(arena, region);
	} else {
		number = slot_number(region->index, region->fresh++);
	}
	/* Behind those that still have recycled ones, or among the full. */
	if (!region->recycled)
		arena_class_place_last(region);
	arena_region_reserve(arena, region, number);
	arena_look_ahead(arena, region);
	*ret = number;
	return 0;
}

static int take_slot_locked(struct arena *arena, const struct slot_class *key,
			    slot_t *ret)
{
	int rc;

	pthread_mutex_lock(&arena->lock);
	rc = take_slot(arena, key, ret);
	pthread_mutex_unlock(&arena->lock);
	return rc;
}

static int grow_and_take(struct arena *arena, const struct slot_class *key,
			 slot_t *ret)
{
	int rc;

	pthread_mutex_lock(&arena->grow_lock);
	do {
		/* Who waited for the lock finds another's new region; and
		 * others may take all of ours before we come. */
		rc = take_slot_locked(arena, key, ret);
		if (rc == ARENA_FULL) {
			rc = arena_region_grow(arena, key);
			if (rc)
				break;
			rc = take_slot_locked(arena, key, ret);
		}
	} while (rc == ARENA_FULL);
	pthread_mutex_unlock(&arena->grow_lock);
	return rc;
}

int arena_alloc(struct arena *arena, const struct slot_class *class,
		slot_t *ret)
{
	slot_t slot;
	int rc;

	if (!class->slot_bytes || class->slot_bytes % BLOCK_BYTES ||
	    class->slot_bytes > arena->region_bytes)
		return -EINVAL;
	rc = take_slot_locked(arena, class, &slot);
	if (rc == ARENA_FULL)
		rc = grow_and_take(arena, class, &slot);
	if (rc)
		return rc;
	rc = arena_region_prepare(arena, slot);
	if (rc) {
		arena_free(arena, slot);
		return rc;
	}
	*ret = slot;
	return 0;
}

void arena_commit(struct arena *arena, slot_t number, const struct chunk_id *id,
		  uint32_t len_bytes, bool dirty)
{
	struct arena_slot *slot = slot_at(arena, number);
	struct arena_region *region = region_of(arena, number);
	uint64_t word, next;

	assert(len_bytes <= region->slot_bytes);
	arena_header_commit(arena, number, id, len_bytes, false);
	if (dirty)
		atomic_fetch_add_explicit(&arena->dirty_bytes,
					  region->slot_bytes,
					  memory_order_relaxed);
	arena_pinned_add(arena, number, region->slot_bytes);
	pthread_mutex_lock(&arena->lock);
	arena->live_slots++;
	arena->wasted_bytes += region->slot_bytes - len_bytes;
	arena_queue_push(arena, number);
	word = atomic_load_explicit(&slot->word, memory_order_relaxed);
	do {
		assert(word_state(word) == SLOT_RESERVED && word & WORD_PINS);
		assert(!(word & WORD_DOOMED));
		next = arena_word_move(word, SLOT_LIVE) |
		       (dirty ? WORD_DIRTY : 0);
	} while (!atomic_compare_exchange_weak_explicit(
		&slot->word, &word, next, memory_order_release,
		memory_order_relaxed));
	pthread_mutex_unlock(&arena->lock);
}

void arena_set_dirty(struct arena *arena, slot_t number, bool dirty)
{
	struct arena_slot *slot = slot_at(arena, number);
	uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);
	uint64_t next;
	uint32_t bytes = region_of(arena, number)->slot_bytes;

	do {
		enum slot_state state = word_state(word);

		if (state != SLOT_LIVE && state != SLOT_VICTIM)
			return;
		next = dirty ? word | WORD_DIRTY : word & ~WORD_DIRTY;
		if (next == word)
			return;
	} while (!atomic_compare_exchange_weak_explicit(
		&slot->word, &word, next, memory_order_relaxed,
		memory_order_relaxed));
	if (dirty)
		atomic_fetch_add_explicit(&arena->dirty_bytes, bytes,
					  memory_order_relaxed);
	else
		atomic_fetch_sub_explicit(&arena->dirty_bytes, bytes,
					  memory_order_relaxed);
}

/* ---- facts about a slot ---- */

void *arena_data(const struct arena *arena, slot_t slot)
{
	return region_data(arena, slot_region(slot)) +
	       (size_t)slot_index(slot) * region_of(arena, slot)->slot_bytes;
}

uint32_t arena_slot_bytes(const struct arena *arena, slot_t slot)
{
	return region_of(arena, slot)->slot_bytes;
}

void arena_describe(const struct arena *arena, slot_t slot,
		    struct chunk_id *ret_id, uint32_t *ret_len_bytes)
{
	const struct arena_slot_header *header = slot_header(arena, slot);

	*ret_id = arena_header_id(header);
	*ret_len_bytes = le32_get(header->length_bytes);
}

bool arena_unverified(const struct arena *arena, slot_t slot)
{
	return atomic_load_explicit(&slot_at(arena, slot)->word,
				    memory_order_relaxed) &
	       WORD_UNVERIFIED;
}

void arena_set_verified(struct arena *arena, slot_t slot)
{
	struct arena_slot_header *header = slot_header(arena, slot);

	__atomic_store_n(&header->flags.v, 0, __ATOMIC_RELAXED);
	atomic_fetch_and_explicit(&slot_at(arena, slot)->word, ~WORD_UNVERIFIED,
				  memory_order_relaxed);
}

/* ---- facts about the arena ---- */

void arena_get_stats(struct arena *arena, struct arena_stats *ret)
{
	struct arena_stats stats = {0};
	int64_t pinned = 0;

	pthread_mutex_lock(&arena->lock);
	stats.capacity_bytes = arena->budget_bytes;
	stats.regions = arena->regions_count;
	for (uint32_t i = 0; i < arena->regions_count; i++) {
		const struct arena_region *region = &arena->regions[i];

		if (!region->class) {
			/* What an emptied one still holds comes back to it. */
			stats.capacity_bytes += region->held_bytes;
			stats.regions_unassigned++;
			continue;
		}
		stats.capacity_bytes +=
			(uint64_t)region->slots * region->slot_bytes;
		stats.free_slots += region->slots - region->used;
	}
	stats.used_bytes = arena->used_bytes;
	stats.wasted_bytes = arena->wasted_bytes;
	stats.quarantined_bytes = arena->quarantined_bytes;
	stats.live_slots = arena->live_slots;
	pthread_mutex_unlock(&arena->lock);
	stats.dirty_bytes =
		atomic_load_explicit(&arena->dirty_bytes, memory_order_relaxed);
	for (unsigned i = 0; i < ARENA_STRIPES; i++)
		pinned += atomic_load_explicit(&arena->pinned[i].pinned_bytes,
					       memory_order_relaxed);
	stats.pinned_bytes = pinned > 0 ? (uint64_t)pinned : 0;
	*ret = stats;
}

/* Slots [from, to) that are mapped; *ret_to == from: there are none. */
static void next_mapped(const struct arena *arena,
			const struct arena_region *region, uint32_t *from,
			uint32_t *ret_to)
{
	uint32_t at = *from;

	for (; at < region->fresh; at++) {
		if (atomic_load_explicit(
			    &slot_at(arena, slot_number(region->index, at))
				     ->word,
			    memory_order_relaxed) &
		    WORD_READY)
			break;
	}
	*from = at;
	for (; at < region->fresh; at++) {
		if (!(atomic_load_explicit(
			      &slot_at(arena, slot_number(region->index, at))
				       ->word,
			      memory_order_relaxed) &
		      WORD_READY))
			break;
	}
	*ret_to = at;
}

void arena_each_region(struct arena *arena,
		       void (*each)(void *arg, void *start, size_t len_bytes,
				    uint32_t slot_bytes),
		       void *arg)
{
	pthread_mutex_lock(&arena->grow_lock);
	for (uint32_t i = 0; i < arena->regions_count; i++) {
		const struct arena_region *region = &arena->regions[i];
		uint32_t from = 0, to, bytes;

		pthread_mutex_lock(&arena->lock);
		bytes = region->class ? region->slot_bytes : 0;
		for (; bytes; from = to) {
			next_mapped(arena, region, &from, &to);
			if (from == to)
				break;
			pthread_mutex_unlock(&arena->lock);
			each(arg, region_data(arena, i) + (size_t)from * bytes,
			     (size_t)(to - from) * bytes, bytes);
			pthread_mutex_lock(&arena->lock);
		}
		pthread_mutex_unlock(&arena->lock);
	}
	pthread_mutex_unlock(&arena->grow_lock);
}

uint64_t arena_layout(const struct arena *arena)
{
	return atomic_load_explicit(&arena->layout, memory_order_relaxed);
}

void arena_on_unmap(struct arena *arena,
		    void (*gone)(void *arg, void *start, size_t len_bytes),
		    void *arg)
{
	pthread_mutex_lock(&arena->grow_lock);
	arena->on_unmap = gone;
	arena->on_unmap_arg = arg;
	pthread_mutex_unlock(&arena->grow_lock);
}
