/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arena_fixture.h"
#include "tools/lib/list.h"

#define OBJECTS 40000u
#define REQUESTS 200000u
#define SCAN_EVERY 8000u
#define SCAN_LENGTH 3000u
#define IDS (OBJECTS + REQUESTS / SCAN_EVERY * SCAN_LENGTH + SCAN_LENGTH)

static const struct slot_class block = {KIB(4), 0, 0, 0600};

/* ---- the trace: popular pages by Zipf's law, and now and then a scan ---- */

struct trace {
	double share[OBJECTS]; /* of all requests, up to this object */
	uint64_t seed;
	uint32_t count, scan_left, scanned;
};

static void trace_start(struct trace *trace)
{
	double sum = 0;

	memset(trace, 0, sizeof(*trace));
	trace->seed = 88172645463325252u;
	for (uint32_t i = 0; i < OBJECTS; i++) {
		sum += 1 / pow(i + 1, 0.9);
		trace->share[i] = sum;
	}
	for (uint32_t i = 0; i < OBJECTS; i++)
		trace->share[i] /= sum;
}

static uint32_t trace_next(struct trace *trace)
{
	uint32_t low = 0, high = OBJECTS - 1;
	double x;

	if (++trace->count % SCAN_EVERY == 0)
		trace->scan_left = SCAN_LENGTH;
	if (trace->scan_left) {
		trace->scan_left--;
		return OBJECTS + trace->scanned++;
	}
	trace->seed ^= trace->seed << 13;
	trace->seed ^= trace->seed >> 7;
	trace->seed ^= trace->seed << 17;
	x = (double)(trace->seed >> 11) / 9007199254740992.0;
	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (trace->share[middle] < x)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* ---- the two caches ---- */

static uint32_t hits_of_arena(struct arena *arena, struct trace *trace,
			      uint32_t *ret_capacity)
{
	slot_t *slots = malloc(IDS * sizeof(*slots));
	uint32_t hits = 0;
	struct arena_stats stats;

	assert_non_null(slots);
	memset(slots, 0xff, IDS * sizeof(*slots));
	trace_start(trace);
	for (uint32_t i = 0; i < REQUESTS; i++) {
		uint32_t object = trace_next(trace);
		struct chunk_id id = chunk_of(object);

		if (!arena_pin(arena, slots[object], &id)) {
			arena_unpin(arena, slots[object]);
			hits++;
			continue;
		}
		assert_int_equal(
			chunk_put(arena, &block, object, &slots[object]), 0);
	}
	arena_get_stats(arena, &stats);
	*ret_capacity = (uint32_t)stats.live_slots;
	free(slots);
	return hits;
}

struct node {
	struct list link;
	bool there;
};

static uint32_t hits_of_lru(struct trace *trace, uint32_t capacity)
{
	struct node *nodes = calloc(IDS, sizeof(*nodes));
	struct list order = LIST_INIT(order);
	uint32_t hits = 0, count = 0;

	assert_non_null(nodes);
	for (uint32_t i = 0; i < IDS; i++)
		list_init(&nodes[i].link);
	trace_start(trace);
	for (uint32_t i = 0; i < REQUESTS; i++) {
		struct node *node = &nodes[trace_next(trace)];

		hits += node->there;
		count += !node->there;
		list_remove(&node->link);
		list_push_front(&order, &node->link);
		node->there = true;
		if (count > capacity) {
			node = list_last(&order, struct node, link);
			list_remove(&node->link);
			node->there = false;
			count--;
		}
	}
	free(nodes);
	return hits;
}

static void sieve_keeps_more_of_a_scanned_cache_than_lru(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	struct trace *trace = malloc(sizeof(*trace));
	uint32_t capacity, sieve, lru;

	assert_non_null(trace);
	sieve = hits_of_arena(arena, trace, &capacity);
	lru = hits_of_lru(trace, capacity);
	print_message("%u slots, %u requests: SIEVE %.2f%%, LRU %.2f%%\n",
		      capacity, REQUESTS, 100.0 * sieve / REQUESTS,
		      100.0 * lru / REQUESTS);
	assert_true(capacity > 7000);
	assert_true(sieve >= lru);
	free(trace);
}

/* ---- the rules of the queue ---- */

static slot_t next_victim(struct arena *arena)
{
	struct arena_victim victim;

	if (!arena_victims(arena, 1, NULL, &victim, 1))
		return SLOT_NONE;
	arena_free(arena, victim.slot);
	return victim.slot;
}

static void hit(struct arena *arena, slot_t slot, uint64_t object)
{
	struct chunk_id id = chunk_of(object);

	assert_int_equal(arena_pin(arena, slot, &id), 0);
	arena_unpin(arena, slot);
}

static void
the_oldest_goes_first_but_what_was_hit_has_a_second_life(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	slot_t slots[5];

	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(chunk_put(arena, &block, i, &slots[i]), 0);
	hit(arena, slots[0], 0);
	hit(arena, slots[2], 2);
	assert_int_equal(next_victim(arena), slots[1]);
	assert_int_equal(next_victim(arena), slots[3]);
	assert_int_equal(next_victim(arena), slots[4]);
	/* The hand starts again: their hits are forgotten by now. */
	assert_int_equal(next_victim(arena), slots[0]);
	assert_int_equal(next_victim(arena), slots[2]);
	assert_int_equal(next_victim(arena), SLOT_NONE);
}

static void a_pinned_page_is_passed_over(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	struct chunk_id id = chunk_of(0);
	slot_t slots[2];

	for (uint64_t i = 0; i < 2; i++)
		assert_int_equal(chunk_put(arena, &block, i, &slots[i]), 0);
	assert_int_equal(arena_pin(arena, slots[0], &id), 0);
	assert_int_equal(next_victim(arena), slots[1]);
	assert_int_equal(next_victim(arena), SLOT_NONE);
	arena_unpin(arena, slots[0]);
	assert_int_equal(next_victim(arena), slots[0]);
}

static void classes_are_evicted_by_age_across_each_other(void **state)
{
	static const struct slot_class classes[] = {{KIB(4), 0, 0, 0600},
						    {KIB(8), 0, 0, 0600}};
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	slot_t slots[20];

	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(
			chunk_put(arena, &classes[i / 3 % 2], i, &slots[i]), 0);
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(next_victim(arena), slots[i]);
}

static void victims_are_as_many_as_the_bytes_asked_for(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	struct arena_victim victims[8];
	slot_t slot;

	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(chunk_put(arena, &block, i, &slot), 0);
	assert_int_equal(arena_victims(arena, KIB(9), NULL, victims, 8), 3);
	assert_int_equal(arena_victims(arena, KIB(400), &block, victims, 8), 8);
	assert_int_equal(arena_victims(arena, KIB(40), NULL, victims, 0), 0);
	assert_int_equal(arena_victims(arena, 0, NULL, victims, 8), 0);
	assert_int_equal(victims[0].id.object, 3);
}

#define WITH_ARENA(test)                                                       \
	cmocka_unit_test_setup_teardown(test, arena_fixture_setup,             \
					arena_fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ARENA(sieve_keeps_more_of_a_scanned_cache_than_lru),
		WITH_ARENA(
			the_oldest_goes_first_but_what_was_hit_has_a_second_life),
		WITH_ARENA(a_pinned_page_is_passed_over),
		WITH_ARENA(classes_are_evicted_by_age_across_each_other),
		WITH_ARENA(victims_are_as_many_as_the_bytes_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
