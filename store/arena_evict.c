/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena_internal.h"

#include <assert.h>

/* How much of a region is looked at to tell how cold it is. */
#define SAMPLES 16u
/* How many regions compete at a time. */
#define WINDOW 64u

/* Collects victims; all of this is under `lock`. */
struct harvest {
	struct arena_victim *victims;
	size_t count, max;
	uint64_t bytes;
};

/* False where the slot was pinned or hit since the hand looked. */
static bool take_victim(struct arena *arena, slot_t number, bool even_visited,
			struct harvest *harvest)
{
	struct arena_slot *slot = slot_at(arena, number);
	uint64_t hot =
		WORD_PINS | WORD_DOOMED | (even_visited ? 0 : WORD_VISITED);
	uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);
	struct arena_victim *victim;

	do {
		if (word_state(word) != SLOT_LIVE || word & hot)
			return false;
		/* Acquire: the unpins before it. */
	} while (!atomic_compare_exchange_weak_explicit(
		&slot->word, &word, arena_word_move(word, SLOT_VICTIM),
		memory_order_acquire, memory_order_relaxed));
	arena_queue_remove(arena, number);
	victim = &harvest->victims[harvest->count++];
	victim->slot = number;
	victim->dirty = word & WORD_DIRTY;
	arena_describe(arena, number, &victim->id, &victim->len_bytes);
	harvest->bytes += region_of(arena, number)->slot_bytes;
	return true;
}

/* The coldest of the whole arena: of all hands the one at the oldest slot. */
static struct arena_class *coldest_class(struct arena *arena)
{
	struct arena_class *best = NULL;

	list_for_each (node, &arena->classes) {
		struct arena_class *class =
			list_entry(node, struct arena_class, link);

		if (arena_queue_next(arena, class) == SLOT_NONE)
			continue;
		if (!best || slot_at(arena, class->hand)->seq <
				     slot_at(arena, best->hand)->seq)
			best = class;
	}
	return best;
}

static void harvest_class(struct arena *arena, struct arena_class *class,
			  uint64_t wanted, struct harvest *harvest)
{
	while (harvest->count < harvest->max && harvest->bytes < wanted) {
		slot_t slot = arena_queue_next(arena, class);

		if (slot == SLOT_NONE)
			return;
		(void)take_victim(arena, slot, false, harvest);
	}
}

static void harvest_all(struct arena *arena, uint64_t wanted,
			struct harvest *harvest)
{
	while (harvest->count < harvest->max && harvest->bytes < wanted) {
		struct arena_class *class = coldest_class(arena);

		if (!class)
			return;
		(void)take_victim(arena, class->hand, false, harvest);
	}
}

/* ---- a whole region of another class ---- */

/* Every slot is free or live, unpinned (or, with `victims`, already out). */
static bool can_be_emptied(const struct arena *arena,
			   const struct arena_region *region, bool victims)
{
	uint32_t end = region->fresh;

	if (!victims && region->used != region->live)
		return false;
	for (uint32_t i = 0; i < end; i++) {
		uint64_t word = atomic_load_explicit(
			&slot_at(arena, slot_number(region->index, i))->word,
			memory_order_relaxed);

		switch (word_state(word)) {
		case SLOT_LIVE:
			if (word & WORD_PINS)
				return false;
			break;
		case SLOT_VICTIM:
		case SLOT_FREEING:
		case SLOT_FREE:
		case SLOT_EMPTY:
			break;
		default:
			return false;
		}
	}
	return true;
}

/* The mean age of some of its slots, as an insertion number: low is cold.
 * What was hit, or would have to be written first, counts as new. */
static uint64_t region_warmth(const struct arena *arena,
			      const struct arena_region *region)
{
	uint32_t step = region->fresh / SAMPLES + 1;
	uint64_t sum = 0, count = 0;

	for (uint32_t i = 0; i < region->fresh; i += step) {
		const struct arena_slot *slot =
			slot_at(arena, slot_number(region->index, i));
		uint64_t word =
			atomic_load_explicit(&slot->word, memory_order_relaxed);

		count++;
		if (word_state(word) != SLOT_LIVE)
			continue;
		sum += word & (WORD_VISITED | WORD_DIRTY) ? arena->seq
							  : slot->seq;
	}
	return count ? sum / count : 0;
}

static bool helps(const struct arena *arena, const struct arena_region *region,
		  const struct slot_class *key)
{
	uint64_t need = key->slot_bytes + arena_region_overhead(1);

	return region->class && !region->busy && !region->draining &&
	       !region->loaded && region->used &&
	       region->used == region->live &&
	       !arena_class_equal(&region->class->key, key) &&
	       arena->budget_bytes + region->held_bytes >= need;
}

/* The coldest that can be emptied among WINDOW regions from `cursor` on. */
static struct arena_region *coldest_in_window(struct arena *arena,
					      const struct slot_class *key,
					      uint64_t colder_than)
{
	struct arena_region *best = NULL;
	uint64_t best_warmth = colder_than;
	uint32_t count =
		arena->regions_count < WINDOW ? arena->regions_count : WINDOW;

	for (uint32_t i = 0; i < count; i++) {
		struct arena_region *region =
			&arena->regions[(arena->cursor + i) %
					arena->regions_count];
		uint64_t warmth;

		if (!helps(arena, region, key))
			continue;
		warmth = region_warmth(arena, region);
		if (warmth < best_warmth &&
		    can_be_emptied(arena, region, false)) {
			best = region;
			best_warmth = warmth;
		}
	}
	arena->cursor = (arena->cursor + count) % arena->regions_count;
	return best;
}

static struct arena_region *coldest_region(struct arena *arena,
					   const struct slot_class *key,
					   uint64_t colder_than)
{
	uint32_t windows = colder_than == UINT64_MAX
				   ? arena->regions_count / WINDOW + 1
				   : 1;

	for (uint32_t i = 0; i < windows; i++) {
		struct arena_region *region =
			coldest_in_window(arena, key, colder_than);

		if (region)
			return region;
	}
	return NULL;
}

/* Takes what the region has; all of it where `max` allows, the rest with the
 * next call. */
static void drain(struct arena *arena, struct arena_region *region,
		  struct harvest *harvest)
{
	region->draining = true;
	arena_class_place(region);
	arena->drained = region->index;
	for (uint32_t i = 0; i < region->fresh; i++) {
		if (harvest->count == harvest->max)
			return;
		(void)take_victim(arena, slot_number(region->index, i), true,
				  harvest);
	}
}

static void stop_draining(struct arena *arena, struct arena_region *region)
{
	region->draining = false;
	if (arena->drained == region->index)
		arena->drained = UINT32_MAX;
	arena_class_place(region);
}

/* Goes on with a region of which only a part fitted into the last call. */
static void go_on_draining(struct arena *arena, struct harvest *harvest)
{
	struct arena_region *region;

	if (arena->drained == UINT32_MAX)
		return;
	region = &arena->regions[arena->drained];
	if (!can_be_emptied(arena, region, true))
		stop_draining(arena, region);
	else if (region->live)
		drain(arena, region, harvest);
}

static void harvest_for(struct arena *arena, const struct slot_class *key,
			uint64_t wanted, struct harvest *harvest)
{
	struct arena_class *class = arena_class_find(arena, key);
	slot_t own = class ? arena_queue_next(arena, class) : SLOT_NONE;
	struct arena_region *region;

	go_on_draining(arena, harvest);
	if (harvest->count)
		return;
	/* A class grows at the cost of those whose slots are older than its
	 * own oldest; so shares follow use. */
	region = coldest_region(arena, key,
				own == SLOT_NONE ? UINT64_MAX
						 : slot_at(arena, own)->seq);
	if (region)
		drain(arena, region, harvest);
	else if (class)
		harvest_class(arena, class, wanted, harvest);
}

size_t arena_victims(struct arena *arena, uint64_t bytes_wanted,
		     const struct slot_class *class,
		     struct arena_victim *victims, size_t max)
{
	struct harvest harvest = {.victims = victims, .max = max};

	pthread_mutex_lock(&arena->lock);
	if (class)
		harvest_for(arena, class, bytes_wanted, &harvest);
	else
		harvest_all(arena, bytes_wanted, &harvest);
	pthread_mutex_unlock(&arena->lock);
	return harvest.count;
}

void arena_restore(struct arena *arena, slot_t number)
{
	struct arena_slot *slot = slot_at(arena, number);
	struct arena_region *region = region_of(arena, number);
	uint64_t word;

	pthread_mutex_lock(&arena->lock);
	arena_queue_push(arena, number);
	if (region->draining)
		stop_draining(arena, region);
	word = atomic_load_explicit(&slot->word, memory_order_relaxed);
	do {
		assert(word_state(word) == SLOT_VICTIM);
	} while (!atomic_compare_exchange_weak_explicit(
		&slot->word, &word, arena_word_move(word, SLOT_LIVE),
		memory_order_release, memory_order_relaxed));
	pthread_mutex_unlock(&arena->lock);
}
