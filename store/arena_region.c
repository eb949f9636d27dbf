/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/lib/log.h"

#define NAME_BYTES 16

static void headers_name(uint32_t region, char ret[NAME_BYTES])
{
	snprintf(ret, NAME_BYTES, "h%04x", region & 0xffff);
}

static void file_name(uint32_t region, char ret[NAME_BYTES])
{
	snprintf(ret, NAME_BYTES, "r%04x", region & 0xffff);
}

static void slot_name(slot_t slot, char ret[NAME_BYTES])
{
	snprintf(ret, NAME_BYTES, "r%04x.%04x", slot_region(slot) & 0xffff,
		 slot_index(slot));
}

uint64_t arena_region_overhead(uint32_t slots)
{
	return round_up_block(slots * sizeof(struct arena_slot_header));
}

/* ---- files and mappings ---- */

/* The bytes that a file must have, and has allocated. */
static int check_whole(int fd, uint64_t len_bytes, uint64_t *ret_held_bytes)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	*ret_held_bytes = (uint64_t)st.st_blocks * 512;
	return (uint64_t)st.st_size == len_bytes ? 0 : -EINVAL;
}

static int map_new_or_old(const char *name, struct arena *arena, void *at,
			  uint64_t len_bytes, bool create,
			  uint64_t *ret_held_bytes)
{
	int flags = O_RDWR | (create ? O_CREAT | O_TRUNC : 0);
	int fd;
	int rc = arena_sys_open(arena->dir_fd, name, flags, &fd);

	if (rc)
		return rc;
	if (create)
		rc = arena_sys_truncate(fd, len_bytes);
	else
		rc = check_whole(fd, len_bytes, ret_held_bytes);
	/* Headers are allocated at once, slots at their first use. */
	if (!rc && create && name[0] == 'h')
		rc = arena_sys_allocate(fd, 0, len_bytes);
	if (!rc)
		rc = arena_sys_map(at, len_bytes, fd, NULL);
	close(fd);
	return rc;
}

int arena_region_map_headers(struct arena *arena, struct arena_region *region,
			     bool create)
{
	uint64_t len_bytes = arena_region_overhead(region->slots);
	uint64_t held_bytes = len_bytes;
	char name[NAME_BYTES];
	int rc;

	headers_name(region->index, name);
	rc = map_new_or_old(name, arena, region_headers(arena, region->index),
			    len_bytes, create, &held_bytes);
	return rc ? rc : held_bytes < len_bytes ? -EINVAL : 0;
}

int arena_region_map_file(struct arena *arena, struct arena_region *region,
			  bool create, uint64_t *ret_held_bytes)
{
	char name[NAME_BYTES];

	if (region->slot_files)
		return 0;
	file_name(region->index, name);
	return map_new_or_old(name, arena, region_data(arena, region->index),
			      (uint64_t)region->slots * region->slot_bytes,
			      create, ret_held_bytes);
}

static int allocate_in_file(struct arena *arena, slot_t slot, uint32_t bytes)
{
	char name[NAME_BYTES];
	int fd, rc;

	file_name(slot_region(slot), name);
	rc = arena_sys_open(arena->dir_fd, name, O_RDWR, &fd);
	if (rc)
		return rc;
	rc = arena_sys_allocate(fd, (uint64_t)slot_index(slot) * bytes, bytes);
	close(fd);
	return rc;
}

static int make_slot_file(struct arena *arena, slot_t slot, uint32_t bytes)
{
	char name[NAME_BYTES];
	int fd, rc;

	slot_name(slot, name);
	rc = arena_sys_open(arena->dir_fd, name, O_RDWR | O_CREAT, &fd);
	if (rc)
		return rc;
	rc = arena_sys_allocate(fd, 0, bytes);
	if (!rc)
		rc = arena_sys_map(arena_data(arena, slot), bytes, fd, NULL);
	close(fd);
	return rc;
}

int arena_region_prepare(struct arena *arena, slot_t slot)
{
	struct arena_slot *state = slot_at(arena, slot);
	const struct arena_region *region = region_of(arena, slot);
	int rc;

	if (atomic_load_explicit(&state->word, memory_order_relaxed) &
	    WORD_READY)
		return 0;
	if (region->slot_files)
		rc = make_slot_file(arena, slot, region->slot_bytes);
	else
		rc = allocate_in_file(arena, slot, region->slot_bytes);
	if (rc)
		return rc;
	atomic_fetch_or_explicit(&state->word, WORD_READY,
				 memory_order_relaxed);
	atomic_fetch_add_explicit(&arena->layout, 1, memory_order_relaxed);
	return 0;
}

int arena_region_adopt(struct arena *arena, slot_t slot)
{
	const struct arena_region *region = region_of(arena, slot);
	uint64_t held_bytes;
	char name[NAME_BYTES];
	int fd, rc;

	if (!region->slot_files)
		return 0; /* checked as a whole by arena_load() */
	slot_name(slot, name);
	rc = arena_sys_open(arena->dir_fd, name, O_RDWR, &fd);
	if (rc)
		return rc == -ENOENT ? ARENA_GONE : rc;
	rc = check_whole(fd, region->slot_bytes, &held_bytes);
	if (rc || held_bytes < region->slot_bytes)
		rc = ARENA_GONE;
	else
		rc = arena_sys_map(arena_data(arena, slot), region->slot_bytes,
				   fd, NULL);
	close(fd);
	return rc;
}

int arena_region_clean(struct arena *arena, struct arena_region *region)
{
	size_t headers_bytes = (size_t)arena->region_bytes / 64;
	char *states = (char *)slot_at(arena, slot_number(region->index, 0));
	char name[NAME_BYTES];
	int rc, rc2;

	if (arena->on_unmap)
		arena->on_unmap(arena->on_unmap_arg,
				region_data(arena, region->index),
				(size_t)arena->region_bytes);
	atomic_fetch_add_explicit(&arena->layout, 1, memory_order_relaxed);
	rc = arena_sys_unmap(region_data(arena, region->index),
			     (size_t)arena->region_bytes);
	rc2 = arena_sys_unmap(region_headers(arena, region->index),
			      headers_bytes);
	for (uint32_t i = 0; region->slot_files && i < region->fresh; i++) {
		slot_name(slot_number(region->index, i), name);
		unlinkat(arena->dir_fd, name, 0);
	}
	file_name(region->index, name);
	unlinkat(arena->dir_fd, name, 0);
	headers_name(region->index, name);
	unlinkat(arena->dir_fd, name, 0);
	/* Zero again, so no pin is given. A late arena_pin() may look at a
	 * word meanwhile, so the memory itself stays. */
	madvise(states, arena->slots_max * sizeof(struct arena_slot),
		MADV_DONTNEED);
	return rc ? rc : rc2;
}

/* ---- recycled slots ---- */

void arena_region_put_free(struct arena *arena, struct arena_region *region,
			   slot_t number)
{
	struct arena_slot *slot = slot_at(arena, number);
	uint32_t index = slot_index(number);
	bool ready = atomic_load_explicit(&slot->word, memory_order_relaxed) &
		     WORD_READY;

	/* Where the file system is full, what it gave us before goes first. */
	if (ready || !region->recycled) {
		slot->older = region->free_head;
		region->free_head = index;
		if (!region->recycled)
			region->free_tail = index;
	} else {
		slot->older = UINT32_MAX;
		slot_at(arena, slot_number(region->index, region->free_tail))
			->older = index;
		region->free_tail = index;
	}
	region->recycled++;
	if (ready)
		arena_class_place(region);
	else
		arena_class_place_last(region);
}

slot_t arena_region_take_free(struct arena *arena, struct arena_region *region)
{
	slot_t number = slot_number(region->index, region->free_head);

	region->free_head = slot_at(arena, number)->older;
	region->recycled--;
	return number;
}

void arena_region_reserve(struct arena *arena, struct arena_region *region,
			  slot_t number)
{
	struct arena_slot *slot = slot_at(arena, number);
	uint64_t word;

	region->used++;
	slot->newer = slot->older = SLOT_NONE;
	word = atomic_load_explicit(&slot->word, memory_order_relaxed);
	arena_header_reserve(arena, number);
	atomic_store_explicit(
		&slot->word,
		arena_word_move(word & WORD_READY, SLOT_RESERVED) | 1,
		memory_order_release);
	arena->used_bytes += region->slot_bytes;
}

/* ---- a region gets a class ---- */

static bool grow_candidate(const struct arena_region *region,
			   const struct slot_class *key)
{
	/* Before the sweep nobody knows what a region found still holds. */
	if (region->busy || region->used || region->loaded)
		return false;
	return !region->class || !arena_class_equal(&region->class->key, key);
}

/* Under `lock`: how many slots what is left pays for. */
static uint32_t affordable_slots(const struct arena *arena,
				 const struct slot_class *key)
{
	uint64_t slots = arena->region_bytes / key->slot_bytes;

	while (slots && slots * key->slot_bytes +
					arena_region_overhead((uint32_t)slots) >
				arena->budget_bytes) {
		uint64_t over = slots * key->slot_bytes +
				arena_region_overhead((uint32_t)slots) -
				arena->budget_bytes;
		uint64_t drop = (over + key->slot_bytes - 1) / key->slot_bytes;

		slots -= drop < slots ? drop : slots;
	}
	return (uint32_t)slots;
}

/* Under `lock`: room that nobody holds, else the largest empty region. */
static struct arena_region *choose(struct arena *arena,
				   const struct slot_class *key)
{
	bool to_spare = affordable_slots(arena, key) > 0;
	struct arena_region *best = NULL;

	for (uint32_t i = 0; i < arena->regions_count; i++) {
		struct arena_region *region = &arena->regions[i];

		if (!grow_candidate(region, key))
			continue;
		if (to_spare && !region->held_bytes)
			return region;
		if (!best || region->held_bytes > best->held_bytes)
			best = region;
	}
	return best;
}

/* Under `lock`; the region is empty and busy, its files are gone. */
static void forget_files(struct arena *arena, struct arena_region *region)
{
	arena->budget_bytes += region->held_bytes;
	arena->mappings -= region->mappings;
	region->held_bytes = 0;
	region->mappings = 0;
	region->slots = region->slot_bytes = 0;
	region->fresh = region->loaded = region->recycled = 0;
	region->free_head = UINT32_MAX;
	region->draining = region->hungry = false;
}

/* Under `lock`: sizes of the region for its new class. */
static bool lay_out(struct arena *arena, struct arena_region *region,
		    const struct slot_class *key)
{
	uint32_t slots = affordable_slots(arena, key);

	if (!slots)
		return false;
	region->slots = slots;
	region->slot_bytes = key->slot_bytes;
	region->held_bytes = (uint64_t)slots * key->slot_bytes +
			     arena_region_overhead(slots);
	region->slot_files = arena->slot_files &&
			     key->slot_bytes >= ARENA_SLOT_FILE_MIN_BYTES &&
			     arena->mappings + slots <= arena->max_mappings;
	region->mappings = region->slot_files ? slots : 0;
	arena->budget_bytes -= region->held_bytes;
	arena->mappings += region->mappings;
	return true;
}

/* Takes the region's old class and files away; leaves it busy. */
static int strip(struct arena *arena, struct arena_region *region)
{
	int rc;

	arena_record_clear(arena, region->index);
	pthread_mutex_unlock(&arena->lock);
	rc = arena_region_clean(arena, region);
	pthread_mutex_lock(&arena->lock);
	if (!rc)
		forget_files(arena, region);
	return rc;
}

static int make_files(struct arena *arena, struct arena_region *region)
{
	uint64_t held_bytes;
	int rc = arena_region_map_headers(arena, region, true);

	if (!rc)
		rc = arena_region_map_file(arena, region, true, &held_bytes);
	return rc;
}

/* Under `lock`: an empty region that belongs to no class and isn't busy. */
static int give(struct arena *arena, struct arena_region *region,
		const struct slot_class *key)
{
	struct arena_class *class;
	int rc;

	pthread_mutex_unlock(&arena->lock);
	rc = make_files(arena, region);
	pthread_mutex_lock(&arena->lock);
	class = rc ? NULL : arena_class_get(arena, key);
	if (!class) {
		/* Where even this fails, `held_bytes` stays and the next
		 * attempt cleans the region again. */
		(void)strip(arena, region);
		return rc ? rc : -ENOMEM;
	}
	region->class = class;
	class->regions++;
	arena_record_write(arena, region);
	arena_class_place(region);
	return 0;
}

int arena_region_grow(struct arena *arena, const struct slot_class *key)
{
	struct arena_region *region;
	int rc = ARENA_FULL;

	pthread_mutex_lock(&arena->lock);
	while ((region = choose(arena, key))) {
		bool had_files = region->held_bytes > 0;

		if (!had_files && !affordable_slots(arena, key))
			break;
		region->busy = true;
		if (region->class)
			arena_class_leave(arena, region);
		rc = had_files ? strip(arena, region) : 0;
		if (!rc && lay_out(arena, region, key))
			rc = give(arena, region, key);
		else if (!rc)
			rc = ARENA_FULL; /* gave back its room: once more */
		region->busy = false;
		if (rc != ARENA_FULL)
			break;
	}
	pthread_mutex_unlock(&arena->lock);
	return rc;
}

void arena_region_vacate(struct arena *arena, struct arena_region *region)
{
	assert(!region->used && !region->live);
	region->draining = false;
	if (arena->drained == region->index)
		arena->drained = UINT32_MAX;
	arena_class_leave(arena, region);
}
