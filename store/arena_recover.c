/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/lib/log.h"

/* ---- files that nobody owns ---- */

/* Is this a name of ours, and of which region and slot? */
static bool parse_name(const char *name, unsigned *ret_region, long *ret_slot)
{
	unsigned region, slot;
	int end = -1;

	*ret_slot = -1;
	if (sscanf(name, "h%4x%n", &region, &end) == 1 && end == 5 &&
	    !name[end])
		goto found;
	end = -1;
	if (sscanf(name, "r%4x%n", &region, &end) == 1 && end == 5 &&
	    !name[end])
		goto found;
	end = -1;
	if (sscanf(name, "r%4x.%4x%n", &region, &slot, &end) != 2 ||
	    end != 10 || name[end])
		return false;
	*ret_slot = (long)slot;
found:
	*ret_region = region;
	return true;
}

static bool owned(const struct arena *arena, unsigned index, long slot)
{
	const struct arena_region *region;

	if (index >= arena->regions_count)
		return false;
	region = &arena->regions[index];
	return region->class &&
	       (slot < 0 || (region->slot_files && slot < region->slots));
}

void arena_remove_files(struct arena *arena, bool all)
{
	int fd = openat(arena->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	unsigned region;
	long slot;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((entry = readdir(dir))) {
		if (!parse_name(entry->d_name, &region, &slot))
			continue;
		if (all || !owned(arena, region, slot))
			unlinkat(arena->dir_fd, entry->d_name, 0);
	}
	closedir(dir);
	/* With the lock still held; the next one makes a new file. An arena
	 * that is only being emptied keeps it. */
	if (all && arena->superblock)
		unlinkat(arena->dir_fd, "arena", 0);
}

/* ---- regions ---- */

/* How far the slots were ever used, and how many hold something. */
static void count_used(const struct arena *arena, struct arena_region *region,
		       uint32_t *ret_live)
{
	const struct arena_slot_header *headers =
		region_headers(arena, region->index);
	uint32_t live = 0;

	region->fresh = 0;
	for (uint32_t i = 0; i < region->slots; i++) {
		unsigned state = arena_header_state(&headers[i]);

		if (state == ARENA_TAG_EMPTY)
			continue;
		region->fresh = i + 1;
		if (state == ARENA_TAG_LIVE)
			live++;
	}
	region->loaded = region->fresh;
	*ret_live = live;
}

static int load_files(struct arena *arena, struct arena_region *region)
{
	uint64_t held_bytes = UINT64_MAX;
	uint32_t live;
	int rc = arena_region_map_headers(arena, region, false);

	if (!rc)
		rc = arena_region_map_file(arena, region, false, &held_bytes);
	if (rc)
		return rc;
	count_used(arena, region, &live);
	if (held_bytes < (uint64_t)live * region->slot_bytes)
		return -EINVAL;
	return 0;
}

/* Books the region's bytes and mappings as its record has them. */
static int load_record(struct arena *arena, struct arena_region *region)
{
	const struct arena_region_record *record =
		region_record(arena, region->index);
	struct slot_class key;
	uint64_t held_bytes;

	key.slot_bytes = le32_get(record->slot_bytes);
	key.uid = le32_get(record->uid);
	key.gid = le32_get(record->gid);
	key.mode = le32_get(record->mode);
	region->slots = le32_get(record->slots);
	region->slot_bytes = key.slot_bytes;
	region->slot_files =
		le32_get(record->layout) == ARENA_LAYOUT_SLOT_FILES;
	region->mappings = region->slot_files ? region->slots : 0;
	held_bytes = (uint64_t)region->slots * region->slot_bytes +
		     arena_region_overhead(region->slots);
	if (held_bytes > arena->budget_bytes ||
	    region->mappings > arena->max_mappings - arena->mappings)
		return -EINVAL;
	region->class = arena_class_get(arena, &key);
	if (!region->class)
		return -ENOMEM;
	region->class->regions++;
	region->held_bytes = held_bytes;
	arena->budget_bytes -= held_bytes;
	arena->mappings += region->mappings;
	return 0;
}

static void drop_region(struct arena *arena, struct arena_region *region)
{
	uint32_t index = region->index;

	arena_record_clear(arena, index);
	if (region->class) {
		arena->budget_bytes += region->held_bytes;
		arena->mappings -= region->mappings;
		arena_class_leave(arena, region);
	}
	(void)arena_region_clean(arena, region);
	*region =
		(struct arena_region){.index = index, .free_head = UINT32_MAX};
	list_init(&region->link);
}

void arena_load(struct arena *arena)
{
	for (uint32_t i = 0; i < arena->regions_count; i++) {
		struct arena_region *region = &arena->regions[i];
		int rc = 0;

		if (!le32_get(region_record(arena, i)->state))
			continue;
		rc = arena_record_valid(arena, i) ? load_record(arena, region)
						  : -EINVAL;
		if (!rc)
			rc = load_files(arena, region);
		if (!rc) {
			arena_class_place(region);
			continue;
		}
		log_warning("memory tier: region %u can't be used again (%s): "
			    "its pages are dropped",
			    i, strerror(-rc));
		drop_region(arena, region);
	}
	arena_remove_files(arena, false);
}

/* ---- slots ---- */

static bool header_says(const struct arena_slot_header *header,
			const struct chunk_id *id, uint32_t len_bytes)
{
	struct chunk_id found = arena_header_id(header);

	return arena_header_state(header) == ARENA_TAG_LIVE &&
	       chunk_id_equal(&found, id) &&
	       le32_get(header->length_bytes) == len_bytes;
}

/* Under `lock`. */
static void make_live(struct arena *arena, slot_t number, bool dirty)
{
	struct arena_region *region = region_of(arena, number);
	struct arena_slot *slot = slot_at(arena, number);
	struct arena_slot_header *header = slot_header(arena, number);
	uint32_t flags = le32_get(header->flags);
	uint64_t word = arena_word_move(WORD_READY, SLOT_LIVE);

	/* Survives a clean stop before its first use. */
	if (arena->unclean && !(flags & ARENA_HEADER_UNVERIFIED)) {
		flags |= ARENA_HEADER_UNVERIFIED;
		__atomic_store_n(&header->flags.v, le32_put(flags).v,
				 __ATOMIC_RELAXED);
	}
	if (flags & ARENA_HEADER_UNVERIFIED)
		word |= WORD_UNVERIFIED;
	if (dirty) {
		word |= WORD_DIRTY;
		atomic_fetch_add_explicit(&arena->dirty_bytes,
					  region->slot_bytes,
					  memory_order_relaxed);
	}
	region->used++;
	arena->used_bytes += region->slot_bytes;
	arena->live_slots++;
	arena->wasted_bytes +=
		region->slot_bytes - le32_get(header->length_bytes);
	arena_queue_push(arena, number);
	atomic_store_explicit(&slot->word, word, memory_order_release);
}

int arena_claim(struct arena *arena, slot_t slot, const struct chunk_id *id,
		uint32_t len_bytes, bool dirty)
{
	struct arena_region *region;
	int rc = ARENA_GONE;

	if (slot_region(slot) >= arena->regions_count)
		return ARENA_GONE;
	region = region_of(arena, slot);
	pthread_mutex_lock(&arena->lock);
	if (slot_index(slot) < region->loaded &&
	    len_bytes <= region->slot_bytes &&
	    !atomic_load(&slot_at(arena, slot)->word) &&
	    header_says(slot_header(arena, slot), id, len_bytes))
		rc = arena_region_adopt(arena, slot);
	if (!rc)
		make_live(arena, slot, dirty);
	pthread_mutex_unlock(&arena->lock);
	return rc;
}

/* Under `lock`: the slots that were found and not claimed become free. */
static void sweep_region(struct arena *arena, struct arena_region *region)
{
	for (uint32_t i = region->loaded; i-- > 0;) {
		slot_t number = slot_number(region->index, i);
		struct arena_slot *slot = slot_at(arena, number);

		if (atomic_load(&slot->word))
			continue;
		arena_header_free(arena, number);
		atomic_store(&slot->word, arena_word_move(0, SLOT_FREE));
		arena_region_put_free(arena, region, number);
	}
	region->loaded = 0;
	arena_class_place(region);
}

void arena_sweep(struct arena *arena)
{
	pthread_mutex_lock(&arena->lock);
	for (uint32_t i = 0; i < arena->regions_count; i++) {
		if (arena->regions[i].class && arena->regions[i].loaded)
			sweep_region(arena, &arena->regions[i]);
	}
	pthread_mutex_unlock(&arena->lock);
}
