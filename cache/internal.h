/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_INTERNAL_H
#define PAGEFS_CACHE_INTERNAL_H

/*
 * What the files of cache/ share with each other and with nobody else.
 *
 *   cache.c      opening, stopping, the parts, statistics
 *   names.c      look-ups and changes of the name space
 *   page.c       open pages: pins, reads
 *   fetch.c      chunks from disk into slots, one fetch for many readers
 *   room.c       slots for whoever needs one: evicts, waits, gives up
 *   evict.c      watermark eviction and bucket eviction
 *   writeback.c  pending pages and facts to buckets, in order
 *   staging.c, stage_*.c  writers and commits
 *   recover.c    start: claims slots, drops what is lost
 *   rebuild.c    the index from buckets
 *   negative.c   the negative cache
 *
 * Lock order (outer first): staging->lock, cache->staging_lock,
 * cache->pages_lock, meta's write transaction, fetch lock, negative's own.
 * Nothing here is held while waiting for a disk read but staging->lock.
 */

#include "cache/cache.h"
#include "meta/meta.h"
#include "store/store.h"

struct cache {
	struct cache_config config;
	struct arena *arena;
	struct io *io;		 /* NULL: no disk tier */
	struct buckets *buckets; /* NULL: no disk tier */
	struct meta *meta;
	struct negative *negative;
	struct hlc hlc;

	/* Each file's own state, made by its _new and freed by its _free. */
	struct pages *pages;	     /* page.c: open pages, by (object, version) */
	struct fetches *fetches;     /* fetch.c */
	struct stagings *stagings;   /* staging.c: by name */
	struct writeback *writeback; /* writeback.c */
	struct evictor *evictor;     /* evict.c */

	_Atomic bool stopping;
	/* Counters behind cache_get_stats(): relaxed atomics, by field. */
	struct cache_counters *counters;
};

/* ---- versions ---- */

struct page_version cache_next_version(struct cache *cache);
/* A number for a new object: the clock part of a new version. */
uint64_t cache_next_object(struct cache *cache);

/* ---- chunks (fetch.c) ---- */

/* A chunk in memory, pinned. */
struct cache_slot {
	slot_t slot;
	struct chunk_id id;
	uint32_t len_bytes;
};

/* Pins the chunk (object, index) as it was at `at_clock`, if it is in
 * memory (a slot found after a crash is verified first): 0 and *ret; a hole:
 * CACHE_HOLE; CACHE_MISS: not in memory, on disk perhaps. */
#define CACHE_HOLE 16
int cache_chunk_pin(struct cache *cache, uint64_t object, uint32_t index,
		    uint64_t at_clock, struct cache_slot *ret);

/* Gets the chunk into memory: from memory, else one read shared by all that
 * wait for it, else CACHE_MISS.  `done` once, by the deadline, perhaps before
 * this returns: 0 and a pinned slot (the callee's to unpin), CACHE_HOLE,
 * CACHE_MISS (no row anywhere), CACHE_FAILED (damaged, EIO, timed out),
 * CACHE_BUSY (no memory).  Runs on the ring's thread: must not block. */
typedef void cache_fetched_fn(void *arg, int outcome,
			      const struct cache_slot *slot);
void cache_chunk_fetch(struct cache *cache, const struct slot_class *class,
		       uint64_t object, uint32_t index, uint64_t at_clock,
		       uint64_t deadline_ns, cache_fetched_fn *done, void *arg);
/* The same, waiting: for writers (copy on write). */
int cache_chunk_fetch_wait(struct cache *cache, const struct slot_class *class,
			   uint64_t object, uint32_t index, uint64_t at_clock,
			   uint64_t deadline_ns, struct cache_slot *ret);

/* ---- room (room.c) ---- */

/* A reserved slot of this class: evicts and waits for write-behind as needed,
 * until the deadline.  0, or -ENOSPC.  wait false: evicts clean pages at
 * most, never waits. */
int cache_room(struct cache *cache, const struct slot_class *class,
	       uint64_t deadline_ns, bool wait, slot_t *ret);
struct slot_class cache_class(struct cache *cache, uint64_t len_bytes,
			      const struct meta_entry *owner);

/* ---- open pages (page.c) ---- */

/* Does an open page need the row (object, index, old) although one of `new`
 * is there?  True: leave it; the last close of that page sweeps it. */
bool pages_need(struct pages *pages, uint64_t object, uint64_t old_clock,
		uint64_t new_clock);
bool pages_open(struct pages *pages, uint64_t object);

/* ---- objects (names.c) ---- */

/* What a transaction frees once it has been committed: slots and places. */
struct cache_garbage {
	slot_t *slots;
	size_t slot_count, slot_room;
	struct bucket_place *places;
	size_t place_count, place_room;
};
void cache_garbage_free(struct cache *cache, struct cache_garbage *garbage);
void cache_garbage_drop(struct cache_garbage *garbage); /* after an abort */
/* One name fewer leads to `object`: with its last, chunk rows, attributes and
 * its objects row go (or, while it is open, an orphan row is left). */
int cache_object_unlink(struct cache *cache, struct meta_txn *txn,
			uint64_t object, struct cache_garbage *garbage);
/* Rows of (object, index) older than `clock` that no open page needs. */
int cache_chunk_supersede(struct cache *cache, struct meta_txn *txn,
			  uint64_t object, uint32_t index, uint64_t clock,
			  struct cache_garbage *garbage);
/* Queues a fact about a name (its key is worked out here) for the journal. */
int cache_fact_set(struct cache *cache, struct meta_txn *txn,
		   const struct cache_name *name,
		   const struct meta_entry *entry);
int cache_fact_gone(struct cache *cache, struct meta_txn *txn,
		    const struct cache_name *name);
/* The directory's mtime and ctime move to now. */
int cache_dir_changed(struct cache *cache, struct meta_txn *txn, uint64_t dir);
/* This page is lost (no copy of a chunk anywhere): drops its names. */
int cache_page_lost(struct cache *cache, uint64_t object);

/* ---- staging, as names.c sees it ---- */

/* A staged page of that name, referenced; NULL if none. */
struct cache_staging *stagings_find(struct stagings *stagings,
				    const struct cache_name *name);
bool stagings_in_dir(struct stagings *stagings, uint64_t dir);
/* Under one lock with the name space's change: renames and unlinks of staged
 * names.  See staging.c. */
int stagings_rename(struct cache *cache, const struct cache_name *from,
		    const struct cache_name *to, unsigned flags);
int stagings_unlink(struct cache *cache, const struct cache_name *name);

/* ---- write-behind (writeback.c) ---- */

/* Something is pending (or memory is short: `urgent`). */
void writeback_kick(struct writeback *writeback, bool urgent);
/* Waits until everything pending up to this clock is in a bucket (and, with
 * sync, on stable storage): 0, -EIO, -ENOSPC, -ETIMEDOUT. */
int writeback_wait(struct writeback *writeback, uint64_t clock, bool sync,
		   uint64_t deadline_ns);

/* ---- counters ---- */

#define CACHE_COUNT(cache, field, n)                                           \
	atomic_fetch_add_explicit(&(cache)->counters->field, (n),              \
				  memory_order_relaxed)

struct cache_counters {
	_Atomic uint64_t opens, hits_memory, hits_disk, hits_empty, misses,
		failures, busy, stale;
	_Atomic uint64_t commits, bytes_committed, aborted_writers;
	_Atomic uint64_t evicted_pages, evicted_bytes, lost_pages;
	_Atomic uint64_t checksum_errors, disk_errors, timeouts;
	_Atomic uint64_t pending_pages, pending_bytes, written_pages,
		written_bytes, write_errors;
	_Atomic uint64_t waits_for_memory, no_space;
	_Atomic uint64_t fetches, fetches_shared;
	_Atomic uint64_t open_pages, open_writers;
	_Atomic bool disk_alarm;
};

#endif
