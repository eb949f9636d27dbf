/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Names that are listed at a time. */
#define BATCH 64u

struct batch {
	struct {
		char name[NAME_MAX_BYTES];
		size_t len;
		bool directory;
		uint64_t object;
	} names[BATCH];
	unsigned count;
};

static int add_to_batch(void *arg, uint64_t hash, const char *name, size_t len,
			const struct meta_entry *entry)
{
	struct batch *batch = arg;

	(void)hash;
	memcpy(batch->names[batch->count].name, name, len);
	batch->names[batch->count].len = len;
	batch->names[batch->count].directory = entry->type == META_DIR;
	batch->names[batch->count].object = entry->object;
	return ++batch->count == BATCH;
}

static int list_batch(struct cache *cache, uint64_t dir, struct batch *ret)
{
	struct meta_txn *txn;
	int error = meta_begin_read(cache->meta, &txn);

	ret->count = 0;
	if (error)
		return error;
	error = meta_list(txn, dir, 0, NULL, 0, add_to_batch, ret);
	meta_abort(txn);
	return error < 0 ? error : 0;
}

/* Not through the kernel, so it has to be told. */
static void tell(struct cache *cache, const struct cache_name *name)
{
	if (cache->config.changed)
		cache->config.changed(cache->config.changed_arg, name);
}

static int purge_file(struct cache *cache, const struct cache_name *name)
{
	int error;

	names_shown(cache, name);
	error = cache_unlink(cache, name);
	tell(cache, name);
	return error;
}

static int purge_below(struct cache *cache, uint64_t dir, unsigned *budget);

static int purge_dir(struct cache *cache, const struct cache_name *name,
		     uint64_t dir, unsigned *budget)
{
	int error = purge_below(cache, dir, budget);

	if (error)
		return error;
	error = cache_rmdir(cache, name);
	tell(cache, name);
	return error;
}

static int purge_batch(struct cache *cache, uint64_t dir,
		       const struct batch *batch, unsigned *budget)
{
	for (unsigned i = 0; i < batch->count; i++) {
		struct cache_name name = {.dir = dir,
					  .name = batch->names[i].name,
					  .len = batch->names[i].len};
		int error;

		if (!*budget)
			return CACHE_MORE;
		--*budget;
		error = batch->names[i].directory
				? purge_dir(cache, &name,
					    batch->names[i].object, budget)
				: purge_file(cache, &name);
		/* Somebody else was faster. */
		if (error && error != CACHE_MISS)
			return error;
	}
	return 0;
}

/* Recursion ends with the key: KEY_MAX_BYTES / 2 levels, a batch each on the
 * heap. */
static int purge_below(struct cache *cache, uint64_t dir, unsigned *budget)
{
	struct batch *batch = malloc(sizeof(*batch));
	int error = batch ? 0 : -ENOMEM;

	while (!error) {
		error = list_batch(cache, dir, batch);
		if (error || !batch->count)
			break;
		error = purge_batch(cache, dir, batch, budget);
	}
	free(batch);
	return error;
}

int cache_remove(struct cache *cache, const struct cache_name *name,
		 bool recursive, unsigned max)
{
	struct meta_entry entry;
	int error;

	if (!name)
		return recursive ? purge_below(cache, META_ROOT, &max)
				 : -EISDIR;
	names_shown(cache, name);
	error = names_find(cache, name, &entry);
	if (!error && entry.type == META_DIR && recursive)
		return purge_dir(cache, name, entry.object, &max);
	if (!error && entry.type == META_DIR) {
		error = cache_rmdir(cache, name);
		tell(cache, name);
		return error;
	}
	return purge_file(cache, name);
}
