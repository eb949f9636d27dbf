/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/page.h"

#include <errno.h>
#include <unistd.h>

/* Data is what chunks hold, up to their ends; all else of the page is hole. */

struct extent {
	uint64_t start, end;
};

/* The first extent of data that ends after `offset`: 0, META_ABSENT, or
 * -errno. */
static int extent_from(struct cache_page *page, struct meta_txn *txn,
		       uint64_t offset, struct extent *ret)
{
	const struct meta_entry *entry = &page->entry;
	uint64_t clock = entry->version.clock;
	uint64_t from = offset >> entry->chunk_shift;
	uint32_t index;
	int outcome;

	while (!(outcome = chunk_next(page->cache, txn, entry->object, clock,
				      from, &index))) {
		struct chunk_where where;

		outcome = chunk_find(page->cache, txn, entry->object, index,
				     clock, &where);
		if (outcome < 0)
			return outcome;
		from = (uint64_t)index + 1;
		if (outcome)
			continue;
		ret->start = (uint64_t)index << entry->chunk_shift;
		ret->end = ret->start + where.len_bytes;
		if (ret->end > entry->size_bytes)
			ret->end = entry->size_bytes;
		if (ret->end > offset && ret->start < ret->end)
			return 0;
	}
	return outcome;
}

static off_t seek_data(struct cache_page *page, struct meta_txn *txn,
		       uint64_t offset)
{
	struct extent extent;
	int outcome = extent_from(page, txn, offset, &extent);

	if (outcome)
		return outcome < 0 ? outcome : -ENXIO;
	return (off_t)(extent.start > offset ? extent.start : offset);
}

static off_t seek_hole(struct cache_page *page, struct meta_txn *txn,
		       uint64_t offset)
{
	struct extent extent;
	int outcome;

	while (!(outcome = extent_from(page, txn, offset, &extent)) &&
	       extent.start <= offset)
		offset = extent.end;
	return outcome < 0 ? outcome : (off_t)offset;
}

off_t cache_page_seek(struct cache_page *page, off_t offset, int whence)
{
	struct meta_txn *txn;
	off_t found = -EINVAL;
	int error;

	if (offset < 0 || (uint64_t)offset >= page->entry.size_bytes)
		return -ENXIO;
	error = meta_begin_read(page->cache->meta, &txn);
	if (error)
		return error;
	if (whence == SEEK_DATA)
		found = seek_data(page, txn, (uint64_t)offset);
	else if (whence == SEEK_HOLE)
		found = seek_hole(page, txn, (uint64_t)offset);
	meta_abort(txn);
	return found;
}
