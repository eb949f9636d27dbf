/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/rows.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "tools/lib/checksum.h"

/* ---- rows that lead nowhere ---- */

/* Rows of memory whose slots have been freed.  Pinning finds out that such a
 * row is stale, so it may stand for a while. */
struct stale {
	pthread_mutex_t lock;
	struct cache_slot *slots;
	size_t count, room;
};

int stale_new(struct stale **ret)
{
	struct stale *stale = calloc(1, sizeof(*stale));

	if (!stale)
		return -ENOMEM;
	pthread_mutex_init(&stale->lock, NULL);
	*ret = stale;
	return 0;
}

void stale_free(struct stale *stale)
{
	if (!stale)
		return;
	pthread_mutex_destroy(&stale->lock);
	free(stale->slots);
	free(stale);
}

static void stale_add(struct stale *stale, const struct cache_slot *slots,
		      size_t count)
{
	pthread_mutex_lock(&stale->lock);
	if (stale->count + count > stale->room) {
		size_t room = 2 * stale->room + count;
		struct cache_slot *grown =
			realloc(stale->slots, room * sizeof(*grown));

		if (grown) {
			stale->slots = grown;
			stale->room = room;
		} else {
			/* The next start drops them. */
			count = 0;
		}
	}
	for (size_t i = 0; i < count; i++)
		stale->slots[stale->count++] = slots[i];
	pthread_mutex_unlock(&stale->lock);
}

/* The chunk may have been fetched again meanwhile: then its row leads to
 * another slot, and stays. */
static int stale_drop(struct meta_txn *txn, const struct cache_slot *slot)
{
	struct meta_chunk row;
	int error =
		meta_chunk_get(txn, META_MEMORY, slot->id.object,
			       slot->id.index, slot->id.version.clock, &row);

	if (error || !chunk_id_equal(&row.id, &slot->id) ||
	    row.slot != slot->slot)
		return error;
	return meta_chunk_del(txn, META_MEMORY, &slot->id);
}

int stale_sweep(struct stale *stale, struct meta_txn *txn)
{
	struct cache_slot *slots;
	size_t count;
	int error = 0;

	pthread_mutex_lock(&stale->lock);
	slots = stale->slots;
	count = stale->count;
	stale->slots = NULL;
	stale->count = stale->room = 0;
	pthread_mutex_unlock(&stale->lock);
	while (error >= 0 && count)
		error = stale_drop(txn, &slots[--count]);
	free(slots);
	return error < 0 ? error : 0;
}

/* ---- garbage ---- */

int cache_garbage_slot(struct cache_garbage *garbage,
		       const struct cache_slot *slot)
{
	struct cache_slot *grown;

	if (garbage->slot_count == garbage->slot_room) {
		garbage->slot_room =
			garbage->slot_room ? 2 * garbage->slot_room : 16;
		grown = realloc(garbage->slots,
				garbage->slot_room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		garbage->slots = grown;
	}
	garbage->slots[garbage->slot_count++] = *slot;
	return 0;
}

int cache_garbage_place(struct cache_garbage *garbage,
			const struct bucket_place *place)
{
	struct bucket_place *grown;

	if (garbage->place_count == garbage->place_room) {
		garbage->place_room =
			garbage->place_room ? 2 * garbage->place_room : 16;
		grown = realloc(garbage->places,
				garbage->place_room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		garbage->places = grown;
	}
	garbage->places[garbage->place_count++] = *place;
	return 0;
}

void cache_garbage_free(struct cache *cache, struct cache_garbage *garbage)
{
	/* First: once a slot is free, the same chunk may come into it again,
	 * and get a row that is not stale. */
	stale_add(cache->stale, garbage->slots, garbage->slot_count);
	for (size_t i = 0; i < garbage->slot_count; i++) {
		const struct cache_slot *slot = &garbage->slots[i];

		/* A slot that eviction took meanwhile is eviction's, which
		 * frees it or gives it back. */
		if (arena_pin_quietly(cache->arena, slot->slot, &slot->id) !=
		    0) {
			evict_begin(cache);
			evict_end(cache);
			if (arena_pin_quietly(cache->arena, slot->slot,
					      &slot->id) != 0)
				continue;
		}
		arena_free(cache->arena, slot->slot);
		arena_unpin(cache->arena, slot->slot);
	}
	for (size_t i = 0; i < garbage->place_count; i++)
		bucket_forget(cache->buckets, &garbage->places[i]);
	cache_garbage_drop(garbage);
}

void cache_garbage_drop(struct cache_garbage *garbage)
{
	free(garbage->slots);
	free(garbage->places);
	*garbage = (struct cache_garbage){0};
}

/* ---- rows that were superseded ---- */

/* A row's flags say by how much the version that superseded it is newer:
 * exactly in clock units where it fits, else in milliseconds, rounded down. */
#define SUPERSEDED (1u << 31)
#define IN_MS (1u << 30)
#define DELTA_MAX (IN_MS - 1)
#define CLOCK_MS_SHIFT 16

static uint32_t superseded_flags(uint64_t clock, uint64_t by_clock)
{
	uint64_t delta = by_clock - clock;

	if (delta <= DELTA_MAX)
		return SUPERSEDED | (uint32_t)delta;
	delta >>= CLOCK_MS_SHIFT;
	return SUPERSEDED | IN_MS |
	       (uint32_t)(delta < DELTA_MAX ? delta : DELTA_MAX);
}

/* UINT64_MAX: by nothing yet. */
static uint64_t superseded_by(uint32_t flags, uint64_t clock)
{
	uint64_t delta = flags & DELTA_MAX;

	if (!(flags & SUPERSEDED))
		return UINT64_MAX;
	return clock + (flags & IN_MS ? delta << CLOCK_MS_SHIFT : delta);
}

bool cache_chunk_current(const struct meta_chunk *row, uint64_t at_clock)
{
	return at_clock < superseded_by(row->flags, row->id.version.clock);
}

/* ---- rows of chunks ---- */

static int rows_add(void *arg, const struct meta_chunk *chunk)
{
	struct rows *rows = arg;
	struct row *grown;

	if (chunk->id.index > rows->last_index)
		return 1;
	if (rows->count == rows->room) {
		rows->room = rows->room ? 2 * rows->room : 8;
		grown = realloc(rows->all, rows->room * sizeof(*grown));
		if (!grown) {
			rows->error = -ENOMEM;
			return 1;
		}
		rows->all = grown;
	}
	rows->all[rows->count++] = (struct row){
		.tier = rows->tier,
		.id = chunk->id,
		.len_bytes = chunk->len_bytes,
		.slot = chunk->slot,
		.flags = chunk->flags,
		.place = {chunk->bucket, chunk->data_block, chunk->len_bytes},
	};
	return 0;
}

static int row_compare(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->id.index != y->id.index)
		return x->id.index < y->id.index ? -1 : 1;
	if (x->id.version.clock != y->id.version.clock)
		return x->id.version.clock < y->id.version.clock ? -1 : 1;
	return (int)x->tier - (int)y->tier;
}

int rows_of(struct cache *cache, struct meta_txn *txn, uint64_t object,
	    uint32_t first, uint32_t last, struct rows *ret)
{
	int error;

	*ret = (struct rows){.tier = META_MEMORY, .last_index = last};
	error = meta_chunk_each(txn, META_MEMORY, object, first, rows_add, ret);
	if (error >= 0 && !ret->error && cache->buckets) {
		ret->tier = META_DISK;
		error = meta_chunk_each(txn, META_DISK, object, first, rows_add,
					ret);
	}
	if (error >= 0)
		error = ret->error;
	if (!error && ret->count > 1)
		qsort(ret->all, ret->count, sizeof(*ret->all), row_compare);
	return error;
}

int row_drop(struct meta_txn *txn, const struct row *row,
	     struct cache_garbage *garbage)
{
	int error;

	/* Memory's environment is committed before the other one.  Were its
	 * row deleted here, a crash between the two would leave the old name
	 * or version without its bytes.  The slot is freed after the commit;
	 * the row leads nowhere then, and goes with the next transaction. */
	if (row->tier == META_MEMORY)
		return cache_garbage_slot(
			garbage, &(struct cache_slot){row->slot, row->id,
						      row->len_bytes});
	error = meta_chunk_del(txn, row->tier, &row->id);
	if (error)
		return error < 0 ? error : 0;
	error = meta_bucket_add(txn, row->place.bucket,
				-(int64_t)round_up_block(row->len_bytes));
	return error ? error : cache_garbage_place(garbage, &row->place);
}

int versions_add(void *arg, const struct object_name *name)
{
	struct versions *versions = arg;
	uint64_t *grown;

	if (versions->count == versions->room) {
		versions->room = versions->room ? 2 * versions->room : 4;
		grown = realloc(versions->all, versions->room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		versions->all = grown;
	}
	versions->all[versions->count++] = name->entry.version.clock;
	return 0;
}

/* Does a name or an open page consist of this row, which one of version
 * `next` follows? */
static bool row_needed(struct cache *cache, const struct row *row,
		       uint64_t next, const struct versions *versions)
{
	for (size_t i = 0; i < versions->count; i++)
		if (row->id.version.clock <= versions->all[i] &&
		    versions->all[i] < next)
			return true;
	return cache->pages && pages_need(cache->pages, row->id.object,
					  row->id.version.clock, next);
}

bool row_wanted(struct cache *cache, struct meta_txn *txn,
		const struct meta_chunk *chunk)
{
	struct row row = {.id = chunk->id};
	struct versions versions = {0};
	uint64_t next = superseded_by(chunk->flags, chunk->id.version.clock);
	bool wanted = object_each_name(txn, chunk->id.object, versions_add,
				       &versions) != 0 ||
		      row_needed(cache, &row, next, &versions);

	free(versions.all);
	return wanted;
}

/* The version that follows row i at its index, at most `limit`. */
static uint64_t row_next(const struct rows *rows, size_t i, uint64_t limit)
{
	uint64_t by_clock = superseded_by(rows->all[i].flags,
					  rows->all[i].id.version.clock);

	if (by_clock < limit)
		limit = by_clock;
	for (size_t j = i + 1; j < rows->count; j++) {
		if (rows->all[j].id.index != rows->all[i].id.index)
			break;
		if (rows->all[j].id.version.clock !=
		    rows->all[i].id.version.clock)
			return rows->all[j].id.version.clock < limit
				       ? rows->all[j].id.version.clock
				       : limit;
	}
	return limit;
}

static int row_mark(struct meta_txn *txn, const struct row *row,
		    uint64_t by_clock)
{
	uint64_t checksums[(1u << CHUNK_SHIFT_MAX) / CHECK_BYTES];
	struct meta_chunk chunk;
	int error;

	/* The first that superseded it counts. */
	if (row->flags & SUPERSEDED)
		return 0;
	error = meta_chunk_get(txn, row->tier, row->id.object, row->id.index,
			       row->id.version.clock, &chunk);
	if (error)
		return error < 0 ? error : 0;
	for (size_t i = 0; i < checksum_block_count(chunk.len_bytes); i++)
		checksums[i] = meta_checksum(&chunk, i);
	chunk.checksums = checksums;
	chunk.flags = superseded_flags(row->id.version.clock, by_clock);
	return meta_chunk_put(txn, row->tier, &chunk);
}

int rows_sweep(struct cache *cache, struct meta_txn *txn,
	       const struct rows *rows, uint64_t limit, bool mark,
	       const struct versions *versions, struct cache_garbage *garbage)
{
	int error = 0;

	for (size_t i = 0; !error && i < rows->count; i++) {
		const struct row *row = &rows->all[i];
		uint64_t next = row_next(rows, i, limit);

		if (row->id.version.clock >= limit)
			continue;
		bool needed = row_needed(cache, row, next, versions);

		if (mark && (needed || row->tier == META_MEMORY))
			error = row_mark(txn, row, next);
		/* A restart closes all pages: it must find this one. */
		if (!error && mark && needed)
			error = meta_orphan_put(txn, row->id.object);
		if (!error && !needed)
			error = row_drop(txn, row, garbage);
	}
	return error;
}

int cache_chunk_supersede(struct cache *cache, struct meta_txn *txn,
			  uint64_t object, uint32_t index, uint64_t clock,
			  struct cache_garbage *garbage)
{
	struct versions versions = {0};
	struct meta_object row;
	struct rows rows;
	int error = rows_of(cache, txn, object, index, index, &rows);

	/* Of several names each keeps the version that it has. */
	if (!error && rows.count && meta_object_get(txn, object, &row) == 0 &&
	    row.links > 1)
		error = object_each_name(txn, object, versions_add, &versions);
	if (!error)
		error = rows_sweep(cache, txn, &rows, clock, true, &versions,
				   garbage);
	free(versions.all);
	free(rows.all);
	return error;
}
