/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/page.h"

#include <errno.h>
#include <stdlib.h>

/* Two pieces a chunk: its bytes, and zeroes. */
#define PIECES_USUAL 8

/* How far ahead of a serial reader chunks are fetched: so many bytes, but at
 * least one chunk, and at most this part of the arena's pins. */
#define AHEAD_BYTES (UINT64_C(16) << 20)
#define AHEAD_PART 16u

/* ---- pieces ---- */

struct pieces {
	const void *zeroes;
	struct iovec *iov;
	int count;
};

static void add(struct pieces *pieces, const void *data, size_t len)
{
	if (len)
		pieces->iov[pieces->count++] =
			(struct iovec){(void *)(uintptr_t)data, len};
}

/* What [from, to) of a chunk shows: its bytes, and past their end zeroes. A
 * chunk is at most as long as the zeroes. */
static void add_chunk(struct pieces *pieces, const char *data,
		      uint32_t len_bytes, uint64_t from, uint64_t to)
{
	uint64_t end = to < len_bytes ? to : len_bytes;

	if (from < end) {
		add(pieces, data + from, end - from);
		from = end;
	}
	add(pieces, pieces->zeroes, to - from);
}

/* ---- one read ---- */

struct page_read {
	struct cache_page *page;
	uint64_t offset;
	uint64_t end;
	cache_read_fn *done;
	void *arg;
	uint32_t first, count; /* chunks it touches */

	/* On demand; guarded by the pages' lock until all are there. */
	unsigned missing;
	int outcome;
	struct cache_slot *slots; /* SLOT_NONE: a hole */
};

static uint64_t chunk_bytes(const struct cache_page *page)
{
	return UINT64_C(1) << page->entry.chunk_shift;
}

/* Calls done with the chunks' bytes; of(i): the chunk of that index. */
static void show(struct page_read *read,
		 const char *(*of)(struct page_read *read, uint32_t i,
				   uint32_t *len))
{
	uint64_t chunk = chunk_bytes(read->page);
	struct iovec usual[PIECES_USUAL] = {{0}};
	struct pieces pieces = {
		.zeroes = read->page->cache->pages->zeroes,
		.iov = usual,
	};

	if (read->count > PIECES_USUAL / 2)
		pieces.iov =
			calloc(2 * (size_t)read->count, sizeof(struct iovec));
	if (!pieces.iov) {
		read->done(read->arg, -EIO, NULL, 0);
		return;
	}
	for (uint32_t i = 0; i < read->count; i++) {
		uint64_t start = (read->first + (uint64_t)i) * chunk;
		uint64_t from = read->offset > start ? read->offset - start : 0;
		uint64_t to = read->end - start;
		uint32_t len_bytes = 0;
		const char *data = of(read, i, &len_bytes);

		add_chunk(&pieces, data, len_bytes, from,
			  to < chunk ? to : chunk);
	}
	read->done(read->arg, (ssize_t)(read->end - read->offset), pieces.iov,
		   pieces.count);
	if (pieces.iov != usual)
		free(pieces.iov);
}

/* ---- pinned pages ---- */

static const struct page_chunk *find_chunk(const struct cache_page *page,
					   uint32_t index)
{
	uint32_t low = 0, high = page->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (page->chunks[middle].index < index)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == page->count || page->chunks[low].index != index)
		return NULL;
	return &page->chunks[low];
}

static const char *pinned_chunk(struct page_read *read, uint32_t i,
				uint32_t *ret_len)
{
	const struct page_chunk *chunk =
		find_chunk(read->page, read->first + i);

	if (!chunk)
		return NULL;
	*ret_len = chunk->len_bytes;
	return arena_data(read->page->cache->arena, chunk->slot);
}

/* ---- on demand ---- */

static const char *fetched_chunk(struct page_read *read, uint32_t i,
				 uint32_t *ret_len)
{
	const struct cache_slot *slot = &read->slots[i];

	if (slot->slot == SLOT_NONE)
		return NULL;
	*ret_len = slot->len_bytes;
	return arena_data(read->page->cache->arena, slot->slot);
}

static void finish(struct page_read *read)
{
	struct cache_page *page = read->page;

	if (!read->outcome)
		show(read, fetched_chunk);
	else
		read->done(read->arg,
			   read->outcome == CACHE_BUSY ? -ETIMEDOUT : -EIO,
			   NULL, 0);
	for (uint32_t i = 0; i < read->count; i++)
		if (read->slots[i].slot != SLOT_NONE)
			arena_unpin(page->cache->arena, read->slots[i].slot);
	free(read->slots);
	free(read);
	cache_page_close(page);
}

/* slot NULL and outcome 0: the starter's share of `missing`. */
static void chunk_there(void *arg, int outcome, const struct cache_slot *slot)
{
	struct page_read *read = arg;
	struct pages *pages = read->page->cache->pages;
	bool last;

	pthread_mutex_lock(&pages->lock);
	if (slot)
		read->slots[slot->id.index - read->first] = *slot;
	else if (outcome && outcome != CACHE_HOLE)
		read->outcome = outcome;
	last = --read->missing == 0;
	pthread_mutex_unlock(&pages->lock);
	if (last)
		finish(read);
}

/* The read keeps the page open: its caller may close it before the end. */
static void read_on_demand(const struct page_read *wanted)
{
	struct cache_page *page = wanted->page;
	const struct meta_entry *entry = &page->entry;
	struct slot_class owner = page_owner(entry);
	struct page_read *read = malloc(sizeof(*read));
	uint32_t first = wanted->first, count = wanted->count;

	if (read) {
		*read = *wanted;
		read->slots = malloc(count * sizeof(read->slots[0]));
	}
	if (!read || !read->slots) {
		free(read);
		wanted->done(wanted->arg, -EIO, NULL, 0);
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		read->slots[i].slot = SLOT_NONE;
	read->missing = count + 1;
	cache_page_ref(page);
	for (uint32_t i = 0; i < count; i++)
		cache_chunk_fetch(page->cache, &owner, entry->object, first + i,
				  entry->version.clock, chunk_there, read);
	chunk_there(read, 0, NULL);
}

/* ---- read-ahead ---- */

static void ahead_there(void *arg, int outcome, const struct cache_slot *slot)
{
	struct cache_page *page = arg;

	(void)outcome;
	if (slot)
		arena_unpin(page->cache->arena, slot->slot);
	cache_page_close(page);
}

static uint64_t ahead_chunks(const struct cache_page *page)
{
	uint64_t bytes = page->cache->pages->pin_max_bytes / AHEAD_PART;

	if (bytes > AHEAD_BYTES)
		bytes = AHEAD_BYTES;
	bytes >>= page->entry.chunk_shift;
	return bytes ? bytes : 1;
}

/* A hint that comes too late or twice does no harm: fetches are shared. */
static void read_ahead(struct cache_page *page, const struct page_read *read)
{
	const struct meta_entry *entry = &page->entry;
	struct slot_class owner = page_owner(entry);
	uint64_t from = (uint64_t)read->first + read->count;
	uint64_t to = from + ahead_chunks(page);
	uint64_t done =
		atomic_load_explicit(&page->ahead_index, memory_order_relaxed);
	bool serial =
		atomic_exchange_explicit(&page->next_offset, read->end,
					 memory_order_relaxed) == read->offset;

	if (!serial || fetches_hungry(page->cache->fetches))
		return;
	if (to > page_indexes(entry))
		to = page_indexes(entry);
	if (done > from && done <= to)
		from = done;
	if (from >= to)
		return;
	atomic_store_explicit(&page->ahead_index, to, memory_order_relaxed);
	for (uint64_t i = from; i < to; i++) {
		cache_page_ref(page);
		cache_chunk_fetch(page->cache, &owner, entry->object,
				  (uint32_t)i, entry->version.clock,
				  ahead_there, page);
	}
}

void cache_page_read(struct cache_page *page, uint64_t offset, size_t len_bytes,
		     cache_read_fn *done, void *arg)
{
	const struct meta_entry *entry = &page->entry;
	struct page_read read = {
		.page = page,
		.offset = offset,
		.done = done,
		.arg = arg,
	};

	if (offset >= entry->size_bytes || !len_bytes) {
		done(arg, 0, NULL, 0);
		return;
	}
	read.end = entry->size_bytes - offset < len_bytes ? entry->size_bytes
							  : offset + len_bytes;
	read.first = (uint32_t)(offset >> entry->chunk_shift);
	read.count = (uint32_t)((read.end - 1) >> entry->chunk_shift) -
		     read.first + 1;
	if (!page->on_demand) {
		show(&read, pinned_chunk);
		return;
	}
	read_on_demand(&read);
	read_ahead(page, &read);
}
