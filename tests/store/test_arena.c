/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "arena_fixture.h"

#define SLOTS_MAX 8192

static const struct slot_class half_mib = {KIB(512), 0, 0, 0600};
static const struct slot_class small = {KIB(64), 0, 0, 0600};

static struct arena_stats stats_of(struct arena *arena)
{
	struct arena_stats stats;

	arena_get_stats(arena, &stats);
	return stats;
}

/* Allocates until full; how many slots. Each holds chunk_of(1 + i). */
static uint32_t fill_up(struct arena *arena, const struct slot_class *class,
			slot_t *slots)
{
	for (uint32_t i = 0;; i++) {
		struct chunk_id id = chunk_of(1 + i);
		int rc = arena_alloc(arena, class, &slots[i]);

		assert_true(i < SLOTS_MAX);
		if (rc == ARENA_FULL)
			return i;
		assert_int_equal(rc, 0);
		chunk_fill(arena_data(arena, slots[i]), class->slot_bytes, &id);
		arena_commit(arena, slots[i], &id, class->slot_bytes, false);
		arena_unpin(arena, slots[i]);
	}
}

/* What is left beside whole regions goes to slots that stay reserved. */
static void fill_rest(struct arena *arena)
{
	static const struct slot_class rest = {KIB(4), 9, 9, 0600};
	slot_t slot;

	while (!arena_alloc(arena, &rest, &slot))
		;
}

static void assert_holds(struct arena *arena, slot_t slot, uint64_t object)
{
	struct chunk_id id = chunk_of(object), found;
	uint32_t len_bytes;

	assert_int_equal(arena_pin(arena, slot, &id), 0);
	arena_describe(arena, slot, &found, &len_bytes);
	assert_true(chunk_id_equal(&found, &id));
	assert_true(chunk_check(arena_data(arena, slot), len_bytes, &id));
	arena_unpin(arena, slot);
}

static void a_committed_page_is_found_by_its_id_only(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	struct chunk_id id = chunk_of(1), other = chunk_of(1);
	slot_t slot;

	assert_int_equal(chunk_put(arena, &half_mib, 1, &slot), 0);
	assert_holds(arena, slot, 1);
	other.version.clock++;
	assert_int_equal(arena_pin(arena, slot, &other), ARENA_GONE);
	assert_int_equal(arena_pin(arena, SLOT_NONE, &id), ARENA_GONE);
	assert_int_equal(arena_pin(arena, slot + 1, &id), ARENA_GONE);
	assert_int_equal(stats_of(arena).pinned_bytes, 0);
	arena_free(arena, slot);
	assert_int_equal(arena_pin(arena, slot, &id), ARENA_GONE);
}

static void a_reserved_slot_is_invisible(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	struct chunk_id id = chunk_of(1);
	struct arena_victim victim;
	slot_t slot;

	assert_int_equal(arena_alloc(arena, &half_mib, &slot), 0);
	assert_int_equal(arena_pin(arena, slot, &id), ARENA_GONE);
	assert_int_equal(arena_victims(arena, 1, NULL, &victim, 1), 0);
	arena_free(arena, slot);
	assert_int_equal(stats_of(arena).used_bytes, 0);
}

static void a_freed_slot_lives_until_its_last_pin(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	struct chunk_id id = chunk_of(1);
	slot_t slot, next;

	assert_int_equal(chunk_put(arena, &half_mib, 1, &slot), 0);
	assert_int_equal(arena_pin(arena, slot, &id), 0);
	arena_ref(arena, slot);
	arena_free(arena, slot);
	assert_int_equal(arena_pin(arena, slot, &id), ARENA_GONE);
	arena_unpin(arena, slot);
	assert_true(chunk_check(arena_data(arena, slot), KIB(512), &id));
	assert_int_equal(stats_of(arena).used_bytes, KIB(512));
	arena_unpin(arena, slot);
	assert_int_equal(stats_of(arena).used_bytes, 0);
	assert_int_equal(stats_of(arena).pinned_bytes, 0);
	assert_int_equal(arena_alloc(arena, &half_mib, &next), 0);
	assert_int_equal(next, slot); /* faulted in already: used first */
	arena_free(arena, next);
}

static void the_counters_follow_a_page_through_its_life(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	struct chunk_id id = chunk_of(1);
	struct arena_victim victim;
	slot_t slot;

	assert_int_equal(arena_alloc(arena, &half_mib, &slot), 0);
	arena_commit(arena, slot, &id, KIB(500), true);
	assert_int_equal(stats_of(arena).used_bytes, KIB(512));
	assert_int_equal(stats_of(arena).wasted_bytes, KIB(12));
	assert_int_equal(stats_of(arena).pinned_bytes, KIB(512));
	assert_int_equal(stats_of(arena).dirty_bytes, KIB(512));
	assert_int_equal(stats_of(arena).live_slots, 1);
	arena_unpin(arena, slot);
	assert_int_equal(stats_of(arena).pinned_bytes, 0);
	arena_set_dirty(arena, slot, false);
	arena_set_dirty(arena, slot, false);
	assert_int_equal(stats_of(arena).dirty_bytes, 0);
	arena_set_dirty(arena, slot, true);
	assert_int_equal(arena_victims(arena, 1, NULL, &victim, 1), 1);
	assert_true(victim.dirty);
	assert_int_equal(victim.len_bytes, KIB(500));
	assert_true(chunk_id_equal(&victim.id, &id));
	arena_free(arena, slot);
	assert_int_equal(stats_of(arena).dirty_bytes, 0);
	assert_int_equal(stats_of(arena).wasted_bytes, 0);
	assert_int_equal(stats_of(arena).used_bytes, 0);
	assert_int_equal(stats_of(arena).live_slots, 0);
}

static uint64_t bytes_on_disk(const char *path)
{
	char command[128];
	unsigned long long kib = 0;
	FILE *pipe;

	snprintf(command, sizeof(command), "du -sk %s", path);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_int_equal(fscanf(pipe, "%llu", &kib), 1);
	pclose(pipe);
	return kib * 1024;
}

static void a_full_arena_is_no_larger_than_it_may_be(void **state)
{
	static const uint32_t sizes[] = {KIB(4), KIB(64), KIB(448), MIB(1)};
	struct arena_fixture *fixture = *state;
	slot_t *slots = calloc(SLOTS_MAX, sizeof(*slots));

	assert_non_null(slots);
	for (unsigned i = 0; i < 4; i++) {
		struct slot_class class = {sizes[i], 0, 0, 0600};
		uint64_t used;
		uint32_t count;

		count = fill_up(fixture->arena, &class, slots);
		used = (uint64_t)count * sizes[i];
		assert_true(used <= MIB(32));
		assert_true(used >= MIB(32) * 85ull / 100);
		assert_int_equal(stats_of(fixture->arena).used_bytes, used);
		assert_true(bytes_on_disk(fixture->dir) <= MIB(32));
		for (uint32_t s = 0; s < count; s++)
			assert_holds(fixture->arena, slots[s], 1 + s);
		assert_int_equal(arena_fixture_reopen(fixture, false),
				 ARENA_FRESH);
	}
	free(slots);
}

static void slots_past_the_budget_of_mappings_share_a_file(void **state)
{
	struct arena_fixture *fixture = *state;
	slot_t slots[128];
	uint32_t count;

	fixture->config.max_mappings = 10;
	assert_int_equal(arena_fixture_reopen(fixture, false), ARENA_FRESH);
	count = fill_up(fixture->arena, &half_mib, slots);
	/* One region of slot files, the others in a file each. */
	assert_int_equal(arena_fixture_files(fixture), 1 + 8 + 8 + 7);
	assert_int_equal(arena_fixture_reopen(fixture, true), ARENA_KEPT);
	for (uint32_t i = 0; i < count; i++) {
		struct chunk_id id = chunk_of(1 + i);

		assert_int_equal(arena_claim(fixture->arena, slots[i], &id,
					     KIB(512), false),
				 0);
	}
	arena_sweep(fixture->arena);
	for (uint32_t i = 0; i < count; i++)
		assert_holds(fixture->arena, slots[i], 1 + i);
}

static void a_slot_file_has_the_length_of_its_slot(void **state)
{
	struct arena_fixture *fixture = *state;
	char path[96];
	struct stat st;
	slot_t slot;

	assert_int_equal(chunk_put(fixture->arena, &half_mib, 1, &slot), 0);
	snprintf(path, sizeof(path), "%s/r%04x.%04x", fixture->dir, slot >> 16,
		 slot & 0xffff);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, KIB(512));
}

static void a_slot_in_quarantine_is_kept_from_use(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	struct slot_class class = {MIB(4), 0, 0, 0600};
	slot_t slots[32], late, next;
	uint32_t count = 0;

	assert_int_equal(arena_alloc(arena, &class, &late), 0);
	arena_quarantine(arena, late);
	assert_int_equal(stats_of(arena).quarantined_bytes, MIB(4));
	while (!arena_alloc(arena, &class, &slots[count]))
		assert_true(slots[count++] != late);
	/* Nothing to evict, and another class can't have its region either. */
	assert_int_equal(chunk_evict(arena, &class), 0);
	while (!arena_alloc(arena, &half_mib, &slots[count]))
		assert_true(slots[count++] >> 16 != late >> 16);
	/* The late read comes, then its completion. */
	memset(arena_data(arena, late), 0xee, MIB(4));
	arena_quarantine_end(arena, late);
	assert_int_equal(stats_of(arena).quarantined_bytes, 0);
	assert_int_equal(arena_alloc(arena, &class, &next), 0);
	assert_int_equal(next, late);
	arena_free(arena, next);
	for (uint32_t i = 0; i < count; i++)
		arena_free(arena, slots[i]);
	assert_int_equal(stats_of(arena).used_bytes, 0);
}

static void a_quiet_pin_is_no_hit(void **state)
{
	struct arena_fixture *fixture = *state;
	struct slot_class class = {.slot_bytes = MIB(1)};
	struct chunk_id id = chunk_of(1);
	slot_t slot;

	assert_int_equal(chunk_put(fixture->arena, &class, 1, &slot), 0);
	assert_int_equal(arena_pin_quietly(fixture->arena, slot, &id), 0);
	arena_unpin(fixture->arena, slot);
	assert_false(arena_hit_lately(fixture->arena, slot));
	assert_int_equal(arena_pin(fixture->arena, slot, &id), 0);
	arena_unpin(fixture->arena, slot);
	assert_true(arena_hit_lately(fixture->arena, slot));
}

struct unmapped {
	char *slot; /* must still be there */
	unsigned calls;
};

static void note_unmap(void *arg, void *start, size_t len_bytes)
{
	struct unmapped *unmapped = arg;
	char *from = start;

	unmapped->calls++;
	assert_true(unmapped->slot >= from &&
		    unmapped->slot < from + len_bytes);
	assert_int_equal(*(volatile char *)unmapped->slot, 77);
}

static void memory_is_called_gone_before_it_is_unmapped(void **state)
{
	struct arena_fixture *fixture = *state;
	struct slot_class class = {.slot_bytes = MIB(1)};
	struct slot_class other = {.slot_bytes = MIB(2)};
	struct unmapped unmapped = {0};
	uint64_t layout = arena_layout(fixture->arena);
	slot_t slot, next;

	arena_on_unmap(fixture->arena, note_unmap, &unmapped);
	assert_int_equal(arena_alloc(fixture->arena, &class, &slot), 0);
	assert_true(arena_layout(fixture->arena) > layout);
	unmapped.slot = arena_data(fixture->arena, slot);
	*unmapped.slot = 77;
	arena_free(fixture->arena, slot);
	layout = arena_layout(fixture->arena);
	/* The empty region is taken once no other is left. */
	while (!unmapped.calls)
		assert_int_equal(arena_alloc(fixture->arena, &other, &next), 0);
	assert_true(arena_layout(fixture->arena) > layout);
	arena_on_unmap(fixture->arena, NULL, NULL);
}

static void an_emptied_region_changes_its_class(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	slot_t slots[128], slot;
	uint32_t count = fill_up(arena, &half_mib, slots);

	fill_rest(arena);
	assert_int_equal(arena_alloc(arena, &small, &slot), ARENA_FULL);
	for (uint32_t i = 0; i < count; i++) {
		if (slots[i] >> 16 == 2)
			arena_free(arena, slots[i]);
	}
	assert_int_equal(chunk_put(arena, &small, 500, &slot), 0);
	assert_int_equal(slot >> 16, 2);
	for (uint32_t i = 0; i < count; i++) {
		struct chunk_id id = chunk_of(1 + i);

		if (slots[i] >> 16 != 2)
			assert_holds(arena, slots[i], 1 + i);
		else
			assert_int_equal(arena_pin(arena, slots[i], &id),
					 ARENA_GONE);
	}
}

static void a_full_arena_gives_a_new_class_its_coldest_region(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	slot_t slots[128], slot;
	uint32_t count = fill_up(arena, &half_mib, slots), gone = 0;

	fill_rest(arena);
	/* Region 0 is the oldest, but in use; so is region 2. */
	for (uint32_t i = 0; i < count; i++) {
		if (slots[i] >> 16 == 0 || slots[i] >> 16 == 2)
			assert_holds(arena, slots[i], 1 + i);
	}
	assert_int_equal(chunk_put(arena, &small, 500, &slot), 0);
	assert_int_equal(slot >> 16, 1);
	for (uint32_t i = 0; i < count; i++) {
		struct chunk_id id = chunk_of(1 + i);

		if (arena_pin(arena, slots[i], &id))
			gone++;
		else
			arena_unpin(arena, slots[i]);
	}
	assert_int_equal(gone, 8);
}

static void a_region_with_a_pin_is_not_taken_away(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	slot_t slots[128], slot;
	uint32_t count = fill_up(arena, &half_mib, slots);
	struct chunk_id id;

	fill_rest(arena);
	for (uint32_t i = 0; i < count; i += 8) {
		id = chunk_of(1 + i);
		assert_int_equal(arena_pin(arena, slots[i], &id), 0);
	}
	assert_int_equal(chunk_put(arena, &small, 500, &slot), ARENA_FULL);
	id = chunk_of(1 + 24);
	arena_unpin(arena, slots[24]);
	assert_int_equal(chunk_put(arena, &small, 500, &slot), 0);
	assert_int_equal(slot >> 16, slots[24] >> 16);
}

static void a_region_too_large_for_one_call_is_drained_by_several(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	slot_t *slots = calloc(SLOTS_MAX, sizeof(*slots)), slot;
	struct arena_victim victims[100];
	size_t count, all = 0;
	unsigned calls = 0;

	assert_non_null(slots);
	fill_up(arena, &(struct slot_class){KIB(4), 0, 0, 0600}, slots);
	while (arena_alloc(arena, &half_mib, &slot) == ARENA_FULL) {
		count = arena_victims(arena, KIB(512), &half_mib, victims, 100);
		assert_true(count > 0);
		for (size_t i = 0; i < count; i++)
			arena_free(arena, victims[i].slot);
		all += count;
		calls++;
	}
	assert_int_equal(all, 1024); /* one region, and no other */
	assert_int_equal(calls, 11);
	arena_free(arena, slot);
	free(slots);
}

static void a_restored_victim_is_there_again(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	slot_t slots[128], slot;
	uint32_t filled = fill_up(arena, &half_mib, slots);
	struct arena_victim victims[64];
	size_t count;

	count = arena_victims(arena, KIB(64), &small, victims, 64);
	assert_int_equal(count, 8);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(
			arena_pin(arena, victims[i].slot, &victims[i].id),
			ARENA_GONE);
		arena_restore(arena, victims[i].slot);
	}
	for (uint32_t i = 0; i < filled; i++)
		assert_holds(arena, slots[i], 1 + i);
	/* Its region serves its own class again. */
	arena_free(arena, victims[0].slot);
	assert_int_equal(arena_alloc(arena, &half_mib, &slot), 0);
	assert_int_equal(slot, victims[0].slot);
	arena_free(arena, slot);
}

static void many_classes_all_get_their_turn(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	slot_t slot;

	for (uint64_t i = 0; i < 2000; i++) {
		struct slot_class class = {
			KIB(4) * (1 + (uint32_t)(i * 37 % 256)), 0, 0, 0600};

		assert_int_equal(chunk_put(arena, &class, 1 + i, &slot), 0);
		assert_holds(arena, slot, 1 + i);
	}
	assert_int_equal(stats_of(arena).pinned_bytes, 0);
}

static void more_sizes_than_regions_still_fill_the_arena(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	slot_t slot;

	for (uint64_t i = 0; i < 2000; i++) {
		uint32_t len_bytes = KIB(300) + KIB(4) * (uint32_t)(i * 7 % 50);
		struct slot_class class =
			arena_class_for(arena, len_bytes, 0, 0, 0600);

		assert_true(class.slot_bytes >= len_bytes);
		assert_int_equal(chunk_put(arena, &class, 1 + i, &slot), 0);
	}
	print_message("%llu slots of 400 KiB in the mean\n",
		      (unsigned long long)stats_of(arena).live_slots);
	assert_true(stats_of(arena).live_slots >= 45);
}

static void a_growing_class_takes_from_what_nobody_uses(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	struct slot_class wanted = {KIB(256), 0, 0, 0600};
	slot_t slots[128], slot;
	uint32_t count = fill_up(arena, &half_mib, slots), left = 0;

	for (uint64_t i = 0; i < 400; i++)
		assert_int_equal(chunk_put(arena, &wanted, 1000 + i, &slot), 0);
	for (uint32_t i = 0; i < count; i++) {
		struct chunk_id id = chunk_of(1 + i);

		if (!arena_pin(arena, slots[i], &id)) {
			arena_unpin(arena, slots[i]);
			left++;
		}
	}
	assert_true(left <= 8);
	assert_true(stats_of(arena).used_bytes > MIB(24));
}

static void another_owner_or_mode_never_gets_the_slot(void **state)
{
	static const struct slot_class others[] = {
		{KIB(512), 1000, 0, 0600},
		{KIB(512), 0, 1000, 0600},
		{KIB(512), 0, 0, 0644},
	};
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	slot_t slot, other;

	assert_int_equal(chunk_put(arena, &half_mib, 1, &slot), 0);
	arena_free(arena, slot);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(arena_alloc(arena, &others[i], &other), 0);
		assert_true(other >> 16 != slot >> 16);
		arena_free(arena, other);
	}
}

static void a_size_that_repeats_is_exact(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;

	/* 600 KiB: between 576 and 640 KiB. */
	assert_int_equal(
		arena_class_for(arena, KIB(600), 0, 0, 0600).slot_bytes,
		KIB(640));
	assert_int_equal(
		arena_class_for(arena, KIB(600) - 5, 0, 0, 0600).slot_bytes,
		KIB(600));
	assert_int_equal(arena_class_for(arena, 1, 0, 0, 0600).slot_bytes,
			 KIB(4));
	assert_int_equal(arena_class_for(arena, 0, 7, 8, 0644).slot_bytes,
			 KIB(4));
	assert_int_equal(arena_class_for(arena, 0, 7, 8, 0644).gid, 8);
	/* Forgotten after many others. */
	for (uint32_t i = 0; i < 100; i++)
		arena_class_for(arena, KIB(4) * (200 + i), 0, 0, 0600);
	assert_int_equal(
		arena_class_for(arena, KIB(600), 0, 0, 0600).slot_bytes,
		KIB(640));
}

static void one_off_sizes_share_a_class_once_regions_are_short(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	struct slot_class class;
	slot_t slots[128];
	uint32_t count = fill_up(arena, &half_mib, slots);

	assert_true(count > 0);
	class = arena_class_for(arena, KIB(400), 0, 0, 0600);
	assert_int_equal(class.slot_bytes, KIB(512));
	/* Another owner doesn't share. */
	class = arena_class_for(arena, KIB(404), 1, 0, 0600);
	assert_int_equal(class.slot_bytes, KIB(416));
	/* And who comes again gets his own. */
	class = arena_class_for(arena, KIB(400), 0, 0, 0600);
	assert_int_equal(class.slot_bytes, KIB(400));
}

static void a_chunk_fits_a_region_of_any_arena(void **state)
{
	static const struct {
		uint64_t bytes;
		unsigned shift;
	} rows[] = {
		{MIB(16), 20},	{MIB(32), 20},	     {MIB(64), 21},
		{MIB(512), 24}, {2400ull << 20, 26},
	};
	struct arena_fixture *fixture = *state;

	for (unsigned i = 0; i < 5; i++) {
		struct slot_class class = {1u << rows[i].shift, 0, 0, 0600};
		slot_t slot;

		fixture->config.bytes = rows[i].bytes;
		assert_int_equal(arena_fixture_reopen(fixture, false),
				 ARENA_FRESH);
		assert_int_equal(arena_chunk_shift(fixture->arena),
				 rows[i].shift);
		assert_int_equal(arena_alloc(fixture->arena, &class, &slot), 0);
		arena_free(fixture->arena, slot);
	}
}

static void nonsense_is_refused(void **state)
{
	struct arena_fixture *fixture = *state;
	struct slot_class odd = {KIB(4) + 1, 0, 0, 0}, none = {0, 0, 0, 0};
	struct slot_class large = {MIB(8), 0, 0, 0};
	struct arena *second;
	slot_t slot;

	assert_int_equal(arena_alloc(fixture->arena, &odd, &slot), -EINVAL);
	assert_int_equal(arena_alloc(fixture->arena, &none, &slot), -EINVAL);
	assert_int_equal(arena_alloc(fixture->arena, &large, &slot), -EINVAL);
	assert_int_equal(arena_open(&fixture->config, &second), -EBUSY);
	fixture->config.bytes = MIB(15);
	assert_int_equal(arena_open(&fixture->config, &second), -EINVAL);
	fixture->config.bytes = MIB(32);
	fixture->config.dir = "/nonexistent";
	assert_int_equal(arena_open(&fixture->config, &second), -ENOENT);
}

static unsigned long resident_kib(void)
{
	unsigned long size, resident = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu %lu", &size, &resident), 2);
	fclose(file);
	return resident * 4;
}

static void an_empty_arena_costs_next_to_nothing(void **state)
{
	struct arena_fixture *fixture = *state;
	unsigned long before = resident_kib();

	fixture->config.bytes = 2400ull << 20;
	assert_int_equal(arena_fixture_reopen(fixture, false), ARENA_FRESH);
	assert_true(resident_kib() < before + 1024);
	assert_true(bytes_on_disk(fixture->dir) < KIB(64));
}

struct ranges {
	uint64_t bytes;
	unsigned count;
};

static void add_range(void *arg, void *start, size_t len_bytes,
		      uint32_t slot_bytes)
{
	struct ranges *ranges = arg;

	assert_int_equal((uintptr_t)start % 4096, 0);
	assert_int_equal(len_bytes % slot_bytes, 0);
	((volatile char *)start)[len_bytes - 1] = 1; /* it is there */
	ranges->bytes += len_bytes;
	ranges->count++;
}

static void the_ranges_of_regions_can_be_touched(void **state)
{
	struct arena *arena = ((struct arena_fixture *)*state)->arena;
	struct ranges ranges = {0};
	slot_t slot;

	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(chunk_put(arena, &half_mib, i, &slot), 0);
	assert_int_equal(chunk_put(arena, &small, 9, &slot), 0);
	arena_each_region(arena, add_range, &ranges);
	assert_int_equal(ranges.count, 2);
	assert_int_equal(ranges.bytes, 3 * KIB(512) + KIB(64));
}

#define WITH_ARENA(test)                                                       \
	cmocka_unit_test_setup_teardown(test, arena_fixture_setup,             \
					arena_fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ARENA(a_committed_page_is_found_by_its_id_only),
		WITH_ARENA(a_reserved_slot_is_invisible),
		WITH_ARENA(a_freed_slot_lives_until_its_last_pin),
		WITH_ARENA(the_counters_follow_a_page_through_its_life),
		WITH_ARENA(a_full_arena_is_no_larger_than_it_may_be),
		WITH_ARENA(slots_past_the_budget_of_mappings_share_a_file),
		WITH_ARENA(a_slot_file_has_the_length_of_its_slot),
		WITH_ARENA(a_slot_in_quarantine_is_kept_from_use),
		WITH_ARENA(a_quiet_pin_is_no_hit),
		WITH_ARENA(memory_is_called_gone_before_it_is_unmapped),
		WITH_ARENA(an_emptied_region_changes_its_class),
		WITH_ARENA(a_full_arena_gives_a_new_class_its_coldest_region),
		WITH_ARENA(a_region_with_a_pin_is_not_taken_away),
		WITH_ARENA(
			a_region_too_large_for_one_call_is_drained_by_several),
		WITH_ARENA(a_restored_victim_is_there_again),
		WITH_ARENA(many_classes_all_get_their_turn),
		WITH_ARENA(more_sizes_than_regions_still_fill_the_arena),
		WITH_ARENA(a_growing_class_takes_from_what_nobody_uses),
		WITH_ARENA(another_owner_or_mode_never_gets_the_slot),
		WITH_ARENA(a_size_that_repeats_is_exact),
		WITH_ARENA(one_off_sizes_share_a_class_once_regions_are_short),
		WITH_ARENA(a_chunk_fits_a_region_of_any_arena),
		WITH_ARENA(nonsense_is_refused),
		WITH_ARENA(an_empty_arena_costs_next_to_nothing),
		WITH_ARENA(the_ranges_of_regions_can_be_touched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
