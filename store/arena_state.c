/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena_internal.h"

#include <assert.h>

#define TO(state) (1u << (state))

static const struct {
	const char *name;
	unsigned next;
} states[SLOT_STATES] = {
	[SLOT_EMPTY] = {"empty",
			TO(SLOT_RESERVED) | TO(SLOT_LIVE) | TO(SLOT_FREE)},
	[SLOT_FREE] = {"free", TO(SLOT_RESERVED)},
	[SLOT_RESERVED] = {"reserved", TO(SLOT_LIVE) | TO(SLOT_QUARANTINED) |
					       TO(SLOT_FREEING)},
	[SLOT_LIVE] = {"live", TO(SLOT_VICTIM) | TO(SLOT_FREEING)},
	[SLOT_VICTIM] = {"victim", TO(SLOT_LIVE) | TO(SLOT_FREEING)},
	[SLOT_QUARANTINED] = {"quarantined", TO(SLOT_RESERVED)},
	[SLOT_FREEING] = {"freeing", TO(SLOT_FREE)},
};

bool arena_state_allows(enum slot_state from, enum slot_state to)
{
	return from < SLOT_STATES && to < SLOT_STATES &&
	       (states[from].next & TO(to)) != 0;
}

const char *arena_state_name(enum slot_state state)
{
	return state < SLOT_STATES ? states[state].name : "?";
}

uint64_t arena_word_move(uint64_t word, enum slot_state to)
{
	assert(arena_state_allows(word_state(word), to));
	return (word & ~WORD_STATE) | (uint64_t)to << WORD_STATE_SHIFT;
}
