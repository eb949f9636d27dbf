/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/facts.h"
#include "cache/rebuild_internal.h"
#include "cache/recover.h"
#include "cache/rows.h"

#include <errno.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_AT_ONCE 512u

/* ---- the tree ---- */

struct listed {
	uint64_t hash;
	size_t len;
	char name[NAME_MAX_BYTES];
	struct meta_entry entry;
};

struct listing {
	struct listed all[NAMES_AT_ONCE];
	size_t count;
};

static int note(void *arg, uint64_t hash, const char *name, size_t len,
		const struct meta_entry *entry)
{
	struct listing *listing = arg;
	struct listed *listed = &listing->all[listing->count++];

	listed->hash = hash;
	listed->len = len;
	memcpy(listed->name, name, len);
	listed->entry = *entry;
	return listing->count == NAMES_AT_ONCE;
}

/* Is every chunk there that the commit consisted of, and no other? */
static int is_whole(struct rebuild *rebuild, const struct meta_entry *entry,
		    bool *ret)
{
	char attr[SUM_ATTR_BYTES];
	uint64_t found, told;
	uint32_t count;
	const void *value;
	size_t len;
	int error;

	*ret = !entry->chunks;
	if (!entry->chunks)
		return 0;
	rebuild_sum_attr(entry->version.clock, attr);
	error = meta_attr_get(rebuild->txn, entry->object, attr, sizeof(attr),
			      &value, &len);
	if (error)
		return error < 0 ? error : 0;
	if (len != sizeof(told))
		return 0;
	memcpy(&told, value, sizeof(told));
	error = chunk_sum(rebuild->cache, rebuild->txn, entry, false, &found,
			  &count);
	*ret = !error && count == entry->chunks && le64toh(told) == found;
	return error;
}

static int settle_file(struct rebuild *rebuild, uint64_t dir,
		       struct listed *listed)
{
	bool whole;
	int error = is_whole(rebuild, &listed->entry, &whole);

	if (error)
		return error;
	if (!whole) {
		rebuild->lost++;
		error = meta_name_del(rebuild->txn, dir, listed->name,
				      listed->len);
		return error < 0 ? error : 0;
	}
	if (listed->entry.chunks) {
		listed->entry.flags |= META_ON_DISK;
		error = meta_name_put(rebuild->txn, dir, listed->name,
				      listed->len, &listed->entry);
	}
	return error ? error
		     : object_name_add(rebuild->txn, listed->entry.object, dir,
				       listed->hash, false);
}

/* A directory that got its number here has no fact under it in any bucket: the
 * journal hears of it, or it would be gone with its last page, and its
 * attributes with the next rebuild. */
static int settle_dir_name(struct rebuild *rebuild, uint64_t dir,
			   const struct listed *listed)
{
	struct cache_name name = {dir, listed->name, listed->len};
	int error = names_dir_links(rebuild->txn, dir, 1);

	if (error || listed->entry.object <= rebuild->last_clock)
		return error;
	return cache_fact_set(rebuild->cache, rebuild->txn, &name,
			      &listed->entry);
}

static int settle(struct rebuild *rebuild, uint64_t dir, struct listed *listed,
		  struct object_list *dirs)
{
	int error = rebuild_step(rebuild);

	if (error)
		return error;
	rebuild->names++;
	if (listed->entry.type != META_DIR)
		return settle_file(rebuild, dir, listed);
	error = settle_dir_name(rebuild, dir, listed);
	return error ? error : object_list_add(dirs, listed->entry.object);
}

static int settle_dir(struct rebuild *rebuild, uint64_t dir,
		      struct listing *listing, struct object_list *dirs)
{
	uint64_t after = 0;
	char after_name[NAME_MAX_BYTES];
	size_t after_len = 0;
	bool first = true;
	int error;

	do {
		error = rebuild_step(rebuild);
		if (error)
			return error;
		listing->count = 0;
		error = meta_list(rebuild->txn, dir, after,
				  first ? NULL : after_name, after_len, note,
				  listing);
		for (size_t i = 0; error >= 0 && i < listing->count; i++)
			error = settle(rebuild, dir, &listing->all[i], dirs);
		if (error < 0 || !listing->count)
			return error < 0 ? error : 0;
		first = false;
		after = listing->all[listing->count - 1].hash;
		after_len = listing->all[listing->count - 1].len;
		memcpy(after_name, listing->all[listing->count - 1].name,
		       after_len);
	} while (listing->count == NAMES_AT_ONCE);
	return 0;
}

int rebuild_names(struct rebuild *rebuild)
{
	struct listing *listing = malloc(sizeof(*listing));
	struct object_list dirs = {0};
	int error = listing ? object_list_add(&dirs, META_ROOT) : -ENOMEM;

	while (!error && dirs.count)
		error = settle_dir(rebuild, dirs.all[--dirs.count], listing,
				   &dirs);
	free(dirs.all);
	free(listing);
	return error ? error : rebuild_flush(rebuild);
}

/* ---- the rows ---- */

struct some_objects {
	struct object_list list;
	uint64_t after;
};

static int note_object(void *arg, const struct meta_chunk *chunk)
{
	return object_list_add(arg, chunk->id.object);
}

static int sum_attr(void *arg, const char *name, size_t len, const void *value,
		    size_t value_len)
{
	(void)value;
	(void)value_len;
	if (!rebuild_is_sum_attr(name, len))
		return 0;
	memcpy(arg, name, len);
	return 1;
}

static int drop_sums(struct meta_txn *txn, uint64_t object)
{
	char name[SUM_ATTR_BYTES];
	int error;

	do {
		name[0] = 0;
		error = meta_attr_each(txn, object, sum_attr, name);
		if (error >= 0 && name[0])
			error = meta_attr_del(txn, object, name, sizeof(name));
	} while (error >= 0 && name[0]);
	return error < 0 ? error : 0;
}

int rebuild_chunks(struct rebuild *rebuild)
{
	struct object_list objects = {0};
	struct meta_txn *txn;
	int error = meta_begin_read(rebuild->cache->meta, &txn);

	if (error)
		return error;
	if (rebuild->cache->buckets)
		error = meta_chunk_each(txn, META_DISK, 0, 0, note_object,
					&objects);
	meta_abort(txn);
	for (size_t i = 0; error >= 0 && i < objects.count; i++) {
		struct cache_garbage garbage = {0};

		error = rebuild_step(rebuild);
		if (!error)
			error = object_sweep(rebuild->cache, rebuild->txn,
					     objects.all[i], &garbage);
		if (!error)
			error = drop_sums(rebuild->txn, objects.all[i]);
		/* What is live in a bucket is set at once, later. */
		cache_garbage_drop(&garbage);
	}
	free(objects.all);
	return error < 0 ? error : rebuild_flush(rebuild);
}
