/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena_internal.h"

#include <assert.h>

void arena_queue_push(struct arena *arena, slot_t number)
{
	struct arena_class *class = region_of(arena, number)->class;
	struct arena_slot *slot = slot_at(arena, number);

	slot->seq = ++arena->seq;
	slot->newer = SLOT_NONE;
	slot->older = class->newest;
	if (class->newest == SLOT_NONE)
		class->oldest = number;
	else
		slot_at(arena, class->newest)->newer = number;
	class->newest = number;
	class->queued++;
	region_of(arena, number)->live++;
}

void arena_queue_remove(struct arena *arena, slot_t number)
{
	struct arena_class *class = region_of(arena, number)->class;
	struct arena_slot *slot = slot_at(arena, number);

	if (class->hand == number)
		class->hand = slot->newer;
	if (slot->newer == SLOT_NONE)
		class->newest = slot->older;
	else
		slot_at(arena, slot->newer)->older = slot->older;
	if (slot->older == SLOT_NONE)
		class->oldest = slot->newer;
	else
		slot_at(arena, slot->older)->newer = slot->newer;
	slot->newer = slot->older = SLOT_NONE;
	assert(class->queued > 0);
	class->queued--;
	region_of(arena, number)->live--;
}

slot_t arena_queue_next(struct arena *arena, struct arena_class *class)
{
	uint64_t spared = 0; /* would be chosen by the next lap */

	/* Two laps at most, and the second only where the first has cleared
	 * a visited bit; each bit cleared was paid for by a hit. */
	for (uint64_t step = 0; step < 2 * class->queued; step++) {
		struct arena_slot *slot;
		uint64_t word;

		if (step == class->queued && !spared)
			return SLOT_NONE;
		if (class->hand == SLOT_NONE)
			class->hand = class->oldest;
		slot = slot_at(arena, class->hand);
		word = atomic_load_explicit(&slot->word, memory_order_relaxed);
		if (word_state(word) == SLOT_LIVE &&
		    !(word & (WORD_PINS | WORD_DOOMED))) {
			if (!(word & WORD_VISITED))
				return class->hand;
			spared++;
			atomic_fetch_and_explicit(&slot->word, ~WORD_VISITED,
						  memory_order_relaxed);
		}
		class->hand = slot->newer;
	}
	return SLOT_NONE;
}
