/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/fault.h"

bool arena_class_equal(const struct slot_class *a, const struct slot_class *b)
{
	return a->slot_bytes == b->slot_bytes && a->uid == b->uid &&
	       a->gid == b->gid && a->mode == b->mode;
}

struct arena_class *arena_class_find(struct arena *arena,
				     const struct slot_class *key)
{
	list_for_each (node, &arena->classes) {
		struct arena_class *class =
			list_entry(node, struct arena_class, link);

		if (!arena_class_equal(&class->key, key))
			continue;
		/* There can be thousands in a large arena, but few in use. */
		list_remove(&class->link);
		list_push_front(&arena->classes, &class->link);
		return class;
	}
	return NULL;
}

struct arena_class *arena_class_get(struct arena *arena,
				    const struct slot_class *key)
{
	struct arena_class *class = arena_class_find(arena, key);

	if (class || fault_point("store.arena_calloc"))
		return class;
	class = calloc(1, sizeof(*class));
	if (!class)
		return NULL;
	class->key = *key;
	list_init(&class->usable);
	list_init(&class->full);
	class->newest = class->oldest = class->hand = SLOT_NONE;
	list_push_front(&arena->classes, &class->link);
	return class;
}

void arena_class_leave(struct arena *arena, struct arena_region *region)
{
	struct arena_class *class = region->class;

	(void)arena;
	list_remove(&region->link);
	region->class = NULL;
	if (--class->regions)
		return;
	list_remove(&class->link);
	free(class);
}

/* The list where the region belongs now; NULL: in none. */
static struct list *list_for(const struct arena_region *region)
{
	bool has_free = region->recycled || region->fresh < region->slots;

	if (region->draining)
		return NULL;
	return has_free ? &region->class->usable : &region->class->full;
}

void arena_class_place(struct arena_region *region)
{
	struct list *list = list_for(region);

	list_remove(&region->link);
	if (list)
		list_push_front(list, &region->link);
}

void arena_class_place_last(struct arena_region *region)
{
	struct list *list = list_for(region);

	list_remove(&region->link);
	if (list)
		list_push_back(list, &region->link);
}

/* ---- which class a size gets ---- */

static uint32_t round_to_eighth(uint64_t len_bytes)
{
	uint64_t power = BLOCK_BYTES;
	uint64_t step;

	while (power * 2 <= len_bytes)
		power *= 2;
	step = power / 8 < BLOCK_BYTES ? BLOCK_BYTES : power / 8;
	return (uint32_t)((len_bytes + step - 1) / step * step);
}

/* Old requests count half after this many new ones. */
static void age_sizes(struct arena *arena)
{
	arena->sizes_seen = 0;
	for (uint32_t i = 0; i < ARENA_SIZES_MAX; i++) {
		arena->sizes[i].seen = (arena->sizes[i].seen + 1) / 2;
		arena->sizes_seen += arena->sizes[i].seen;
	}
}

/* Counts the size among the most recent ones: how often it was seen. */
static uint32_t count_size(struct arena *arena, uint32_t slot_bytes)
{
	struct arena_size size = {.slot_bytes = slot_bytes};
	uint32_t at;

	if (arena->sizes_seen >= ARENA_SIZES_AGE)
		age_sizes(arena);
	for (at = 0; at < ARENA_SIZES_MAX - 1; at++) {
		if (arena->sizes[at].slot_bytes == slot_bytes)
			break;
	}
	if (arena->sizes[at].slot_bytes == slot_bytes)
		size = arena->sizes[at];
	else
		arena->sizes_seen -= arena->sizes[at].seen;
	memmove(&arena->sizes[1], &arena->sizes[0], at * sizeof(size));
	size.seen++;
	arena->sizes_seen++;
	arena->sizes[0] = size;
	return size.seen;
}

static bool region_to_spare(const struct arena *arena)
{
	return arena->budget_bytes >= arena->region_bytes;
}

/* The smallest class there is that wastes no more than half of its slot. */
static uint32_t class_that_fits(struct arena *arena,
				const struct slot_class *wanted)
{
	uint32_t best = 0;

	list_for_each (node, &arena->classes) {
		const struct slot_class *key =
			&list_entry(node, struct arena_class, link)->key;

		if (key->uid == wanted->uid && key->gid == wanted->gid &&
		    key->mode == wanted->mode &&
		    key->slot_bytes >= wanted->slot_bytes &&
		    key->slot_bytes / 2 <= wanted->slot_bytes &&
		    (!best || key->slot_bytes < best))
			best = key->slot_bytes;
	}
	return best;
}

struct slot_class arena_class_for(struct arena *arena, uint64_t len_bytes,
				  uid_t uid, gid_t gid, mode_t mode)
{
	uint64_t exact = round_up_block(len_bytes ? len_bytes : 1);
	struct slot_class class = {(uint32_t)exact, uid, gid, mode};
	uint32_t seen, fits;

	assert(len_bytes <= arena->region_bytes);
	pthread_mutex_lock(&arena->lock);
	seen = count_size(arena, class.slot_bytes);
	if (arena_class_find(arena, &class))
		goto out;
	/* Once there is no region to spare, only a size that can be passed
	 * through, and that is a region's share of what is asked for, gets
	 * one: a small arena would be all single slots of many classes. */
	if (seen > 1 && exact >= ARENA_SLOT_FILE_MIN_BYTES &&
	    seen * arena->bytes >= arena->sizes_seen * arena->region_bytes)
		goto out;
	fits = region_to_spare(arena) ? 0 : class_that_fits(arena, &class);
	if (fits)
		class.slot_bytes = fits;
	else if (seen < 2)
		class.slot_bytes = round_to_eighth(exact);
	if (class.slot_bytes > arena->region_bytes)
		class.slot_bytes = (uint32_t)exact;
out:
	pthread_mutex_unlock(&arena->lock);
	return class;
}
