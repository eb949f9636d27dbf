/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/names.h"

#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/clock.h"
#include "tools/lib/log.h"

#define LINK_MARK '\x01'
#define LINK_ROW_BYTES 17u
#define LINKS_MAX 65000u

/* ---- from an object to its names ---- */

struct place {
	uint64_t dir, hash;
};

static void link_row(uint64_t dir, uint64_t hash, char ret[LINK_ROW_BYTES])
{
	dir = htobe64(dir);
	hash = htobe64(hash);
	ret[0] = LINK_MARK;
	memcpy(ret + 1, &dir, sizeof(dir));
	memcpy(ret + 9, &hash, sizeof(hash));
}

bool object_is_link_row(const char *attr, size_t len)
{
	return len == LINK_ROW_BYTES && attr[0] == LINK_MARK;
}

struct places {
	struct place *all;
	size_t count, room;
	int error;
};

static int places_add(struct places *places, uint64_t dir, uint64_t hash)
{
	struct place *grown;

	if (places->count == places->room) {
		places->room = places->room ? 2 * places->room : 4;
		grown = realloc(places->all,
				places->room * sizeof(*places->all));
		if (!grown)
			return places->error = -ENOMEM;
		places->all = grown;
	}
	places->all[places->count++] = (struct place){dir, hash};
	return 0;
}

static int places_add_attr(void *arg, const char *name, size_t len,
			   const void *value, size_t value_len)
{
	uint64_t dir, hash;

	(void)value;
	(void)value_len;
	if (!object_is_link_row(name, len))
		return 0;
	memcpy(&dir, name + 1, sizeof(dir));
	memcpy(&hash, name + 9, sizeof(hash));
	return places_add(arg, be64toh(dir), be64toh(hash));
}

/* Where the object's names should be; 0, META_ABSENT or -errno.  The caller
 * frees ret->all. */
static int places_of(struct meta_txn *txn, uint64_t object, struct places *ret)
{
	struct meta_object row;
	int error = meta_object_get(txn, object, &row);

	*ret = (struct places){0};
	if (error)
		return error;
	error = places_add(ret, row.dir, row.hash);
	/* Directories have links, too, and one name. */
	if (!error && row.links > 1)
		error = meta_attr_each(txn, object, places_add_attr, ret);
	return error ? error : ret->error;
}

struct seek {
	uint64_t object;
	struct object_name *ret;
	bool found;
};

static int seek_each(void *arg, uint64_t hash, const char *name, size_t len,
		     const struct meta_entry *entry)
{
	struct seek *seek = arg;

	if (hash != seek->ret->hash)
		return 1;
	if (entry->object != seek->object || len > NAME_MAX_BYTES)
		return 0;
	memcpy(seek->ret->name, name, len);
	seek->ret->name[len] = 0;
	seek->ret->len = len;
	seek->ret->entry = *entry;
	seek->found = true;
	return 1;
}

/* The name with this hash that leads to the object: 0 or META_ABSENT. */
static int name_at(struct meta_txn *txn, uint64_t object,
		   const struct place *place, struct object_name *ret)
{
	struct seek seek = {.object = object, .ret = ret};
	int error;

	if (!place->hash)
		return META_ABSENT;
	ret->dir = place->dir;
	ret->hash = place->hash;
	error = meta_list(txn, place->dir, place->hash - 1, NULL, 0, seek_each,
			  &seek);
	if (error < 0)
		return error;
	return seek.found ? 0 : META_ABSENT;
}

int object_each_name(struct meta_txn *txn, uint64_t object,
		     int (*each)(void *arg, const struct object_name *name),
		     void *arg)
{
	struct places places;
	struct object_name name;
	int outcome = places_of(txn, object, &places);

	if (outcome == META_ABSENT)
		outcome = 0;
	for (size_t i = 0; !outcome && i < places.count; i++) {
		outcome = name_at(txn, object, &places.all[i], &name);
		if (!outcome)
			outcome = each(arg, &name);
		else if (outcome == META_ABSENT)
			outcome = 0;
	}
	free(places.all);
	return outcome;
}

int object_name_add(struct meta_txn *txn, uint64_t object, uint64_t dir,
		    uint64_t hash, bool directory)
{
	struct meta_object row;
	char attr[LINK_ROW_BYTES];
	int error = meta_object_get(txn, object, &row);

	if (error == META_ABSENT) {
		row = (struct meta_object){dir, hash, directory ? 2 : 1};
		return meta_object_put(txn, object, &row);
	}
	if (error)
		return error;
	if (row.links >= LINKS_MAX)
		return -EMLINK;
	row.links++;
	link_row(dir, hash, attr);
	error = meta_attr_put(txn, object, attr, sizeof(attr), "", 0);
	return error ? error : meta_object_put(txn, object, &row);
}

int object_name_move(struct meta_txn *txn, uint64_t object, uint64_t from_dir,
		     uint64_t from_hash, uint64_t to_dir, uint64_t to_hash)
{
	struct meta_object row;
	char attr[LINK_ROW_BYTES];
	int error = meta_object_get(txn, object, &row);

	if (error)
		return error == META_ABSENT ? 0 : error;
	if (row.dir == from_dir && row.hash == from_hash) {
		row.dir = to_dir;
		row.hash = to_hash;
		return meta_object_put(txn, object, &row);
	}
	link_row(from_dir, from_hash, attr);
	error = meta_attr_del(txn, object, attr, sizeof(attr));
	if (error < 0)
		return error;
	link_row(to_dir, to_hash, attr);
	return meta_attr_put(txn, object, attr, sizeof(attr), "", 0);
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
	for (size_t i = 0; i < garbage->slot_count; i++) {
		const struct cache_slot *slot = &garbage->slots[i];

		/* A slot that eviction took meanwhile is eviction's, which
		 * frees it or gives it back. */
		if (arena_pin(cache->arena, slot->slot, &slot->id) != 0) {
			evict_begin(cache);
			evict_end(cache);
			if (arena_pin(cache->arena, slot->slot, &slot->id) != 0)
				continue;
		}
		arena_free(cache->arena, slot->slot);
		arena_unpin(cache->arena, slot->slot);
	}
	for (size_t i = 0; i < garbage->place_count; i++)
		if (cache->buckets)
			bucket_forget(cache->buckets, &garbage->places[i]);
	cache_garbage_drop(garbage);
}

void cache_garbage_drop(struct cache_garbage *garbage)
{
	free(garbage->slots);
	free(garbage->places);
	*garbage = (struct cache_garbage){0};
}

/* ---- rows of chunks ---- */

struct row {
	enum meta_tier tier;
	struct chunk_id id;
	uint32_t len_bytes, slot;
	struct bucket_place place;
};

struct rows {
	struct row *all;
	size_t count, room;
	enum meta_tier tier;
	uint32_t last_index;
	int error;
};

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

/* Rows of both tiers with first <= index <= last, by index and version. */
static int rows_of(struct cache *cache, struct meta_txn *txn, uint64_t object,
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

static int row_drop(struct meta_txn *txn, const struct row *row,
		    struct cache_garbage *garbage)
{
	int error = meta_chunk_del(txn, row->tier, &row->id);

	if (error)
		return error < 0 ? error : 0;
	if (row->tier == META_MEMORY)
		return cache_garbage_slot(garbage,
					  &(struct cache_slot){row->slot,
							       row->id,
							       row->len_bytes});
	error = meta_bucket_add(txn, row->place.bucket,
				-(int64_t)round_up_block(row->len_bytes));
	return error ? error : cache_garbage_place(garbage, &row->place);
}

/* The versions at which an object has names. */
struct versions {
	uint64_t *all;
	size_t count, room;
};

static int versions_add(void *arg, const struct object_name *name)
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
	return pages_need(cache->pages, row->id.object, row->id.version.clock,
			  next);
}

/* The version that follows row i at its index, at most `limit`. */
static uint64_t row_next(const struct rows *rows, size_t i, uint64_t limit)
{
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

static int rows_sweep(struct cache *cache, struct meta_txn *txn,
		      const struct rows *rows, uint64_t limit,
		      const struct versions *versions,
		      struct cache_garbage *garbage)
{
	for (size_t i = 0; i < rows->count; i++) {
		const struct row *row = &rows->all[i];
		int error;

		if (row->id.version.clock >= limit ||
		    row_needed(cache, row, row_next(rows, i, limit), versions))
			continue;
		error = row_drop(txn, row, garbage);
		if (error)
			return error;
	}
	return 0;
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
		error = rows_sweep(cache, txn, &rows, clock, &versions,
				   garbage);
	free(versions.all);
	free(rows.all);
	return error;
}

/* ---- the end of an object ---- */

static int drop_all_rows(struct cache *cache, struct meta_txn *txn,
			 uint64_t object, struct cache_garbage *garbage)
{
	struct rows rows;
	int error = rows_of(cache, txn, object, 0, UINT32_MAX, &rows);

	for (size_t i = 0; !error && i < rows.count; i++)
		error = row_drop(txn, &rows.all[i], garbage);
	free(rows.all);
	if (!error)
		error = meta_attr_del_all(txn, object);
	return error < 0 ? error : 0;
}

/* The objects row must lead to a name that is there. */
static int repoint(struct meta_txn *txn, uint64_t object,
		   struct meta_object *row)
{
	struct places places;
	struct object_name name;
	char attr[LINK_ROW_BYTES];
	int error = places_of(txn, object, &places);
	int found = error;

	if (!error)
		found = name_at(txn, object, &places.all[0], &name);
	for (size_t i = 1; found == META_ABSENT && i < places.count; i++) {
		row->dir = places.all[i].dir;
		row->hash = places.all[i].hash;
		link_row(row->dir, row->hash, attr);
		error = meta_attr_del(txn, object, attr, sizeof(attr));
		found = error < 0 ? error
				  : name_at(txn, object, &places.all[i], &name);
	}
	free(places.all);
	return found < 0 ? found : meta_object_put(txn, object, row);
}

int cache_object_unlink(struct cache *cache, struct meta_txn *txn,
			uint64_t object, struct cache_garbage *garbage)
{
	struct meta_object row;
	int error = meta_object_get(txn, object, &row);

	if (error)
		return error == META_ABSENT ? 0 : error;
	if (row.links > 1) {
		row.links--;
		return repoint(txn, object, &row);
	}
	error = meta_object_del(txn, object);
	if (error < 0)
		return error;
	if (pages_open(cache->pages, object))
		return meta_orphan_put(txn, object);
	return drop_all_rows(cache, txn, object, garbage);
}

static int sweep_in(struct cache *cache, struct meta_txn *txn, uint64_t object,
		    struct cache_garbage *garbage)
{
	struct versions versions = {0};
	struct rows rows = {0};
	int error = object_each_name(txn, object, versions_add, &versions);

	if (!error && !versions.count && !pages_open(cache->pages, object)) {
		error = drop_all_rows(cache, txn, object, garbage);
		if (!error)
			error = meta_orphan_del(txn, object);
		return error < 0 ? error : 0;
	}
	if (!error)
		error = rows_of(cache, txn, object, 0, UINT32_MAX, &rows);
	if (!error)
		error = rows_sweep(cache, txn, &rows, UINT64_MAX, &versions,
				   garbage);
	free(rows.all);
	free(versions.all);
	return error;
}

void cache_object_sweep(struct cache *cache, uint64_t object)
{
	struct cache_garbage garbage = {0};
	struct meta_txn *txn;
	int error = meta_begin_write(cache->meta, &txn);

	if (!error) {
		error = sweep_in(cache, txn, object, &garbage);
		if (error)
			meta_abort(txn);
		else
			error = cache_commit(cache, txn);
	}
	if (error) {
		/* The rows stay until the next sweep of this object, or
		 * until eviction comes by. */
		log_warning("cannot drop old chunks of object %llu: %s",
			    (unsigned long long)object, strerror(-error));
		cache_garbage_drop(&garbage);
		return;
	}
	cache_garbage_free(cache, &garbage);
}
