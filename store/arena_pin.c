/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena_internal.h"

#include <assert.h>

/* Striped: all readers would meet on one counter. */
void arena_pinned_add(struct arena *arena, slot_t slot, int64_t bytes)
{
	struct arena_stripe *stripe =
		&arena->pinned[(slot ^ slot >> 16) % ARENA_STRIPES];

	atomic_fetch_add_explicit(&stripe->pinned_bytes, bytes,
				  memory_order_relaxed);
}

static int pin(struct arena *arena, slot_t slot, const struct chunk_id *id,
	       uint64_t hit)
{
	struct arena_slot *state;
	struct chunk_id found;
	uint64_t word;

	if (slot_region(slot) >= arena->regions_count ||
	    slot_index(slot) >= arena->slots_max)
		return ARENA_GONE;
	state = slot_at(arena, slot);
	word = atomic_load_explicit(&state->word, memory_order_relaxed);
	do {
		if (word_state(word) != SLOT_LIVE || word & WORD_DOOMED)
			return ARENA_GONE;
		/* Acquire: pairs with the release in arena_commit(), which
		 * stands after the header and the region are as they are. */
	} while (!atomic_compare_exchange_weak_explicit(
		&state->word, &word, (word + 1) | hit, memory_order_acquire,
		memory_order_relaxed));
	if (!(word & WORD_PINS))
		arena_pinned_add(arena, slot,
				 region_of(arena, slot)->slot_bytes);
	/* What it held may have gone and another chunk come before the pin:
	 * now that it stays, look. */
	found = arena_header_id(slot_header(arena, slot));
	if (chunk_id_equal(&found, id))
		return 0;
	arena_unpin(arena, slot);
	return ARENA_GONE;
}

int arena_pin(struct arena *arena, slot_t slot, const struct chunk_id *id)
{
	return pin(arena, slot, id, WORD_VISITED);
}

int arena_pin_quietly(struct arena *arena, slot_t slot,
		      const struct chunk_id *id)
{
	return pin(arena, slot, id, 0);
}

bool arena_hit_lately(const struct arena *arena, slot_t slot)
{
	return atomic_load_explicit(&slot_at(arena, slot)->word,
				    memory_order_relaxed) &
	       WORD_VISITED;
}

void arena_ref(struct arena *arena, slot_t slot)
{
	uint64_t word = atomic_fetch_add_explicit(&slot_at(arena, slot)->word,
						  1, memory_order_relaxed);

	assert(word & WORD_PINS);
}

void arena_slot_finish(struct arena *arena, slot_t slot, enum slot_state was)
{
	struct arena_region *region = region_of(arena, slot);
	struct arena_slot *state = slot_at(arena, slot);
	uint64_t word;

	pthread_mutex_lock(&arena->lock);
	if (was == SLOT_LIVE)
		arena_queue_remove(arena, slot);
	if (was == SLOT_LIVE || was == SLOT_VICTIM) {
		arena->live_slots--;
		arena->wasted_bytes -=
			region->slot_bytes -
			le32_get(slot_header(arena, slot)->length_bytes);
	}
	arena_header_free(arena, slot);
	word = atomic_load_explicit(&state->word, memory_order_relaxed);
	if (word & WORD_DIRTY)
		atomic_fetch_sub_explicit(&arena->dirty_bytes,
					  region->slot_bytes,
					  memory_order_relaxed);
	atomic_store_explicit(&state->word,
			      arena_word_move(word & WORD_READY, SLOT_FREE),
			      memory_order_release);
	arena->used_bytes -= region->slot_bytes;
	region->used--;
	arena_region_put_free(arena, region, slot);
	if (region->draining && !region->used)
		arena_region_vacate(arena, region);
	pthread_mutex_unlock(&arena->lock);
}

void arena_unpin(struct arena *arena, slot_t slot)
{
	struct arena_slot *state = slot_at(arena, slot);
	uint32_t slot_bytes = region_of(arena, slot)->slot_bytes;
	uint64_t word =
		atomic_load_explicit(&state->word, memory_order_relaxed);
	uint64_t next;
	bool last;

	do {
		assert(word & WORD_PINS);
		last = (word & WORD_PINS) == 1;
		/* A reserved slot is freed or committed, not dropped. */
		assert(!last || word_state(word) == SLOT_LIVE ||
		       word & WORD_DOOMED);
		next = word - 1;
		if (last && word & WORD_DOOMED)
			next = arena_word_move(next, SLOT_FREEING);
		/* Release: the reads of this holder are before the next use of
		 * the slot; acquire, for the one that frees it. */
	} while (!atomic_compare_exchange_weak_explicit(
		&state->word, &word, next, memory_order_acq_rel,
		memory_order_relaxed));
	if (last && word_state(word) == SLOT_LIVE)
		arena_pinned_add(arena, slot, -(int64_t)slot_bytes);
	if (last && word & WORD_DOOMED)
		arena_slot_finish(arena, slot, word_state(word));
}

/* What becomes of a word when its slot is freed; *ret_now: by this caller. */
static uint64_t freed_word(uint64_t word, bool *ret_now)
{
	switch (word_state(word)) {
	case SLOT_VICTIM:
		*ret_now = true;
		return arena_word_move(word, SLOT_FREEING);
	case SLOT_LIVE:
		*ret_now = !(word & WORD_PINS);
		return *ret_now ? arena_word_move(word, SLOT_FREEING)
				: word | WORD_DOOMED;
	case SLOT_RESERVED:
		*ret_now = (word & WORD_PINS) == 1;
		return *ret_now ? arena_word_move(word - 1, SLOT_FREEING)
				: (word - 1) | WORD_DOOMED;
	default:
		break;
	}
	*ret_now = true;
	return arena_word_move(word, SLOT_FREEING); /* asserts */
}

void arena_free(struct arena *arena, slot_t slot)
{
	struct arena_slot *state = slot_at(arena, slot);
	uint64_t word =
		atomic_load_explicit(&state->word, memory_order_relaxed);
	uint64_t next;
	bool now;

	do {
		next = freed_word(word, &now);
	} while (!atomic_compare_exchange_weak_explicit(
		&state->word, &word, next, memory_order_acq_rel,
		memory_order_relaxed));
	if (now)
		arena_slot_finish(arena, slot, word_state(word));
}

/* The caller's pin becomes the quarantine's. */
void arena_quarantine(struct arena *arena, slot_t slot)
{
	struct arena_slot *state = slot_at(arena, slot);
	uint64_t word =
		atomic_load_explicit(&state->word, memory_order_relaxed);

	do {
		assert(word_state(word) == SLOT_RESERVED && word & WORD_PINS);
	} while (!atomic_compare_exchange_weak_explicit(
		&state->word, &word, arena_word_move(word, SLOT_QUARANTINED),
		memory_order_acq_rel, memory_order_relaxed));
	pthread_mutex_lock(&arena->lock);
	arena->quarantined_bytes += region_of(arena, slot)->slot_bytes;
	pthread_mutex_unlock(&arena->lock);
}

void arena_quarantine_end(struct arena *arena, slot_t slot)
{
	struct arena_slot *state = slot_at(arena, slot);
	uint64_t word;

	pthread_mutex_lock(&arena->lock);
	arena->quarantined_bytes -= region_of(arena, slot)->slot_bytes;
	pthread_mutex_unlock(&arena->lock);
	word = atomic_load_explicit(&state->word, memory_order_relaxed);
	do {
		assert(word_state(word) == SLOT_QUARANTINED);
	} while (!atomic_compare_exchange_weak_explicit(
		&state->word, &word, arena_word_move(word, SLOT_RESERVED),
		memory_order_acq_rel, memory_order_relaxed));
	arena_free(arena, slot);
}
