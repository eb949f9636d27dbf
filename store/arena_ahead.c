/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena_internal.h"

#include <errno.h>
#include <sys/mman.h>

#define AHEAD_BYTES (UINT64_C(32) << 20)
/* A small arena has recycled slots in no time. */
#define AHEAD_ARENA_MIN_BYTES (UINT64_C(128) << 20)
/* A class of few pages gets nothing ahead. */
#define AHEAD_AFTER_SLOTS 4u
/* The last ones are left to those that want them now: they would find the
 * arena full while we have one in hand. */
#define AHEAD_SPARED_SLOTS 4u
/* Cleared at a time: who maps a slot meanwhile waits for so much. */
#define TOUCH_BYTES ((size_t)2 << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

static bool has_fresh(const struct arena_region *region)
{
	return region->class && !region->draining && !region->busy &&
	       region->fresh + AHEAD_SPARED_SLOTS < region->slots;
}

static uint64_t ready_bytes(const struct arena_region *region)
{
	return (uint64_t)region->recycled * region->slot_bytes;
}

void arena_look_ahead(struct arena *arena, struct arena_region *region)
{
	if (arena->bytes < AHEAD_ARENA_MIN_BYTES || region->hungry ||
	    !has_fresh(region) || ready_bytes(region) >= AHEAD_BYTES / 2 ||
	    (region->fresh < AHEAD_AFTER_SLOTS && region->class->regions < 2))
		return;
	region->hungry = true;
	atomic_store_explicit(&arena->hungry, true, memory_order_relaxed);
}

bool arena_hungry(const struct arena *arena)
{
	return atomic_load_explicit(&arena->hungry, memory_order_relaxed);
}

/* Reserves a slot that was never used, in a region that wants some. */
static bool take_fresh(struct arena *arena, slot_t *ret)
{
	bool found = false;

	pthread_mutex_lock(&arena->lock);
	for (uint32_t i = 0; !found && i < arena->regions_count; i++) {
		struct arena_region *region = &arena->regions[i];

		if (!region->hungry)
			continue;
		region->hungry =
			has_fresh(region) && ready_bytes(region) < AHEAD_BYTES;
		if (!region->hungry)
			continue;
		found = true;
		*ret = slot_number(i, region->fresh++);
		arena_region_reserve(arena, region, *ret);
	}
	if (!found)
		atomic_store_explicit(&arena->hungry, false,
				      memory_order_relaxed);
	pthread_mutex_unlock(&arena->lock);
	return found;
}

/* Nobody else knows the slot, and what it holds is undefined. */
static void touch(char *data, size_t len_bytes)
{
	for (size_t at = 0; at < len_bytes; at += TOUCH_BYTES) {
		size_t left = len_bytes - at;
		size_t bytes = left < TOUCH_BYTES ? left : TOUCH_BYTES;

		if (!madvise(data + at, bytes, MADV_POPULATE_WRITE) ||
		    errno != EINVAL)
			continue;
		for (size_t i = 0; i < bytes; i += BLOCK_BYTES)
			((volatile char *)data)[at + i] = 0;
	}
}

bool arena_ahead(struct arena *arena)
{
	slot_t slot;
	int rc;

	if (!take_fresh(arena, &slot))
		return false;
	rc = arena_region_prepare(arena, slot);
	if (!rc)
		touch(arena_data(arena, slot), arena_slot_bytes(arena, slot));
	arena_free(arena, slot);
	return !rc;
}
