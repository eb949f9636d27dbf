/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_READS_H
#define PAGEFS_CACHE_READS_H

/*
 * What the files that read share with each other: chunk.c (where a chunk is),
 * page*.c (open pages), fetch*.c (chunks from disk), room.c and evict*.c.
 *
 * Three rules hold them together:
 *
 * - Whoever deletes a chunk's memory row, in a write transaction, frees its
 *   slot (unless the evictor has it in hand, which then frees it); whoever
 *   deletes its disk row forgets its place. A slot without a row belongs to the
 *   fetch or the writer that filled it, who keeps it pinned.
 * - A row is deleted although it was the last copy only by chunk_lose(), which
 *   takes the older rows of that index along: else the newest row that is left
 *   would be taken for the page's.
 * - What needs a write transaction but is found out where none may be waited
 *   for (the ring's thread, a reader's) is queued for the evictor's thread.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "cache/internal.h"
#include "tools/lib/list.h"

/* ---- chunk.c ---- */

/* Where a chunk is; the copies hold the same bytes. */
struct chunk_where {
	struct chunk_id id;
	uint32_t len_bytes;
	bool in_memory, on_disk;
	slot_t slot;
	struct bucket_place place;
	struct meta_chunk row; /* its checksums: valid as long as the txn */
};

/* The newest row of either tier: 0, CACHE_HOLE, or -errno. */
int chunk_find(struct cache *cache, struct meta_txn *txn, uint64_t object,
	       uint32_t index, uint64_t at_clock, struct chunk_where *ret);
/* Pins its slot, checked if it was found after a crash: 0, or CACHE_MISS when
 * it isn't in memory (any more). */
int chunk_pin(struct cache *cache, const struct chunk_where *where,
	      struct cache_slot *ret);
/* Deletes every row of (object, index) not newer than the chunk's. */
int chunk_lose(struct cache *cache, struct meta_txn *txn,
	       const struct chunk_id *id, struct cache_garbage *garbage);
/* Deletes one row. */
int chunk_drop(struct meta_txn *txn, enum meta_tier tier,
	       const struct meta_chunk *row, struct cache_garbage *garbage);
/* Deletes the disk row of a chunk that is in memory, too. write_again: its
 * page is queued to be written once more; else it lasts until it is evicted.
 * 0; META_ABSENT: memory's row is stale, so the disk's is the last copy;
 * -errno.  The transaction lies within evict_begin(). */
int chunk_leave_disk(struct cache *cache, struct meta_txn *txn,
		     const struct meta_chunk *memory,
		     const struct meta_chunk *disk, bool write_again,
		     struct cache_garbage *garbage);
/* The rows of exactly this chunk, and which there are. */
struct chunk_rows {
	bool in_memory, on_disk;
	struct meta_chunk memory, disk;
};
int chunk_rows(struct cache *cache, struct meta_txn *txn,
	       const struct chunk_id *id, struct chunk_rows *ret);
/* The first index from `from` on at which a version may have a chunk: 0, or
 * META_ABSENT. */
int chunk_next(struct cache *cache, struct meta_txn *txn, uint64_t object,
	       uint64_t at_clock, uint64_t from, uint32_t *ret);
/* Do the checksums say that these are its bytes? */
bool chunk_good(const void *data, const struct chunk_id *id, uint32_t len_bytes,
		const uint64_t *checksums);
/* ---- page_table.c: which versions somebody has open ---- */

/* One open page, or one writer's hold; guarded by the table's lock. */
struct pages_node {
	struct pages_node *next; /* in its chain, or in the queue of sweeps */
	uint64_t object;
	uint64_t clock;
	unsigned refs;
	bool page;     /* the head of a struct cache_page */
	bool sweep;    /* rows were left for it that nobody else needs */
	bool lost;     /* a chunk of it is gone: no row is no hole any more */
	uint32_t hits; /* opens that have succeeded */
	void (*free)(struct pages_node *node);
};

struct pages {
	struct cache *cache;
	pthread_mutex_t lock;
	/* Guarded by `lock`. */
	struct pages_node **chains;
	size_t chain_count, node_count;
	struct pages_node *sweeps; /* closed, their objects still to be swept */
	uint64_t pinned_bytes;	   /* that open pages hold, or will */
	struct pages_hits *hits;   /* PAGES_HITS of them */

	uint64_t pin_max_bytes;	 /* fixed: half of the arena */
	uint64_t last_max_bytes; /* fixed: 80% */
	const void *zeroes;	 /* fixed: PAGES_ZERO_BYTES of them */
};

#define PAGES_ZERO_BYTES ((size_t)64 << 20)

/* How often a page has been opened, added up at its last close: pairs of
 * places, by object; of each pair the one used last stays. */
#define PAGES_HITS 16384u

struct pages_hits {
	uint64_t object;
	uint64_t count;
};

/* The caller holds the lock. */
struct pages_node *pages_find(struct pages *pages, uint64_t object,
			      uint64_t clock);
void pages_insert(struct pages *pages, struct pages_node *node);
void pages_remove(struct pages *pages, struct pages_node *node);
/* A chunk is lost that versions from `clock` on need. */
void pages_lose(struct pages *pages, uint64_t object, uint64_t clock);
/* Has this version, which somebody has open, lost a chunk? */
bool pages_lost(struct pages *pages, uint64_t object, uint64_t clock);
/* Adds up what a node that is removed has counted.  Under the lock. */
void pages_keep_hits(struct pages *pages, const struct pages_node *node);
/* How often this object has been opened, as far as that is remembered. */
uint64_t pages_hits(struct pages *pages, uint64_t object);
/* Frees a removed node, at once or after its sweep.  Not under the lock. */
void pages_retire(struct pages *pages, struct pages_node *node);
/* Evictor's thread: sweeps what last closes have left. */
void pages_work(struct pages *pages);

/* ---- fetch.c ---- */

struct fetch;

/* Copies what a read will need, while the transaction lasts; NULL: no memory.
 * `owner`: the slot's owner and mode; its length is the chunk's. */
struct fetch *fetch_prepare(struct cache *cache, const struct slot_class *owner,
			    const struct chunk_where *where);
/* Prepared fetches can be chained by this; a new one ends its chain. */
struct fetch **fetch_next(struct fetch *fetch);
void fetch_drop_all(struct fetch *chain);
/* Pins the chunk if it has been fetched and only its row isn't written yet: 0,
 * or CACHE_MISS. */
int fetch_pin_loaded(struct fetches *fetches, const struct chunk_id *id,
		     struct cache_slot *ret);
/* Joins the fetch of that chunk, or starts this one; as cache_chunk_fetch().
 * Not under a lock nor in a transaction. */
void fetch_begin(struct fetch *fetch, cache_fetched_fn *done, void *arg);
/* Waits until every waiter has been answered. */
void fetches_drain(struct fetches *fetches);

/* ---- fetch_work.c: the evictor's thread ---- */

/* Finds slots for fetches that wait for one, writes the rows of what was
 * fetched, deletes those of what was damaged.  Returns when it wants to be
 * called again at the latest: monotonic, UINT64_MAX: when kicked. */
uint64_t fetches_work(struct fetches *fetches);
/* Writes the rows of what has been fetched by now.  Any thread. */
void fetches_promote(struct fetches *fetches);
/* Is something waiting for a slot? */
bool fetches_hungry(struct fetches *fetches);
/* The bytes in this slot, or at this place, are wrong: the row goes, and the
 * page with it if there is no other copy.  Any thread. */
void fetches_condemn_slot(struct fetches *fetches, const struct chunk_id *id,
			  slot_t slot);
void fetches_condemn_place(struct fetches *fetches, const struct chunk_id *id,
			   const struct bucket_place *place);

/* ---- evict.c ---- */

/* Something is to be done, or may have become possible.  NULL is fine. */
void evictor_kick(struct evictor *evictor);

/* ---- ahead.c: slots made ready before they are wanted, on a thread ---- */
void ahead_kick(struct ahead *ahead);
/* Between evict_begin() and evict_end(): evicts about so many bytes, coldest
 * first, or (class not NULL) so that a slot of that class can be had. What is
 * only in memory stays where there is a disk tier, else it is lost: *lost,
 * which the caller hands to evict_lost() after evict_end(). Returns how many
 * slots were freed; *ret_dirty: some would have had to be written first. */
struct evict_lost {
	uint64_t *objects;
	size_t count;
	struct cache_garbage garbage;
};
size_t evict_slots(struct cache *cache, const struct slot_class *class,
		   uint64_t bytes, struct evict_lost *lost, bool *ret_dirty);
/* Drops the pages, and what else they leave; empties it. */
void evict_lost(struct cache *cache, struct evict_lost *lost);
int evict_lost_add(struct evict_lost *lost, uint64_t object);
/* Waits until no slot is half evicted. */
void evict_settle(struct cache *cache);

#endif
