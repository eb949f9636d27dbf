/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/page.h"

#include <stdlib.h>
#include <string.h>

#include "tools/lib/clock.h"

/* Somebody who waits for a page that is OPENING. */
struct opener {
	struct list link;
	cache_opened_fn *opened;
	void *arg;
	uint64_t dir;
	size_t name_len;
	char name[];
};

static struct opener *opener_new(const struct cache_name *name,
				 cache_opened_fn *opened, void *arg)
{
	struct opener *opener = malloc(sizeof(*opener) + name->len);

	if (!opener)
		return NULL;
	opener->opened = opened;
	opener->arg = arg;
	opener->dir = name->dir;
	opener->name_len = name->len;
	memcpy(opener->name, name->name, name->len);
	return opener;
}

static void page_free(struct pages_node *node)
{
	free(list_entry(node, struct cache_page, node));
}

static struct cache_page *
page_new(struct cache *cache, const struct meta_entry *entry, bool on_demand)
{
	uint32_t room = on_demand ? 0 : entry->chunks;
	struct cache_page *page =
		malloc(sizeof(*page) + room * sizeof(struct page_chunk));

	if (!page)
		return NULL;
	memset(page, 0, sizeof(*page));
	page->node.object = entry->object;
	page->node.clock = entry->version.clock;
	page->node.refs = 1;
	page->node.page = true;
	page->node.free = page_free;
	page->cache = cache;
	page->on_demand = on_demand;
	page->entry = *entry;
	page->room = room;
	list_init(&page->openers);
	return page;
}

/* ---- the budget of pins ---- */

/* 0: its chunks may be pinned, or are to be read on demand; CACHE_BUSY. Under
 * the lock. */
static int choose_mode(struct pages *pages, const struct meta_entry *entry,
		       bool *ret_on_demand)
{
	const struct cache *cache = pages->cache;
	uint64_t bytes = entry->stored_bytes;
	bool large = bytes > cache->config.open_fetch_max_bytes;

	*ret_on_demand = false;
	if (!large && pages->pinned_bytes + bytes <= pages->pin_max_bytes)
		return 0;
	/* What has no other copy yet isn't evicted before it has one, so a
	 * page that is large, or would never fit, needs no pins for that. */
	large = large || bytes > pages->last_max_bytes;
	if (entry->flags & META_ON_DISK || (large && cache->buckets)) {
		*ret_on_demand = true;
		return 0;
	}
	if (pages->pinned_bytes + bytes <= pages->last_max_bytes)
		return 0;
	return CACHE_BUSY;
}

static void unreserve(struct pages *pages, struct cache_page *page)
{
	pages->pinned_bytes -= page->reserved_bytes;
	page->reserved_bytes = 0;
}

/* ---- the end of an open ---- */

static void count_outcome(struct cache *cache, int outcome)
{
	switch (outcome) {
	case CACHE_MISS:
		CACHE_COUNT(cache, misses, 1);
		break;
	case CACHE_FAILED:
		CACHE_COUNT(cache, failures, 1);
		break;
	case CACHE_STALE:
		CACHE_COUNT(cache, stale, 1);
		break;
	default:
		CACHE_COUNT(cache, busy, 1);
	}
}

/* The negative cache knows before the caller does, so that the look-up that
 * the caller provokes finds it; it holds the entry until then. */
static void refuse(struct cache *cache, const struct cache_name *name,
		   int outcome, cache_opened_fn *opened, void *arg)
{
	count_outcome(cache, outcome);
	if (outcome == CACHE_FAILED) {
		negative_insert(cache->negative,
				negative_key(name->dir, name->name, name->len),
				clock_monotonic_ns(), true);
		cache_changed(cache, name);
	}
	opened(arg, outcome, NULL);
}

/* A get that succeeds ends what one that failed has begun. */
static void show_again(struct cache *cache, const struct cache_name *name)
{
	if (negative_remove(cache->negative,
			    negative_key(name->dir, name->name, name->len)))
		cache_changed(cache, name);
}

static void answer_openers(struct cache_page *page, struct list *openers,
			   int outcome)
{
	struct cache *cache = page->cache;

	list_for_each_safe (node, openers) {
		struct opener *opener = list_entry(node, struct opener, link);
		struct cache_name name = {opener->dir, opener->name,
					  opener->name_len};

		if (outcome) {
			refuse(cache, &name, outcome, opener->opened,
			       opener->arg);
		} else {
			CACHE_COUNT(cache, hits_disk, 1);
			show_again(cache, &name);
			opener->opened(opener->arg, 0, page);
		}
		free(opener);
	}
}

static void page_release(struct cache_page *page)
{
	struct cache *cache = page->cache;

	page_unpin(page);
	CACHE_COUNT(cache, open_pages, (uint64_t)-1);
	pages_retire(cache->pages, &page->node);
	if (fetches_hungry(cache->fetches))
		evictor_kick(cache->evictor);
}

static int by_index(const void *a, const void *b)
{
	const struct page_chunk *left = a, *right = b;

	return left->index < right->index ? -1 : left->index > right->index;
}

/* Everything is there, or something will never be. */
static void conclude(struct cache_page *page, int outcome)
{
	struct pages *pages = page->cache->pages;
	struct list openers;

	list_init(&openers);
	/* Nobody else looks at the chunks of a page that isn't READY. */
	qsort(page->chunks, page->count, sizeof(page->chunks[0]), by_index);
	pthread_mutex_lock(&pages->lock);
	list_splice_back(&openers, &page->openers);
	page->state = outcome ? PAGE_FAILED : PAGE_READY;
	page->node.hits = outcome ? 0 : page->node.refs;
	if (outcome) {
		pages_remove(pages, &page->node);
		unreserve(pages, page);
	}
	pthread_mutex_unlock(&pages->lock);
	answer_openers(page, &openers, outcome);
	if (outcome)
		page_release(page);
}

static void chunk_fetched(void *arg, int outcome, const struct cache_slot *slot)
{
	struct cache_page *page = arg;
	struct pages *pages = page->cache->pages;
	bool last;

	pthread_mutex_lock(&pages->lock);
	if (outcome && page->outcome != CACHE_FAILED)
		page->outcome = outcome;
	if (slot)
		page->chunks[page->count++] = (struct page_chunk){
			.index = slot->id.index,
			.len_bytes = slot->len_bytes,
			.slot = slot->slot,
		};
	last = --page->missing == 0;
	outcome = page->outcome;
	pthread_mutex_unlock(&pages->lock);
	if (last)
		conclude(page, outcome);
}

/* ---- opening ---- */

static void fetch_all(struct cache_page *page, struct fetch *fetches,
		      struct opener *opener)
{
	struct pages *pages = page->cache->pages;
	struct fetch *fetch;

	pthread_mutex_lock(&pages->lock);
	list_push_front(&page->openers, &opener->link);
	page->missing = 1;
	for (fetch = fetches; fetch; fetch = *fetch_next(fetch))
		page->missing++;
	pthread_mutex_unlock(&pages->lock);
	while ((fetch = fetches) != NULL) {
		fetches = *fetch_next(fetch);
		fetch_begin(fetch, chunk_fetched, page);
	}
	chunk_fetched(page, 0, NULL); /* the starter's share of `missing` */
}

/* The page is in the table and ours to make ready. */
static void make_ready(struct cache_page *page, const struct cache_name *name,
		       cache_opened_fn *opened, void *arg)
{
	struct cache *cache = page->cache;
	struct fetch *fetches = NULL;
	struct opener *opener = NULL;
	int outcome = page_gather(page, name, &fetches);

	if (!outcome && fetches) {
		opener = opener_new(name, opened, arg);
		if (opener) {
			fetch_all(page, fetches, opener);
			return;
		}
		fetch_drop_all(fetches);
		outcome = CACHE_BUSY;
	}
	conclude(page, outcome);
	if (outcome) {
		refuse(cache, name, outcome, opened, arg);
	} else if (!page->entry.chunks) {
		CACHE_COUNT(cache, hits_empty, 1);
		opened(arg, 0, page);
	} else {
		CACHE_COUNT(cache, hits_memory, 1);
		opened(arg, 0, page);
	}
}

/* Under the lock: 0 and the page made and inserted, or CACHE_BUSY. */
static int insert_new(struct pages *pages, const struct meta_entry *entry,
		      struct cache_page **ret)
{
	struct cache_page *page;
	bool on_demand;
	int outcome = choose_mode(pages, entry, &on_demand);

	if (outcome)
		return outcome;
	page = page_new(pages->cache, entry, on_demand);
	if (!page)
		return CACHE_BUSY;
	if (!on_demand)
		page->reserved_bytes = entry->stored_bytes;
	pages->pinned_bytes += page->reserved_bytes;
	pages_insert(pages, &page->node);
	CACHE_COUNT(pages->cache, open_pages, 1);
	*ret = page;
	return 0;
}

/* Under the lock: 0: open; -1: `opened` will be called; or CACHE_BUSY. */
static int join(struct cache_page *page, const struct cache_name *name,
		cache_opened_fn *opened, void *arg)
{
	struct opener *opener;

	if (page->state == PAGE_OPENING) {
		opener = opener_new(name, opened, arg);
		if (!opener)
			return CACHE_BUSY;
		list_push_back(&page->openers, &opener->link);
		page->node.refs++;
		return -1;
	}
	page->node.hits++;
	page->node.refs++;
	return 0;
}

void cache_page_open(struct cache *cache, const struct cache_name *name,
		     const struct meta_entry *entry, cache_opened_fn *opened,
		     void *arg)
{
	struct pages *pages = cache->pages;
	struct cache_page *page = NULL;
	struct pages_node *node;
	int outcome;

	CACHE_COUNT(cache, opens, 1);
	if (atomic_load_explicit(&cache->stopping, memory_order_relaxed)) {
		refuse(cache, name, CACHE_BUSY, opened, arg);
		return;
	}
	pthread_mutex_lock(&pages->lock);
	node = pages_find(pages, entry->object, entry->version.clock);
	if (node) {
		page = list_entry(node, struct cache_page, node);
		outcome = join(page, name, opened, arg);
	} else {
		outcome = insert_new(pages, entry, &page);
	}
	pthread_mutex_unlock(&pages->lock);
	if (outcome > 0) {
		refuse(cache, name, outcome, opened, arg);
	} else if (!node) {
		make_ready(page, name, opened, arg);
	} else if (!outcome) {
		CACHE_COUNT(cache, hits_memory, 1);
		opened(arg, 0, page);
	}
}

void cache_page_ref(struct cache_page *page)
{
	struct pages *pages = page->cache->pages;

	pthread_mutex_lock(&pages->lock);
	page->node.refs++;
	pthread_mutex_unlock(&pages->lock);
}

void cache_page_close(struct cache_page *page)
{
	struct pages *pages = page->cache->pages;
	bool last;

	pthread_mutex_lock(&pages->lock);
	last = --page->node.refs == 0;
	if (last) {
		pages_keep_hits(pages, &page->node);
		pages_remove(pages, &page->node);
		unreserve(pages, page);
	}
	pthread_mutex_unlock(&pages->lock);
	if (last)
		page_release(page);
}

const struct meta_entry *cache_page_entry(const struct cache_page *page)
{
	return &page->entry;
}
