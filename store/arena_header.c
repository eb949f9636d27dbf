/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena_internal.h"

#include <string.h>

#include "tools/lib/checksum.h"

static uint64_t superblock_checksum(const struct arena_superblock *superblock)
{
	return checksum_bytes(superblock,
			      offsetof(struct arena_superblock, checksum), 0);
}

void arena_superblock_init(struct arena *arena)
{
	struct arena_superblock *superblock = arena->superblock;

	memset(superblock, 0, arena->superblock_bytes);
	memcpy(superblock->magic, ARENA_MAGIC, sizeof(superblock->magic));
	superblock->version = le32_put(ARENA_FORMAT_VERSION);
	superblock->length_bytes = le32_put(ARENA_SUPERBLOCK_BYTES);
	superblock->arena_bytes = le64_put(arena->bytes);
	superblock->region_bytes = le64_put(arena->region_bytes);
	superblock->regions = le32_put(arena->regions_count);
	superblock->header_bytes = le32_put(sizeof(struct arena_slot_header));
	superblock->checksum = le64_put(superblock_checksum(superblock));
}

static bool all_zero(const uint8_t *bytes, size_t len_bytes)
{
	for (size_t i = 0; i < len_bytes; i++) {
		if (bytes[i])
			return false;
	}
	return true;
}

bool arena_superblock_valid(const struct arena_superblock *superblock,
			    const struct arena *arena)
{
	if (memcmp(superblock->magic, ARENA_MAGIC, sizeof(superblock->magic)))
		return false;
	if (le32_get(superblock->version) != ARENA_FORMAT_VERSION ||
	    le32_get(superblock->length_bytes) != ARENA_SUPERBLOCK_BYTES)
		return false;
	if (le64_get(superblock->arena_bytes) != arena->bytes ||
	    le64_get(superblock->region_bytes) != arena->region_bytes ||
	    le32_get(superblock->regions) != arena->regions_count ||
	    le32_get(superblock->header_bytes) !=
		    sizeof(struct arena_slot_header))
		return false;
	if (!all_zero(superblock->reserved, sizeof(superblock->reserved)))
		return false;
	return le64_get(superblock->checksum) ==
	       superblock_checksum(superblock);
}

static uint64_t record_checksum(const struct arena_region_record *record,
				uint32_t region)
{
	size_t from = offsetof(struct arena_region_record, layout);
	size_t to = offsetof(struct arena_region_record, checksum);

	return checksum_bytes((const char *)record + from, to - from, region);
}

static void record_set_state(struct arena_region_record *record, uint32_t state)
{
	/* Ordered for the process that opens the arena after this one was
	 * killed: arena_record_valid(). */
	__atomic_store_n(&record->state.v, le32_put(state).v, __ATOMIC_RELEASE);
}

void arena_record_write(struct arena *arena, const struct arena_region *region)
{
	struct arena_region_record *record =
		region_record(arena, region->index);
	const struct slot_class *key = &region->class->key;

	record->layout = le32_put(region->slot_files ? ARENA_LAYOUT_SLOT_FILES
						     : ARENA_LAYOUT_ONE_FILE);
	record->slot_bytes = le32_put(region->slot_bytes);
	record->slots = le32_put(region->slots);
	record->uid = le32_put(key->uid);
	record->gid = le32_put(key->gid);
	record->mode = le32_put(key->mode);
	record->generation = le32_put(le32_get(record->generation) + 1);
	memset(record->reserved, 0, sizeof(record->reserved));
	record->checksum = le64_put(record_checksum(record, region->index));
	record_set_state(record, ARENA_REGION_IN_USE);
}

void arena_record_clear(struct arena *arena, uint32_t region)
{
	record_set_state(region_record(arena, region), ARENA_REGION_NONE);
}

bool arena_record_valid(const struct arena *arena, uint32_t region)
{
	const struct arena_region_record *record = region_record(arena, region);
	uint64_t slot_bytes = le32_get(record->slot_bytes);
	uint64_t slots = le32_get(record->slots);

	if (le32_get(record->state) != ARENA_REGION_IN_USE ||
	    le64_get(record->checksum) != record_checksum(record, region))
		return false;
	if (!all_zero(record->reserved, sizeof(record->reserved)) ||
	    le32_get(record->layout) > ARENA_LAYOUT_SLOT_FILES)
		return false;
	return slot_bytes && slot_bytes % BLOCK_BYTES == 0 && slots &&
	       slots <= arena->slots_max &&
	       slots * slot_bytes <= arena->region_bytes;
}

static uint64_t header_tag(const struct arena_slot_header *header)
{
	struct le64 tag = {__atomic_load_n(&header->tag.v, __ATOMIC_ACQUIRE)};

	return le64_get(tag);
}

static void header_set_tag(struct arena_slot_header *header, uint64_t tag)
{
	__atomic_store_n(&header->tag.v, le64_put(tag).v, __ATOMIC_RELEASE);
}

unsigned arena_header_state(const struct arena_slot_header *header)
{
	return header_tag(header) & ARENA_TAG_STATE_MASK;
}

static void header_set_state(struct arena_slot_header *header, unsigned state)
{
	uint64_t tag = header_tag(header) & ~(uint64_t)ARENA_TAG_STATE_MASK;

	header_set_tag(header, tag | state);
}

void arena_header_reserve(struct arena *arena, slot_t slot)
{
	struct arena_slot_header *header = slot_header(arena, slot);
	uint64_t generation = header_tag(header) >> ARENA_TAG_GENERATION_SHIFT;

	/* A new table starts with zeros: its generations go on where the
	 * region's class before can't have been. */
	if (!generation)
		generation = (uint64_t)le32_get(
				     region_record(arena, slot_region(slot))
					     ->generation)
			     << 24;
	header_set_tag(header, (generation + 1) << ARENA_TAG_GENERATION_SHIFT |
				       ARENA_TAG_RESERVED);
	/* The tag before the first of the new bytes. */
	atomic_thread_fence(memory_order_seq_cst);
}

void arena_header_commit(struct arena *arena, slot_t slot,
			 const struct chunk_id *id, uint32_t len_bytes,
			 bool unverified)
{
	struct arena_slot_header *header = slot_header(arena, slot);

	header->object = le64_put(id->object);
	header->version_clock = le64_put(id->version.clock);
	header->version_node = le64_put(id->version.node);
	header->index = le32_put(id->index);
	header->length_bytes = le32_put(len_bytes);
	header->flags = le32_put(unverified ? ARENA_HEADER_UNVERIFIED : 0);
	header_set_state(header, ARENA_TAG_LIVE);
}

void arena_header_free(struct arena *arena, slot_t slot)
{
	header_set_state(slot_header(arena, slot), ARENA_TAG_FREE);
}

struct chunk_id arena_header_id(const struct arena_slot_header *header)
{
	return (struct chunk_id){
		.object = le64_get(header->object),
		.index = le32_get(header->index),
		.version = {le64_get(header->version_clock),
			    le64_get(header->version_node)},
	};
}
