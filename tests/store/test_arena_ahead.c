/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arena_fixture.h"

#define SLOT_BYTES KIB(256)

static const struct slot_class wanted = {SLOT_BYTES, 0, 0, 0600};

static void open_arena(struct arena_fixture *f, uint64_t bytes)
{
	f->config.bytes = bytes;
	assert_int_equal(arena_open(&f->config, &f->arena), ARENA_FRESH);
}

static void take(struct arena_fixture *f, unsigned count)
{
	slot_t slot;

	for (unsigned i = 0; i < count; i++)
		assert_int_equal(chunk_put(f->arena, &wanted, i + 1, &slot), 0);
}

static unsigned make_ahead(struct arena_fixture *f)
{
	unsigned count = 0;

	while (arena_ahead(f->arena))
		count++;
	return count;
}

static void a_class_that_grows_gets_slots_ahead(void **state)
{
	struct arena_fixture *f = *state;
	struct arena_stats before, after;
	uint64_t layout;

	open_arena(f, MIB(128));
	take(f, 8);
	assert_true(arena_hungry(f->arena));
	arena_get_stats(f->arena, &before);
	assert_true(make_ahead(f) > 20);
	assert_false(arena_hungry(f->arena));
	arena_get_stats(f->arena, &after);
	assert_int_equal(after.used_bytes, before.used_bytes);
	assert_int_equal(after.free_slots, before.free_slots);
	/* Those are the next that are given out. */
	layout = arena_layout(f->arena);
	take(f, 20);
	assert_int_equal(arena_layout(f->arena), layout);
}

static void a_class_of_few_pages_gets_nothing_ahead(void **state)
{
	struct arena_fixture *f = *state;

	open_arena(f, MIB(128));
	take(f, 2);
	assert_false(arena_hungry(f->arena));
	assert_int_equal(make_ahead(f), 0);
}

static void the_last_slots_are_left_to_others(void **state)
{
	struct arena_fixture *f = *state;
	struct arena_stats stats;
	uint64_t layout;

	open_arena(f, MIB(128));
	take(f, 8);
	make_ahead(f);
	layout = arena_layout(f->arena);
	arena_get_stats(f->arena, &stats);
	take(f, (unsigned)stats.free_slots);
	assert_true(arena_layout(f->arena) > layout);
}

static void a_small_arena_gets_nothing_ahead(void **state)
{
	struct arena_fixture *f = *state;

	open_arena(f, MIB(64));
	take(f, 8);
	assert_false(arena_hungry(f->arena));
	assert_int_equal(make_ahead(f), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name)                                                             \
	cmocka_unit_test_setup_teardown(name, arena_fixture_setup_closed,      \
					arena_fixture_teardown)
		TEST(a_class_that_grows_gets_slots_ahead),
		TEST(a_class_of_few_pages_gets_nothing_ahead),
		TEST(the_last_slots_are_left_to_others),
		TEST(a_small_arena_gets_nothing_ahead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
