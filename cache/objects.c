/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/names.h"
#include "cache/rows.h"

#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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
	if (cache->pages && pages_open(cache->pages, object))
		return meta_orphan_put(txn, object);
	return drop_all_rows(cache, txn, object, garbage);
}

int object_sweep(struct cache *cache, struct meta_txn *txn, uint64_t object,
		 struct cache_garbage *garbage)
{
	struct versions versions = {0};
	struct rows rows = {0};
	bool open = cache->pages && pages_open(cache->pages, object);
	int error = object_each_name(txn, object, versions_add, &versions);

	if (!error && !versions.count && !open)
		error = drop_all_rows(cache, txn, object, garbage);
	if (!error && (versions.count || open))
		error = rows_of(cache, txn, object, 0, UINT32_MAX, &rows);
	if (!error)
		error = rows_sweep(cache, txn, &rows, UINT64_MAX, false,
				   &versions, garbage);
	if (!error && !open)
		error = meta_orphan_del(txn, object);
	free(rows.all);
	free(versions.all);
	return error < 0 ? error : 0;
}

void cache_object_sweep(struct cache *cache, uint64_t object)
{
	struct cache_garbage garbage = {0};
	struct meta_txn *txn;
	int error = meta_begin_write(cache->meta, &txn);

	if (!error) {
		error = object_sweep(cache, txn, object, &garbage);
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
