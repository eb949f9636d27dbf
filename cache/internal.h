/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_INTERNAL_H
#define PAGEFS_CACHE_INTERNAL_H

/*
 * What the files of cache/ share with each other and with nobody else.
 *
 *   cache.c      opening, stopping, the parts
 *   stats.c      statistics, space, facts about a page
 *   names_*.c    look-ups, listings and changes of the name space
 *   objects.c    from an object to its names; the end of an object
 *   rows.c       rows of chunks: needed, superseded, dropped
 *   lost.c       pages whose chunks are gone
 *   facts.c      what the journal is told
 *   chunk.c, chunk_get.c  where a chunk is; pins, gets
 *   page.c, page_*.c  open pages: pins, reads
 *   fetch.c, fetch_*.c  chunks from disk into slots, one fetch for many
 *                readers; their rows
 *   room.c       slots for whoever needs one: evicts, waits, gives up
 *   evict.c      victims, watermark eviction, the evictor's thread
 *   evict_bucket.c  bucket eviction
 *   evict_hand.c the operator's evict
 *   ahead.c      makes slots ready before they are wanted
 *   fixed.c      the arena's memory as the disk ring's fixed buffers
 *   writeback.c  pending pages and facts to buckets, in order
 *   staging.c, stage_*.c  writers and commits
 *   recover.c    start: claims slots, drops what is lost
 *   rebuild.c    the index from buckets
 *   negative.c   the negative cache
 *
 * Lock order (outer first): staging->lock, the stagings' lock, meta's write
 * transaction, the pages' lock (pages_need() is asked within a transaction, so
 * nobody begins one under it), fetch lock, negative's own.  Nothing here is
 * held while waiting for a disk read but staging->lock.
 *
 * Outside of them all but staging->lock: evict_begin().
 *
 * The stagings' lock is two: the one of names (commits of writers, renames,
 * unlinks), taken before a transaction, and within any of these the one of the
 * table, which stagings_find() and stagings_in_dir() take: they may be called
 * in a transaction, too.
 *
 * Clock order is commit order: a version or the clock of a fact is taken
 * within the write transaction that it belongs to.  Only the version of a
 * chunk (never of a page) is older than the commit it comes with: it is taken
 * when the chunk is first written to, so that its checksums can be worked out
 * while the bytes are hot.  So a commit (object, clock) consists, for each
 * index, of the newest row not newer than the clock.
 *
 * A chunk may end before its place in the page does, in the middle of the
 * page, too: what is missing up to the page's size reads as zeroes.
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
	struct pages *pages;	 /* page.c: open pages, by (object, version) */
	struct fetches *fetches; /* fetch.c */
	struct stagings *stagings;   /* staging.c: by name */
	struct writeback *writeback; /* writeback.c */
	struct evictor *evictor;     /* evict.c */
	struct ahead *ahead;	     /* ahead.c */
	struct misses *misses;	     /* names_source.c: plain misses */
	struct stale *stale;	     /* rows.c: rows without a slot */

	char *temporary; /* patterns, each terminated; the last is empty */

	_Atomic bool stopping;
	/* Counters behind cache_get_stats(): relaxed atomics, by field. */
	struct cache_counters *counters;
};

/* Each file's part: made by cache_open() in this order, before any operation
 * comes, and freed in the other one once none can come.  _new: 0 or -errno,
 * and starts the file's threads; _free(NULL) does nothing; it ends them. */
int pages_new(struct cache *cache, struct pages **ret);
void pages_free(struct pages *pages);
int fetches_new(struct cache *cache, struct fetches **ret);
void fetches_free(struct fetches *fetches);
int stagings_new(struct cache *cache, struct stagings **ret);
void stagings_free(struct stagings *stagings);
int writeback_new(struct cache *cache, struct writeback **ret);
void writeback_free(struct writeback *writeback);
int misses_new(struct cache *cache, struct misses **ret);
void misses_free(struct misses *misses);
void misses_forget(struct misses *misses, const struct cache_name *name);
int evictor_new(struct cache *cache, struct evictor **ret);
void evictor_free(struct evictor *evictor);
int ahead_new(struct cache *cache, struct ahead **ret);
void ahead_free(struct ahead *ahead);

/* ---- transactions ---- */

/* Write transactions end here: the clock goes into the index with them, so
 * that no version is issued twice over restarts.  0 or -errno, as
 * meta_commit(). */
int cache_commit(struct cache *cache, struct meta_txn *txn);

/* ---- versions ---- */

struct page_version cache_next_version(struct cache *cache);
/* A number for a new object: the clock part of a new version. */
uint64_t cache_next_object(struct cache *cache);

/* ---- rows of chunks (rows.c) ---- */

/* Does a row that meta_chunk_get() or meta_chunk_each() gave for at_clock
 * belong to a page of that version?  False: something newer stood there by
 * then, and its row is gone (lost, or a hole): as if there were no row.  Ask
 * of every row. */
bool cache_chunk_current(const struct meta_chunk *row, uint64_t at_clock);

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
 * wait for it, else CACHE_MISS.  `class` says owner and mode; the slot is as
 * long as the chunk.  `done` once, within clock_deadline_ns() of the chunk's
 * length, perhaps before this returns: 0 and a pinned slot (the callee's to
 * unpin), CACHE_HOLE, CACHE_MISS (it was lost while somebody had the version
 * open), CACHE_FAILED (damaged, EIO, timed out), CACHE_BUSY (no memory).  Runs
 * on the ring's thread: must not block.  Not within a transaction. */
typedef void cache_fetched_fn(void *arg, int outcome,
			      const struct cache_slot *slot);
void cache_chunk_fetch(struct cache *cache, const struct slot_class *class,
		       uint64_t object, uint32_t index, uint64_t at_clock,
		       cache_fetched_fn *done, void *arg);
/* The same, waiting until the deadline: for writers (copy on write). */
int cache_chunk_fetch_wait(struct cache *cache, const struct slot_class *class,
			   uint64_t object, uint32_t index, uint64_t at_clock,
			   uint64_t deadline_ns, struct cache_slot *ret);

/* ---- room (room.c) ---- */

/* A reserved slot of this class: evicts and waits for write-behind as needed,
 * until the deadline.  0, or -ENOSPC.  wait false: evicts clean pages at
 * most, never waits.  Not within a transaction. */
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
/* A writer builds on this version: counts as an open page of it for the two
 * above, and fetches nothing.  0 or -ENOMEM. */
int pages_hold(struct pages *pages, uint64_t object, uint64_t clock);
/* The writer has made the next version: its hold is one on that now.  Sweeps
 * nothing and cannot fail, so it may be called within the transaction. */
void pages_hold_move(struct pages *pages, uint64_t object, uint64_t from_clock,
		     uint64_t to_clock);
/* Gives a hold back, as the close of an open page does (cache_object_sweep()
 * included).  Not within a transaction. */
void pages_release(struct pages *pages, uint64_t object, uint64_t clock);

/* ---- objects (objects.c) ---- */

/* What a transaction frees once it has been committed: slots (if they still
 * hold that chunk) and places. */
struct cache_garbage {
	struct cache_slot *slots;
	size_t slot_count, slot_room;
	struct bucket_place *places;
	size_t place_count, place_room;
};
int cache_garbage_slot(struct cache_garbage *garbage,
		       const struct cache_slot *slot);
int cache_garbage_place(struct cache_garbage *garbage,
			const struct bucket_place *place);
void cache_garbage_free(struct cache *cache, struct cache_garbage *garbage);
void cache_garbage_drop(struct cache_garbage *garbage); /* after an abort */

/* From now on the name leads to `entry` (a commit, or a new directory or
 * symlink): what it led to before, if that is another object, loses a link;
 * objects row, links, META_NAME_NEW and the directory's times follow.  Queues
 * nothing: a commit of chunks adds its META_PENDING_PAGE row, all others
 * cache_fact_set().  -ENOENT: the directory is gone; -EISDIR, -ENOTDIR. */
int cache_name_put(struct cache *cache, struct meta_txn *txn,
		   const struct cache_name *name, struct meta_entry *entry,
		   struct cache_garbage *garbage);
/* One name fewer leads to `object`: with its last, chunk rows, attributes and
 * its objects row go (or, while it is open, an orphan row is left). */
int cache_object_unlink(struct cache *cache, struct meta_txn *txn,
			uint64_t object, struct cache_garbage *garbage);
/* The version `clock` has something else at (object, index), or a hole: drops
 * the older rows there, and marks those that an open page (or another name)
 * still needs, so that they never stand in for a newer row that is lost. */
int cache_chunk_supersede(struct cache *cache, struct meta_txn *txn,
			  uint64_t object, uint32_t index, uint64_t clock,
			  struct cache_garbage *garbage);
/* The last close of a version of this object that was no longer current, or
 * of an unlinked object: drops the rows that nothing needs any more.  A
 * transaction of its own. */
void cache_object_sweep(struct cache *cache, uint64_t object);
/* This page is lost (no copy of a chunk anywhere): drops its names, in a
 * transaction of its own.  CACHE_MISS: it had none; nothing is dropped when
 * every chunk does have a row.  Not from the ring's thread. */
int cache_page_lost(struct cache *cache, uint64_t object);
/* The directory's mtime and ctime move to now. */
int cache_dir_changed(struct cache *cache, struct meta_txn *txn, uint64_t dir);
/* The kernel's entry of that name is out of date. */
void cache_changed(struct cache *cache, const struct cache_name *name);

/* ---- the journal (facts.c) ---- */

/* Queues a fact about a name (its key is worked out here) for the journal.
 * set: of everything but pages whose chunks are pending, whose fact travels
 * with their last chunk. */
int cache_fact_set(struct cache *cache, struct meta_txn *txn,
		   const struct cache_name *name,
		   const struct meta_entry *entry);
int cache_fact_gone(struct cache *cache, struct meta_txn *txn,
		    const struct cache_name *name);
/* Queues the chunks of a commit, if there is a disk tier. */
int cache_pending_page(struct cache *cache, struct meta_txn *txn,
		       const struct meta_entry *entry);
/* A bucket is about to be dropped, and this is a journal record of it
 * (bucket_scan()): queues those of its facts again, as old as they are, that
 * a rebuild from the other buckets would miss. */
int cache_facts_keep(struct cache *cache, struct meta_txn *txn,
		     const struct bucket_record *record);

/* ---- staging, as names_*.c see it ---- */

/* A staged page of that name, referenced; NULL if none. */
struct cache_staging *stagings_find(struct stagings *stagings,
				    const struct cache_name *name);
bool stagings_in_dir(struct stagings *stagings, uint64_t dir);
/* cache_rename() and cache_unlink() are these, after their arguments have
 * been looked at: under the stagings' lock, so that nothing is staged or
 * committed meanwhile, they call names_rename() or names_unlink() for what is
 * committed (CACHE_MISS: nothing is), and then take the staged pages along:
 * a staged page moves with its name and its writers go on; one that is
 * renamed over or unlinked has no name any more.  Where only a staged page
 * stands at `from`, names_may_replace() says whether it may go to `to`;
 * whatever is committed there stays until the staged page's commit. */
int stagings_rename(struct cache *cache, const struct cache_name *from,
		    const struct cache_name *to, unsigned flags);
int stagings_unlink(struct cache *cache, const struct cache_name *name);
/* The committed part, each a transaction; outcomes as cache_rename() and
 * cache_unlink(). */
int names_rename(struct cache *cache, const struct cache_name *from,
		 const struct cache_name *to, unsigned flags);
int names_unlink(struct cache *cache, const struct cache_name *name);
/* A file may be put there: 0, -EEXIST (RENAME_NOREPLACE), -EISDIR, -ENOENT
 * (no such directory), -EINVAL (RENAME_EXCHANGE, and nothing is there). */
int names_may_replace(struct cache *cache, const struct cache_name *to,
		      unsigned flags);
/* Does the name's last component match temporary_names? */
bool cache_name_temporary(const struct cache *cache,
			  const struct cache_name *name);

/* ---- write-behind (writeback.c) ---- */

/* Something is pending (or memory is short: `urgent`). */
void writeback_kick(struct writeback *writeback, bool urgent);
/* Waits until everything pending up to this clock is in a bucket (and, with
 * sync, on stable storage): 0, -EIO, -ENOSPC, -ETIMEDOUT. */
int writeback_wait(struct writeback *writeback, uint64_t clock, bool sync,
		   uint64_t deadline_ns);
/* Waits until a batch has been written (slots are clean now), or there is
 * nothing to write: 0; -EIO, -ENOSPC: writing fails; -ETIMEDOUT.  For room.c,
 * after a kick. */
int writeback_wait_batch(struct writeback *writeback, uint64_t deadline_ns);

/* The index has no room on its disk: waits until buckets above the cap, as it
 * stands now, have been evicted.  0; -ENOSPC: no disk tier; -ETIMEDOUT. */
int writeback_make_room(struct writeback *writeback, uint64_t deadline_ns);

/* Writes chunks of a page that outgrows memory before its commit: appends them
 * as one batch, on the write-behind thread, and sets their places.  Nothing of
 * the index changes: the commit puts their META_DISK rows (and counts their
 * bytes by meta_bucket_add()), or an aborted writer forgets the places.
 * Waits: 0, -ENOSPC, -EIO, -ETIMEDOUT. */
int writeback_spill(struct writeback *writeback, struct bucket_record *records,
		    unsigned count, uint64_t deadline_ns);

/* ---- eviction (evict.c, evict_bucket.c) ---- */

/* Between these no slot is half evicted: it can be pinned, or it is gone for
 * good.  Taken before a write transaction, never within one.  Before there is
 * an evictor they do nothing. */
void evict_begin(struct cache *cache);
void evict_end(struct cache *cache);

/* Makes room on disk: drops the coldest bucket, its rows, and the pages that
 * are nowhere else; writes all facts that are pending before that.  0, -ENOENT
 * (nothing can be dropped), -errno.  Called by the write-behind thread, while
 * it has no batch of its own in hand. */
int evict_bucket(struct cache *cache);
/* The same, as often as it takes (within bounds) to write so many bytes more
 * under the cap as it is now. */
int evict_make_room(struct cache *cache, uint64_t bytes);
/* Drops buckets that hold nothing any more, some at a time.  Write-behind's
 * thread, too. */
void evict_spent(struct cache *cache);

/* ---- start (recover.c, rebuild.c) ---- */

/* Makes tiers and index agree: arena_open()'s outcome, and before that the
 * rebuild when the index was empty.  0 or -errno. */
int cache_recover(struct cache *cache, int arena_outcome);
int cache_rebuild(struct cache *cache);

/* ---- counters ---- */

#define CACHE_COUNT(cache, field, n)                                           \
	atomic_fetch_add_explicit(&(cache)->counters->field, (n),              \
				  memory_order_relaxed)

struct cache_counters {
	_Atomic uint64_t opens, hits_memory, hits_disk, hits_empty, misses,
		failures, busy, stale;
	_Atomic uint64_t commits, bytes_committed, aborted_writers;
	_Atomic uint64_t evicted_pages, evicted_bytes, lost_pages;
	_Atomic uint64_t checksum_errors, disk_errors, timeouts, refused_reads;
	_Atomic uint64_t pending_pages, pending_bytes, written_pages,
		written_bytes, write_errors;
	_Atomic uint64_t waits_for_memory, no_space;
	_Atomic uint64_t fetches, fetches_shared;
	_Atomic uint64_t open_pages, open_writers;
	_Atomic bool disk_alarm;
};

#endif
