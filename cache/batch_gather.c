/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/batch.h"
#include "cache/facts.h"
#include "cache/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/checksum.h"
#include "tools/lib/log.h"

/* store/ refuses more; our xattrs are bounded well below it. */
#define EXTRA_MAX_BYTES (72u << 10)

static void *grow(void *array, size_t *room, size_t count, size_t each)
{
	if (count < *room)
		return array;
	*room = *room ? 2 * *room : 64;
	return realloc(array, *room * each);
}

/* ---- facts ---- */

static int journal_add(struct batch *batch, const void *fact, size_t bytes)
{
	uint8_t *grown;

	if (batch->journal_bytes + bytes > batch->journal_room) {
		batch->journal_room = 2 * batch->journal_room + bytes;
		grown = realloc(batch->journal, batch->journal_room);
		if (!grown)
			return -ENOMEM;
		batch->journal = grown;
	}
	memcpy(batch->journal + batch->journal_bytes, fact, bytes);
	batch->journal_bytes += bytes;
	return 0;
}

static int add_fact(struct batch *batch, const struct meta_pending *row)
{
	uint64_t *grown = grow(batch->facts, &batch->fact_room,
			       batch->fact_count, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	batch->facts = grown;
	batch->facts[batch->fact_count++] = row->clock;
	return journal_add(batch, row->fact, row->fact_bytes);
}

/* ---- the chunks of a page ---- */

/* Of each index the newest row that is not newer than the page, in one tier. */
struct newest {
	uint64_t clock;
	struct meta_chunk *all; /* checksums: copied only for those taken */
	size_t count, room;
	int error;
};

static int newest_add(void *arg, const struct meta_chunk *chunk)
{
	struct newest *newest = arg;
	struct meta_chunk *grown;

	if (chunk->id.version.clock > newest->clock ||
	    !cache_chunk_current(chunk, newest->clock))
		return 0;
	if (newest->count &&
	    newest->all[newest->count - 1].id.index == chunk->id.index) {
		newest->all[newest->count - 1] = *chunk;
		return 0;
	}
	grown = grow(newest->all, &newest->room, newest->count, sizeof(*grown));
	if (!grown) {
		newest->error = -ENOMEM;
		return 1;
	}
	newest->all = grown;
	newest->all[newest->count++] = *chunk;
	return 0;
}

static int newest_of(struct meta_txn *txn, enum meta_tier tier, uint64_t object,
		     uint64_t clock, struct newest *ret)
{
	int error;

	*ret = (struct newest){.clock = clock};
	error = meta_chunk_each(txn, tier, object, 0, newest_add, ret);
	return error < 0 ? error : ret->error;
}

static int pin_chunk(struct batch *batch, const struct meta_chunk *row,
		     struct batch_chunk *ret)
{
	struct arena *arena = batch->cache->arena;
	size_t blocks = checksum_block_count(row->len_bytes);
	size_t bad = SIZE_MAX;

	/* Gone with its page since the snapshot, in eviction's hands for a
	 * moment, or lost: batch_finish() finds out which. */
	if (arena_pin_quietly(arena, row->slot, &row->id) != 0)
		return CACHE_MISS;
	ret->slot = (struct cache_slot){row->slot, row->id, row->len_bytes};
	ret->checksums = malloc((blocks + 1) * sizeof(*ret->checksums));
	if (!ret->checksums) {
		arena_unpin(arena, row->slot);
		return -ENOMEM;
	}
	for (size_t i = 0; i < blocks; i++)
		ret->checksums[i] = meta_checksum(row, i);
	/* What a crash left in memory is looked at before it is spread. */
	if (arena_unverified(arena, row->slot))
		bad = checksum_verify(arena_data(arena, row->slot),
				      row->len_bytes, chunk_seed(&row->id),
				      ret->checksums);
	if (bad == SIZE_MAX)
		return 0;
	free(ret->checksums);
	arena_free(arena, row->slot);
	arena_unpin(arena, row->slot);
	return CACHE_MISS;
}

static bool full(const struct batch *batch, uint32_t len_bytes)
{
	return batch->chunk_count == BATCH_RECORDS_MAX ||
	       (batch->chunk_count &&
		batch->bytes + len_bytes > batch->max_bytes);
}

static int add_chunk(struct batch *batch, const struct batch_page *page,
		     const struct meta_chunk *row)
{
	struct batch_chunk *chunk = &batch->chunks[batch->chunk_count];
	int error = pin_chunk(batch, row, chunk);

	if (error)
		return error;
	batch->records[batch->chunk_count++] = (struct bucket_record){
		.kind = BUCKET_CHUNK,
		.id = row->id,
		.key = page->key,
		.key_bytes = page->key_bytes,
		.checksums = chunk->checksums,
		.data = arena_data(batch->cache->arena, row->slot),
		.len_bytes = row->len_bytes,
	};
	batch->bytes += row->len_bytes;
	return 0;
}

/* The last record of the page tells its name; where no chunk is left to be
 * written (all were spilled, or belong to an older version, too), the
 * journal does. */
static int add_set(struct batch *batch, struct batch_page *page,
		   unsigned first_chunk)
{
	struct bucket_record *last;

	page->complete = true;
	if (batch->chunk_count == first_chunk ||
	    page->fact_bytes > EXTRA_MAX_BYTES)
		return journal_add(batch, page->fact, page->fact_bytes);
	last = &batch->records[batch->chunk_count - 1];
	last->extra = page->fact;
	last->extra_bytes = page->fact_bytes;
	return 0;
}

static int add_chunks(struct batch *batch, struct meta_txn *txn,
		      struct batch_page *page, uint32_t wanted)
{
	unsigned first_chunk = batch->chunk_count;
	struct newest memory = {0}, disk = {0};
	size_t j = 0, there = 0;
	int error =
		newest_of(txn, META_MEMORY, page->object, page->clock, &memory);

	if (!error)
		error = newest_of(txn, META_DISK, page->object, page->clock,
				  &disk);
	for (size_t i = 0; !error && i < memory.count; i++) {
		const struct meta_chunk *row = &memory.all[i];

		for (; j < disk.count && disk.all[j].id.index < row->id.index;
		     j++)
			there++;
		if (j < disk.count && disk.all[j].id.index == row->id.index) {
			bool same = disk.all[j++].id.version.clock >=
				    row->id.version.clock;
			if (same) {
				there++;
				continue;
			}
		}
		if (full(batch, row->len_bytes)) {
			batch->more = true;
			goto out;
		}
		error = add_chunk(batch, page, row);
		there += error == 0;
		if (error == CACHE_MISS)
			error = 0;
	}
	there += disk.count - j;
	if (!error && there < wanted)
		page->lost = true;
	else if (!error)
		error = add_set(batch, page, first_chunk);
out:
	free(memory.all);
	free(disk.all);
	return error;
}

/* ---- pages ---- */

struct naming {
	struct batch_page *page;
	struct meta_entry entry;
	bool found;
};

static int at_version(void *arg, const struct object_name *name)
{
	struct naming *naming = arg;
	struct batch_page *page = naming->page;

	if (name->entry.version.clock != page->clock)
		return 0;
	naming->entry = name->entry;
	naming->found = true;
	page->dir = name->dir;
	memcpy(page->name, name->name, name->len);
	page->name_len = name->len;
	return 1;
}

static int copy_key(struct meta_txn *txn, struct batch_page *page)
{
	struct cache_name name = {page->dir, page->name, page->name_len};
	char key[KEY_MAX_BYTES];
	int error = fact_key(txn, &name, key, &page->key_bytes);

	if (error)
		return error;
	page->key = malloc(page->key_bytes + 1);
	if (!page->key)
		return -ENOMEM;
	memcpy(page->key, key, page->key_bytes);
	return 0;
}

static int describe(struct batch *batch, struct meta_txn *txn,
		    struct batch_page *page, struct meta_entry *ret)
{
	struct naming naming = {.page = page};
	int error = object_each_name(txn, page->object, at_version, &naming);

	if (error < 0)
		return error;
	if (!naming.found) {
		page->gone = true;
		return 0;
	}
	page->ctime_ns = naming.entry.ctime_ns;
	page->name_new = naming.entry.flags & META_NAME_NEW;
	page->stored_bytes = naming.entry.stored_bytes;
	error = copy_key(txn, page);
	if (error > 0) {
		page->gone = true;
		return 0;
	}
	*ret = naming.entry;
	return error ? error
		     : fact_encode_set(batch->cache, txn, page->key,
				       page->key_bytes, &batch->at,
				       &naming.entry, &page->fact,
				       &page->fact_bytes);
}

static int add_page(struct batch *batch, struct meta_txn *txn,
		    const struct meta_pending *row)
{
	struct batch_page *grown = grow(batch->pages, &batch->page_room,
					batch->page_count, sizeof(*grown));
	struct batch_page *page;
	struct meta_entry entry = {0};
	int error;

	if (!grown)
		return -ENOMEM;
	batch->pages = grown;
	page = &batch->pages[batch->page_count++];
	*page = (struct batch_page){.object = row->object, .clock = row->clock};
	error = describe(batch, txn, page, &entry);
	if (error || page->gone)
		return error;
	return add_chunks(batch, txn, page, entry.chunks);
}

/* ---- the batch ---- */

struct gathering {
	struct batch *batch;
	struct meta_txn *txn;
	int error;
};

static int gather_row(void *arg, const struct meta_pending *row)
{
	struct gathering *gathering = arg;
	struct batch *batch = gathering->batch;

	if (batch->more || batch->page_count == 4 * BATCH_RECORDS_MAX ||
	    batch->journal_bytes > BATCH_JOURNAL_MAX ||
	    full(batch, BLOCK_BYTES)) {
		batch->more = true;
		return 1;
	}
	if (batch->facts_only && row->kind != META_PENDING_FACT)
		return 0;
	if (row->kind == META_PENDING_FACT)
		gathering->error = add_fact(batch, row);
	else
		gathering->error = add_page(batch, gathering->txn, row);
	return gathering->error != 0;
}

static int gather_in(struct batch *batch, struct meta_txn *txn)
{
	struct gathering gathering = {batch, txn, 0};
	int error = meta_value_get(txn, "clock", &batch->at.clock,
				   sizeof(batch->at.clock));

	if (error < 0)
		return error;
	batch->at.node = batch->cache->hlc.node;
	error = meta_pending_each(txn, 0, gather_row, &gathering);
	return error < 0 ? error : gathering.error;
}

static int gather(struct cache *cache, struct batch *batch, bool facts_only)
{
	struct meta_txn *txn;
	int error;

	memset(batch, 0, sizeof(*batch));
	batch->cache = cache;
	batch->facts_only = facts_only;
	/* A bucket at a time: room is made for no more. */
	batch->max_bytes = bucket_limit_bytes(cache->buckets);
	if (batch->max_bytes > BATCH_BYTES_MAX)
		batch->max_bytes = BATCH_BYTES_MAX;
	error = meta_begin_read(cache->meta, &txn);
	if (error)
		return error;
	error = gather_in(batch, txn);
	meta_abort(txn);
	if (error)
		return error;
	batch->record_count = batch->chunk_count;
	if (batch->journal_bytes)
		batch->records[batch->record_count++] = (struct bucket_record){
			.kind = BUCKET_JOURNAL,
			.data = batch->journal,
			.len_bytes = (uint32_t)batch->journal_bytes,
		};
	return 0;
}

int batch_gather(struct cache *cache, struct batch *batch)
{
	return gather(cache, batch, false);
}

int batch_gather_facts(struct cache *cache, struct batch *batch)
{
	return gather(cache, batch, true);
}

bool batch_empty(const struct batch *batch)
{
	return !batch->page_count && !batch->fact_count;
}

bool batch_gets_on(const struct batch *batch)
{
	bool on = batch->record_count || batch->fact_count;

	for (size_t i = 0; i < batch->page_count; i++)
		on |= !batch->pages[i].lost;
	return on;
}

void batch_release(struct batch *batch)
{
	for (unsigned i = 0; i < batch->chunk_count; i++) {
		free(batch->chunks[i].checksums);
		arena_unpin(batch->cache->arena, batch->chunks[i].slot.slot);
	}
	for (size_t i = 0; i < batch->page_count; i++) {
		free(batch->pages[i].key);
		free(batch->pages[i].fact);
	}
	free(batch->pages);
	free(batch->facts);
	free(batch->journal);
	memset(batch, 0, sizeof(*batch));
}
