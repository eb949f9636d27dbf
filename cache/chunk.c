/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/names.h"
#include "cache/reads.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/lib/checksum.h"
#include "tools/lib/log.h"

static void from_memory(struct chunk_where *where, const struct meta_chunk *row)
{
	where->in_memory = true;
	where->slot = row->slot;
}

static void from_disk(struct chunk_where *where, const struct meta_chunk *row)
{
	where->on_disk = true;
	where->place.bucket = row->bucket;
	where->place.data_block = row->data_block;
	where->place.len_bytes = row->len_bytes;
}

/* Memory first: a chunk moves to the disk before it leaves memory, and the
 * disk's snapshot is taken no earlier than memory's when the transaction has
 * not looked at it before. */
int chunk_find(struct cache *cache, struct meta_txn *txn, uint64_t object,
	       uint32_t index, uint64_t at_clock, struct chunk_where *ret)
{
	struct meta_chunk memory, disk;
	struct chunk_where where = {.slot = SLOT_NONE};
	int in_memory = meta_chunk_get(txn, META_MEMORY, object, index,
				       at_clock, &memory);
	int on_disk = META_ABSENT;
	int newer = 0;

	if (in_memory < 0)
		return in_memory;
	if (cache->buckets)
		on_disk = meta_chunk_get(txn, META_DISK, object, index,
					 at_clock, &disk);
	if (on_disk < 0)
		return on_disk;
	if (!in_memory && !cache_chunk_current(&memory, at_clock))
		in_memory = META_ABSENT;
	if (!on_disk && !cache_chunk_current(&disk, at_clock))
		on_disk = META_ABSENT;
	if (in_memory && on_disk)
		return CACHE_HOLE;
	if (in_memory || on_disk)
		newer = in_memory ? 1 : -1;
	else
		newer = page_version_compare(&disk.id.version,
					     &memory.id.version);
	if (newer <= 0)
		from_memory(&where, &memory);
	if (newer >= 0)
		from_disk(&where, &disk);
	where.row = newer > 0 ? disk : memory;
	where.id = where.row.id;
	where.len_bytes = where.row.len_bytes;
	*ret = where;
	return where.len_bytes ? 0 : CACHE_HOLE;
}

static bool row_is(int outcome, const struct meta_chunk *row,
		   const struct chunk_id *id)
{
	return !outcome && chunk_id_equal(&row->id, id);
}

int chunk_rows(struct cache *cache, struct meta_txn *txn,
	       const struct chunk_id *id, struct chunk_rows *ret)
{
	uint64_t clock = id->version.clock;
	int outcome = meta_chunk_get(txn, META_MEMORY, id->object, id->index,
				     clock, &ret->memory);

	ret->in_memory = row_is(outcome, &ret->memory, id);
	ret->on_disk = false;
	if (outcome < 0 || !cache->buckets)
		return outcome < 0 ? outcome : 0;
	outcome = meta_chunk_get(txn, META_DISK, id->object, id->index, clock,
				 &ret->disk);
	ret->on_disk = row_is(outcome, &ret->disk, id);
	return outcome < 0 ? outcome : 0;
}

struct first_row {
	uint64_t at_clock;
	uint64_t index;
};

static int first_row(void *arg, const struct meta_chunk *row)
{
	struct first_row *first = arg;

	if (row->id.version.clock > first->at_clock ||
	    !cache_chunk_current(row, first->at_clock))
		return 0;
	if (row->id.index < first->index)
		first->index = row->id.index;
	return 1;
}

int chunk_next(struct cache *cache, struct meta_txn *txn, uint64_t object,
	       uint64_t at_clock, uint64_t from, uint32_t *ret)
{
	struct first_row first = {at_clock, UINT64_MAX};
	int error;

	if (from > UINT32_MAX)
		return META_ABSENT;
	error = meta_chunk_each(txn, META_MEMORY, object, (uint32_t)from,
				first_row, &first);
	if (error >= 0 && cache->buckets)
		error = meta_chunk_each(txn, META_DISK, object, (uint32_t)from,
					first_row, &first);
	if (error < 0)
		return error;
	if (first.index == UINT64_MAX)
		return META_ABSENT;
	*ret = (uint32_t)first.index;
	return 0;
}

static bool row_verifies(const void *data, const struct meta_chunk *row)
{
	uint64_t seed = chunk_seed(&row->id);
	const char *at = data;
	size_t left = row->len_bytes;

	for (size_t block = 0; left; block++) {
		size_t len = left < CHECK_BYTES ? left : CHECK_BYTES;

		if (checksum_bytes(at, len, seed + block) !=
		    meta_checksum(row, block))
			return false;
		at += len;
		left -= len;
	}
	return true;
}

bool chunk_good(const void *data, const struct chunk_id *id, uint32_t len_bytes,
		const uint64_t *checksums)
{
	return checksum_verify(data, len_bytes, chunk_seed(id), checksums) ==
	       SIZE_MAX;
}

int chunk_pin(struct cache *cache, const struct chunk_where *where,
	      struct cache_slot *ret)
{
	struct arena *arena = cache->arena;
	slot_t slot = where->slot;

	if (!where->in_memory || arena_pin(arena, slot, &where->id))
		return CACHE_MISS;
	if (arena_unverified(arena, slot)) {
		if (!row_verifies(arena_data(arena, slot), &where->row)) {
			fetches_condemn_slot(cache->fetches, &where->id, slot);
			arena_unpin(arena, slot);
			return CACHE_MISS;
		}
		arena_set_verified(arena, slot);
	}
	ret->slot = slot;
	ret->id = where->id;
	ret->len_bytes = where->len_bytes;
	return 0;
}

/* ---- losing ---- */

int chunk_drop(struct meta_txn *txn, enum meta_tier tier,
	       const struct meta_chunk *row, struct cache_garbage *garbage)
{
	struct cache_slot slot = {row->slot, row->id, row->len_bytes};
	struct bucket_place place = {row->bucket, row->data_block,
				     row->len_bytes};
	int error;

	if (tier == META_MEMORY)
		error = cache_garbage_slot(garbage, &slot);
	else
		error = cache_garbage_place(garbage, &place);
	if (!error && tier == META_DISK)
		error = meta_bucket_add(
			txn, place.bucket,
			-(int64_t)round_up_block(place.len_bytes));
	if (!error)
		error = meta_chunk_del(txn, tier, &slot.id);
	return error;
}

int chunk_lose(struct cache *cache, struct meta_txn *txn,
	       const struct chunk_id *id, struct cache_garbage *garbage)
{
	int tiers = cache->buckets ? 2 : 1;

	pages_lose(cache->pages, id->object, id->version.clock);
	for (int i = 0; i < tiers; i++) {
		enum meta_tier tier = i ? META_DISK : META_MEMORY;
		struct meta_chunk row;
		int outcome;

		while (!(outcome = meta_chunk_get(txn, tier, id->object,
						  id->index, id->version.clock,
						  &row))) {
			outcome = chunk_drop(txn, tier, &row, garbage);
			if (outcome)
				break;
		}
		if (outcome < 0)
			return outcome;
	}
	return 0;
}

/* ---- leaving the disk ---- */

struct leaving {
	struct cache *cache;
	struct meta_txn *txn;
	bool write_again;
};

/* Of its record on disk an older one may be left, in another bucket: the name
 * is called gone until the page is written again, or losing power now would
 * bring that back. */
static int leave_name(void *arg, const struct object_name *name)
{
	struct leaving *leaving = arg;
	struct cache_name at = {name->dir, name->name, name->len};
	struct meta_entry entry = name->entry;
	int error;

	if (!(entry.flags & META_ON_DISK))
		return 0;
	entry.flags &= ~(uint32_t)META_ON_DISK;
	error = cache_fact_gone(leaving->cache, leaving->txn, &at);
	if (!error)
		error = meta_name_put(leaving->txn, at.dir, at.name, at.len,
				      &entry);
	if (!error && leaving->write_again)
		error = cache_pending_page(leaving->cache, leaving->txn,
					   &entry);
	return error;
}

/* The slot is marked first: a mark too many costs a write, one too few would
 * cost the page. */
int chunk_leave_disk(struct cache *cache, struct meta_txn *txn,
		     const struct meta_chunk *memory,
		     const struct meta_chunk *disk, bool write_again,
		     struct cache_garbage *garbage)
{
	struct leaving leaving = {cache, txn, write_again};
	int error;

	if (arena_pin_quietly(cache->arena, memory->slot, &memory->id))
		return META_ABSENT;
	if (write_again)
		arena_set_dirty(cache->arena, memory->slot, true);
	arena_unpin(cache->arena, memory->slot);
	error = chunk_drop(txn, META_DISK, disk, garbage);
	return error ? error
		     : object_each_name(txn, memory->id.object, leave_name,
					&leaving);
}
