/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Every pair of states, as the diagram in arena_internal.h has them. */
static void a_slot_moves_only_along_the_arrows(void **state)
{
	static const struct {
		enum slot_state from, to;
	} arrows[] = {
		{SLOT_EMPTY, SLOT_RESERVED},
		{SLOT_EMPTY, SLOT_LIVE},
		{SLOT_EMPTY, SLOT_FREE},
		{SLOT_FREE, SLOT_RESERVED},
		{SLOT_RESERVED, SLOT_LIVE},
		{SLOT_RESERVED, SLOT_QUARANTINED},
		{SLOT_RESERVED, SLOT_FREEING},
		{SLOT_QUARANTINED, SLOT_RESERVED},
		{SLOT_LIVE, SLOT_VICTIM},
		{SLOT_LIVE, SLOT_FREEING},
		{SLOT_VICTIM, SLOT_LIVE},
		{SLOT_VICTIM, SLOT_FREEING},
		{SLOT_FREEING, SLOT_FREE},
	};
	unsigned allowed = 0;

	(void)state;
	for (unsigned i = 0; i < sizeof(arrows) / sizeof(*arrows); i++)
		assert_true(arena_state_allows(arrows[i].from, arrows[i].to));
	for (unsigned from = 0; from < SLOT_STATES; from++) {
		for (unsigned to = 0; to < SLOT_STATES; to++)
			allowed += arena_state_allows(from, to);
	}
	assert_int_equal(allowed, sizeof(arrows) / sizeof(*arrows));
	assert_false(arena_state_allows(SLOT_STATES, SLOT_FREE));
	assert_false(arena_state_allows(SLOT_FREE, SLOT_STATES));
}

static void every_state_has_a_name(void **state)
{
	(void)state;
	for (unsigned s = 0; s < SLOT_STATES; s++)
		assert_true(strlen(arena_state_name(s)) > 3);
	assert_string_equal(arena_state_name(SLOT_STATES), "?");
}

static void a_move_leaves_pins_and_flags(void **state)
{
	uint64_t word = 5 | WORD_READY | WORD_DIRTY | WORD_VISITED;

	(void)state;
	word = arena_word_move(word, SLOT_RESERVED);
	word = arena_word_move(word, SLOT_LIVE);
	assert_int_equal(word_state(word), SLOT_LIVE);
	assert_int_equal(word & ~WORD_STATE,
			 5 | WORD_READY | WORD_DIRTY | WORD_VISITED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slot_moves_only_along_the_arrows),
		cmocka_unit_test(every_state_has_a_name),
		cmocka_unit_test(a_move_leaves_pins_and_flags),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
