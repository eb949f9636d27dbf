/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/batch.h"
#include "cache/names.h"
#include "cache/rows.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "tools/lib/fault.h"
#include "tools/lib/log.h"

/* ---- chunks ---- */

/* A chunk that was superseded or deleted while it was written gets no row on
 * disk. */
static int finish_chunk(struct batch *batch, struct meta_txn *txn, unsigned i)
{
	struct batch_chunk *chunk = &batch->chunks[i];
	const struct bucket_place *place = &batch->records[i].place;
	const struct chunk_id *id = &chunk->slot.id;
	struct meta_chunk row;
	uint32_t flags;
	int error = meta_chunk_get(txn, META_MEMORY, id->object, id->index,
				   id->version.clock, &row);

	chunk->there = !error && chunk_id_equal(&row.id, id) &&
		       row_wanted(batch->cache, txn, &row);
	if (!chunk->there)
		return error < 0 ? error : 0;
	flags = row.flags;
	row = (struct meta_chunk){
		.id = *id,
		.len_bytes = chunk->slot.len_bytes,
		.bucket = place->bucket,
		.data_block = place->data_block,
		.flags = flags,
		.checksums = chunk->checksums,
	};
	error = meta_chunk_put(txn, META_DISK, &row);
	return error ? error
		     : meta_bucket_add(txn, place->bucket,
				       (int64_t)round_up_block(row.len_bytes));
}

/* ---- names, before the records are in a bucket ---- */

/* From now on a bucket may hold what the record says of this name: whoever
 * takes the name away has to tell the journal so.  Where that has happened
 * since the snapshot, he did not know, and we tell. */
static int announce_name(struct batch *batch, struct meta_txn *txn,
			 const struct batch_page *page)
{
	struct cache_name name = {page->dir, page->name, page->name_len};
	struct meta_entry entry;
	int error = meta_name_get(txn, name.dir, name.name, name.len, &entry);

	if (error == META_ABSENT)
		return cache_fact_gone(batch->cache, txn, &name);
	if (error || !(entry.flags & META_NAME_NEW))
		return error;
	entry.flags &= ~(uint32_t)META_NAME_NEW;
	return meta_name_put(txn, name.dir, name.name, name.len, &entry);
}

static bool must_announce(const struct batch_page *page)
{
	return page->complete && page->name_new;
}

static int announce_in(struct batch *batch, struct meta_txn *txn)
{
	int error = 0;

	for (size_t i = 0; !error && i < batch->page_count; i++)
		if (must_announce(&batch->pages[i]))
			error = announce_name(batch, txn, &batch->pages[i]);
	return error;
}

int batch_announce(struct batch *batch)
{
	struct meta_txn *txn;
	bool any = false;
	int error;

	for (size_t i = 0; !any && i < batch->page_count; i++)
		any = must_announce(&batch->pages[i]);
	if (!any)
		return 0;
	error = meta_begin_write(batch->cache->meta, &txn);
	if (error)
		return error;
	error = announce_in(batch, txn);
	if (!error)
		return cache_commit(batch->cache, txn);
	meta_abort(txn);
	return error;
}

/* ---- names, after it ---- */

struct finishing {
	struct batch *batch;
	struct meta_txn *txn;
	const struct batch_page *page;
};

/* A name of the page, now that all of it is on disk.  What has taken a name
 * away since the snapshot, or put something else there, has told the journal
 * or will (batch_announce()). */
static int finish_name(void *arg, const struct object_name *name)
{
	struct finishing *finishing = arg;
	struct cache *cache = finishing->batch->cache;
	const struct batch_page *page = finishing->page;
	struct cache_name at = {name->dir, name->name, name->len};
	bool written = name->dir == page->dir && name->len == page->name_len &&
		       memcmp(name->name, page->name, name->len) == 0;
	struct meta_entry entry = name->entry;
	int error = 0;

	if (entry.version.clock != page->clock)
		return 0;
	entry.flags &= ~(uint32_t)META_NAME_NEW;
	entry.flags |= META_ON_DISK;
	/* The record told of one name, as it was then. */
	if (!written || entry.ctime_ns != page->ctime_ns)
		error = cache_fact_set(cache, finishing->txn, &at, &entry);
	return error ? error
		     : meta_name_put(finishing->txn, at.dir, at.name, at.len,
				     &entry);
}

static int finish_page(struct batch *batch, struct meta_txn *txn,
		       const struct batch_page *page)
{
	struct finishing finishing = {batch, txn, page};
	int error = 0;

	if (!page->gone && !page->complete)
		return 0;
	if (!page->gone)
		error = object_each_name(txn, page->object, finish_name,
					 &finishing);
	if (error)
		return error;
	error = meta_pending_del(txn, page->clock);
	return error < 0 ? error : 0;
}

/* ---- the batch ---- */

static int any_pending(void *arg, const struct meta_pending *row)
{
	(void)row;
	*(bool *)arg = true;
	return 1;
}

static int finish_in(struct batch *batch, struct meta_txn *txn)
{
	/* A stale row does not mean that its chunk is still wanted. */
	int error = stale_sweep(batch->cache->stale, txn);

	for (unsigned i = 0; !error && i < batch->chunk_count; i++)
		error = finish_chunk(batch, txn, i);
	for (size_t i = 0; error >= 0 && i < batch->fact_count; i++)
		error = meta_pending_del(txn, batch->facts[i]);
	for (size_t i = 0; error >= 0 && i < batch->page_count; i++)
		error = finish_page(batch, txn, &batch->pages[i]);
	return error < 0 ? error : 0;
}

/* Of a page that was deleted, and of a commit that failed, nobody knows the
 * size any more. */
static void count_empty(struct cache *cache, struct meta_txn *txn)
{
	bool pending = false;

	if (meta_pending_each(txn, 0, any_pending, &pending) < 0 || pending)
		return;
	atomic_store(&cache->counters->pending_pages, 0);
	atomic_store(&cache->counters->pending_bytes, 0);
}

void batch_recount(struct batch *batch)
{
	struct cache *cache = batch->cache;
	struct meta_txn *txn;

	if (!atomic_load(&cache->counters->pending_pages) &&
	    !atomic_load(&cache->counters->pending_bytes))
		return;
	/* A write transaction: nobody counts up meanwhile. */
	if (meta_begin_write(cache->meta, &txn) != 0)
		return;
	count_empty(cache, txn);
	meta_abort(txn);
}

static void subtract(_Atomic uint64_t *counter, uint64_t n)
{
	uint64_t value = atomic_load(counter);

	/* Commits add within transactions, this subtracts within one, so
	 * nobody comes between. */
	atomic_store(counter, value > n ? value - n : 0);
}

static void count(struct batch *batch, struct meta_txn *txn)
{
	struct cache_counters *counters = batch->cache->counters;

	for (size_t i = 0; i < batch->page_count; i++) {
		const struct batch_page *page = &batch->pages[i];

		if (!page->complete && !page->gone)
			continue;
		subtract(&counters->pending_pages, 1);
		subtract(&counters->pending_bytes, page->stored_bytes);
		CACHE_COUNT(batch->cache, written_pages, page->complete);
	}
	CACHE_COUNT(batch->cache, written_bytes, batch->bytes);
	count_empty(batch->cache, txn);
}

/* A page that is dropped here has no name the next time, and its row goes. */
static void lose(struct batch *batch)
{
	for (size_t i = 0; i < batch->page_count; i++) {
		const struct batch_page *page = &batch->pages[i];

		if (page->lost &&
		    cache_page_lost(batch->cache, page->object) == 0)
			log_warning("%.*s: lost before it was written to "
				    "disk: its memory was damaged",
				    (int)page->key_bytes, page->key);
	}
}

int batch_finish(struct batch *batch)
{
	struct cache *cache = batch->cache;
	struct meta_txn *txn;
	int error = fault_point("cache.batch_finish");

	if (!error)
		error = meta_begin_write(cache->meta, &txn);
	if (!error) {
		error = finish_in(batch, txn);
		if (error) {
			meta_abort(txn);
		} else {
			count(batch, txn);
			error = cache_commit(cache, txn);
		}
	}
	for (unsigned i = 0; i < batch->chunk_count; i++) {
		const struct batch_chunk *chunk = &batch->chunks[i];

		if (!error && chunk->there)
			arena_set_dirty(cache->arena, chunk->slot.slot, false);
		else
			bucket_forget(cache->buckets, &batch->records[i].place);
	}
	if (!error)
		lose(batch);
	return error;
}
