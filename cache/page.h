/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_PAGE_H
#define PAGEFS_CACHE_PAGE_H

/*
 * An open page, for the files page*.c.
 *
 *	open ----> OPENING ----> READY
 *	              `--------> FAILED (in no table; goes with its openers)
 *
 * A page is in the table from before its rows are looked at until its last
 * close, so no row that it may need is deleted meanwhile. It either has all
 * its chunks pinned (bounded by the pages' budget), or (`on_demand`) fetches
 * them as they are read.
 */

#include "cache/reads.h"

enum page_state {
	PAGE_OPENING,
	PAGE_READY,
	PAGE_FAILED
};

struct page_chunk {
	uint32_t index;
	uint32_t len_bytes;
	slot_t slot;
};

struct cache_page {
	struct pages_node node;
	struct cache *cache;
	bool on_demand; /* fixed before the page is READY */
	struct meta_entry entry;

	/* Guarded by the pages' lock. */
	enum page_state state;
	int outcome;	  /* the worst so far */
	unsigned missing; /* fetches not answered yet, and their starter */
	struct list openers;
	uint64_t reserved_bytes; /* of the pages' pinned_bytes */

	/* Read-ahead; hints, so relaxed. */
	_Atomic uint64_t next_offset; /* where a serial reader reads next */
	_Atomic uint64_t ahead_index; /* no need to ask again before it */

	/* Pinned chunks by index; fixed once READY. */
	uint32_t count, room;
	struct page_chunk chunks[];
};

static inline uint64_t page_indexes(const struct meta_entry *entry)
{
	uint64_t mask = (UINT64_C(1) << entry->chunk_shift) - 1;

	return (entry->size_bytes + mask) >> entry->chunk_shift;
}

static inline struct slot_class page_owner(const struct meta_entry *entry)
{
	return (struct slot_class){
		.uid = entry->uid,
		.gid = entry->gid,
		.mode = entry->mode,
	};
}

/* page_gather.c: looks the name and the chunks up, pins what is in memory
 * (unless on_demand), prepares fetches of the rest. 0 and the chain of
 * fetches; CACHE_STALE, CACHE_MISS, CACHE_BUSY. */
int page_gather(struct cache_page *page, const struct cache_name *name,
		struct fetch **ret_fetches);
/* Unpins what it has. */
void page_unpin(struct cache_page *page);

#endif
