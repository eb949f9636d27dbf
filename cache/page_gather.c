/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/page.h"

#include <errno.h>
#include <stdlib.h>

/* With more chunks than this, the rows are walked instead of asked for. */
#define INDEXES_ASKED 64u

/* How often a page is gathered anew because a chunk moved between the tiers
 * meanwhile: each try can only fail that way if it moves again. */
#define TRIES 4

#define GATHER_AGAIN 100 /* a chunk was nowhere: it moves, or is lost */

struct gather {
	struct cache_page *page;
	struct meta_txn *txn;
	struct slot_class owner;
	struct fetch *fetches;
	uint32_t found;
};

void page_unpin(struct cache_page *page)
{
	for (uint32_t i = 0; i < page->count; i++)
		arena_unpin(page->cache->arena, page->chunks[i].slot);
	page->count = 0;
}

/* In memory: pinned; on disk: to be fetched. */
static int take_chunk(struct gather *gather, const struct chunk_where *where)
{
	struct cache_page *page = gather->page;
	struct cache_slot slot;
	struct fetch *fetch;

	if (!chunk_pin(page->cache, where, &slot) ||
	    !fetch_pin_loaded(page->cache->fetches, &where->id, &slot)) {
		page->chunks[page->count++] = (struct page_chunk){
			.index = slot.id.index,
			.len_bytes = slot.len_bytes,
			.slot = slot.slot,
		};
		return 0;
	}
	if (!where->on_disk)
		return GATHER_AGAIN;
	fetch = fetch_prepare(page->cache, &gather->owner, where);
	if (!fetch)
		return CACHE_BUSY;
	*fetch_next(fetch) = gather->fetches;
	gather->fetches = fetch;
	return 0;
}

static int look_at(struct gather *gather, uint32_t index)
{
	struct cache_page *page = gather->page;
	struct chunk_where where;
	int outcome = chunk_find(page->cache, gather->txn, page->entry.object,
				 index, page->entry.version.clock, &where);

	if (outcome == CACHE_HOLE)
		return 0;
	if (outcome < 0)
		return CACHE_BUSY;
	gather->found++;
	if (page->on_demand)
		return 0;
	if (gather->found > page->room)
		return GATHER_AGAIN; /* more than the entry says */
	return take_chunk(gather, &where);
}

/* ---- pages of many chunks, sparse ones above all ---- */

struct marks {
	uint64_t clock;
	uint64_t count;
	uint64_t *bits;
};

static int mark(void *arg, const struct meta_chunk *row)
{
	struct marks *marks = arg;
	uint32_t index = row->id.index;

	if (index < marks->count && row->id.version.clock <= marks->clock &&
	    cache_chunk_current(row, marks->clock) && row->len_bytes)
		marks->bits[index / 64] |= UINT64_C(1) << index % 64;
	return 0;
}

static int mark_rows(struct gather *gather, struct marks *marks)
{
	struct cache_page *page = gather->page;
	uint64_t object = page->entry.object;
	int error = meta_chunk_each(gather->txn, META_MEMORY, object, 0, mark,
				    marks);

	if (!error && page->cache->buckets)
		error = meta_chunk_each(gather->txn, META_DISK, object, 0, mark,
					marks);
	return error ? CACHE_BUSY : 0;
}

static int look_at_marked(struct gather *gather, const struct marks *marks)
{
	for (uint64_t word = 0; word < (marks->count + 63) / 64; word++) {
		uint64_t bits = marks->bits[word];

		/* All that an on-demand page asks is whether they are there. */
		if (gather->page->on_demand) {
			gather->found += (uint32_t)__builtin_popcountll(bits);
			continue;
		}
		for (; bits; bits &= bits - 1) {
			uint32_t bit = (uint32_t)__builtin_ctzll(bits);
			int outcome =
				look_at(gather, (uint32_t)(word * 64) + bit);

			if (outcome)
				return outcome;
		}
	}
	return 0;
}

static int look_at_many(struct gather *gather, uint64_t count)
{
	struct marks marks = {
		.clock = gather->page->entry.version.clock,
		.count = count,
		.bits = calloc((count + 63) / 64, sizeof(uint64_t)),
	};
	int outcome = marks.bits ? mark_rows(gather, &marks) : CACHE_BUSY;

	if (!outcome)
		outcome = look_at_marked(gather, &marks);
	free(marks.bits);
	return outcome;
}

/* ---- one try ---- */

/* First, so that the name's snapshot is not newer than the chunks'. */
static int check_name(struct gather *gather, const struct cache_name *name)
{
	struct meta_entry *entry = &gather->page->entry;
	struct meta_entry now;
	int outcome = meta_name_get(gather->txn, name->dir, name->name,
				    name->len, &now);

	if (outcome < 0)
		return CACHE_BUSY;
	if (outcome || now.type != META_FILE || now.object != entry->object ||
	    page_version_compare(&now.version, &entry->version))
		return CACHE_STALE;
	*entry = now;
	return 0;
}

static int look_at_all(struct gather *gather)
{
	const struct meta_entry *entry = &gather->page->entry;
	uint64_t count = page_indexes(entry);
	int outcome = 0;

	if (count > INDEXES_ASKED)
		outcome = look_at_many(gather, count);
	else
		for (uint32_t i = 0; i < count && !outcome; i++)
			outcome = look_at(gather, i);
	if (!outcome && gather->found < entry->chunks)
		outcome = GATHER_AGAIN;
	return outcome;
}

static int gather_once(struct gather *gather, const struct cache_name *name)
{
	struct cache_page *page = gather->page;
	int outcome;

	gather->found = 0;
	if (meta_begin_read(page->cache->meta, &gather->txn))
		return CACHE_BUSY;
	outcome = check_name(gather, name);
	if (!outcome)
		outcome = look_at_all(gather);
	meta_abort(gather->txn);
	if (outcome) {
		page_unpin(page);
		fetch_drop_all(gather->fetches);
		gather->fetches = NULL;
	}
	return outcome;
}

int page_gather(struct cache_page *page, const struct cache_name *name,
		struct fetch **ret_fetches)
{
	struct gather gather = {
		.page = page,
		.owner = page_owner(&page->entry),
	};
	int outcome = gather_once(&gather, name);

	for (int i = 1; i < TRIES && outcome == GATHER_AGAIN; i++) {
		evict_settle(page->cache);
		outcome = gather_once(&gather, name);
	}
	if (outcome == GATHER_AGAIN) {
		outcome = cache_page_lost(page->cache, page->entry.object);
		return outcome < 0 ? CACHE_BUSY : CACHE_MISS;
	}
	*ret_fetches = gather.fetches;
	return outcome;
}
