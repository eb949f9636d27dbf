/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/stage.h"

#include <errno.h>
#include <stdlib.h>

/* ---- which indexes have rows ---- */

static int indexes_add(void *arg, const struct meta_chunk *row)
{
	struct stage_indexes *indexes = arg;

	if (row->id.index >= indexes->end)
		return 1;
	if (indexes->count == indexes->room) {
		size_t room = indexes->room ? 2 * indexes->room : 64;
		uint32_t *more = realloc(indexes->all, room * sizeof(*more));

		if (!more) {
			indexes->error = -ENOMEM;
			return 1;
		}
		indexes->all = more;
		indexes->room = room;
	}
	indexes->all[indexes->count++] = row->id.index;
	return 0;
}

static int index_compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void indexes_unique(struct stage_indexes *indexes)
{
	size_t kept = 0;

	if (indexes->count)
		qsort(indexes->all, indexes->count, sizeof(*indexes->all),
		      index_compare);
	for (size_t i = 0; i < indexes->count; i++)
		if (!kept || indexes->all[kept - 1] != indexes->all[i])
			indexes->all[kept++] = indexes->all[i];
	indexes->count = kept;
}

int stage_indexes_of(struct cache *cache, struct meta_txn *txn, uint64_t object,
		     uint32_t first, uint32_t end, struct stage_indexes *ret)
{
	int error;

	*ret = (struct stage_indexes){.end = end};
	if (first >= end)
		return 0;
	error = meta_chunk_each(txn, META_MEMORY, object, first, indexes_add,
				ret);
	if (error >= 0 && cache->buckets)
		error = meta_chunk_each(txn, META_DISK, object, first,
					indexes_add, ret);
	indexes_unique(ret);
	return error < 0 ? error : ret->error;
}

/* ---- holes over old rows ---- */

/*
 * A page at a version is, for each index, the newest row that is not newer:
 * so a hole above a row of an older version (cut off, and the page grew
 * again) needs a row of its own, a short chunk of zeroes.
 */
int stage_cover_leftovers(struct cache_staging *staging, uint64_t deadline_ns)
{
	uint32_t first = stage_chunks_of(staging, staging->base_limit);
	uint32_t end = stage_chunks_of(staging, staging->entry.size_bytes);
	struct stage_indexes left;
	struct meta_txn *txn;
	int error;

	if (!staging->has_base || first >= end)
		return 0;
	error = meta_begin_read(staging->cache->meta, &txn);
	if (error)
		return error;
	error = stage_indexes_of(staging->cache, txn, staging->base.object,
				 first, end, &left);
	meta_abort(txn);
	for (size_t i = 0; !error && i < left.count; i++)
		if (!stage_chunk_find(staging, left.all[i]))
			error = stage_write_piece(staging, left.all[i], 0, NULL,
						  1, deadline_ns);
	free(left.all);
	return error;
}
