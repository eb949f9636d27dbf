/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_STAGE_H
#define PAGEFS_CACHE_STAGE_H

/*
 * What the files of staging share with each other and with nobody else.
 *
 *   staging.c       the table of staged names, references, handles
 *   stage_open.c    opening, joining, anonymous pages
 *   stage_close.c   flush, sync, release
 *   stage_ranges.c  which bytes of a chunk have been written
 *   stage_chunk.c   chunks of a staging page: found, made, grown, dropped
 *   stage_write.c   write
 *   stage_read.c    read, seek
 *   stage_size.c    truncate, fallocate
 *   stage_recut.c   another chunk size, or a copy with an object of its own
 *   stage_spill.c   chunks to buckets before their commit, and back
 *   stage_seal.c    what a chunk needs before it can be committed
 *   stage_rows.c    holes above rows of older versions
 *   stage_commit.c  the transaction that makes a version
 *   stage_rename.c  rename, unlink and link of staged names
 *   stage_attr.c    attributes and xattrs
 *
 * Locks, outer first: `lock` of a staging page (content; held over waits for
 * memory and disk), `names_lock` (what changes staged names and their commits,
 * held over a transaction), `table_lock` and `info_lock` (a few instructions).
 */

#include <pthread.h>
#include <stdatomic.h>

#include "cache/internal.h"
#include "tools/lib/list.h"

/* ---- written ranges of a chunk ---- */

#define STAGE_RANGES_MAX 16u

struct stage_range {
	uint32_t from, to; /* bytes in the chunk */
};

/* Ascending, neither touching nor empty. */
struct stage_ranges {
	unsigned count;
	struct stage_range range[STAGE_RANGES_MAX];
};

/* Adds [from, to); there is room for it, or it touches another. */
void stage_ranges_add(struct stage_ranges *ranges, uint32_t from, uint32_t to);
/* Forgets what lies at `len` and beyond. */
void stage_ranges_cut(struct stage_ranges *ranges, uint32_t len);
bool stage_ranges_cover(const struct stage_ranges *ranges, uint32_t from,
			uint32_t to);
/* The first gap in [from, to): false if there is none. */
bool stage_ranges_gap(const struct stage_ranges *ranges, uint32_t from,
		      uint32_t to, struct stage_range *ret);
/* The end of the last one. */
uint32_t stage_ranges_end(const struct stage_ranges *ranges);

/* ---- chunks ---- */

enum stage_chunk_state {
	STAGE_OPEN,    /* in a reserved slot, may be written to */
	STAGE_SEALED,  /* its slot is live under its id, immutable, and pinned
			  by us: a commit is on its way, or has failed */
	STAGE_SPILLED, /* in a bucket; no slot */
};

/* A chunk that differs from the version below. */
struct stage_chunk {
	uint32_t index;
	enum stage_chunk_state state;
	bool tried; /* a transaction with its row has failed: the memory
		       environment may have the row */
	slot_t slot;
	/* Taken when the chunk was first written to; see internal.h. */
	struct page_version version;
	uint64_t object; /* SEALED, SPILLED: of its id */
	/* So many bytes, where not written, are those of the version below. */
	uint32_t under_bytes;
	struct stage_ranges written;
	struct bucket_place place; /* SPILLED */
	uint64_t hashed[4];	   /* a bit a block: its checksum is right */
	uint64_t sums[];	   /* one a block of the largest chunk */
};

struct stage_xattr {
	struct list node;
	char *name;
	void *value;
	size_t len;
};

/* ---- staging pages and handles ---- */

struct cache_staging {
	struct cache *cache;
	uint64_t home; /* the directory where it was begun */
	pid_t creator;

	/* Guarded by table_lock. */
	struct list node; /* in the table, by name; empty: has no name */
	struct list handles;
	unsigned refs;
	unsigned writers; /* handles that aren't PEEK */
	uint64_t dir;
	size_t name_len; /* 0: has no name (any more) */
	char name[NAME_MAX_BYTES + 1];
	bool over; /* the last handle has gone: nobody may join */

	/* Guarded by info_lock; changed under names_lock or lock, too. */
	pthread_mutex_t info_lock;
	struct meta_entry entry; /* as the next commit makes it */
	uint64_t committed; /* object that the name leads to, 0: none yet */
	struct list xattrs; /* of a page that was never committed */

	/* Guarded by lock. */
	pthread_mutex_t lock;
	struct stage_chunk **chunks; /* ascending by index */
	size_t chunk_count, chunk_room;
	_Atomic bool dirty;  /* there is something to commit; read under
				table_lock, too, by who may see the page */
	_Atomic bool mapped; /* closed with parts never written: an mmap writer
				writes on until its RELEASE; read as dirty is */
	bool sized;   /* a truncate or fallocate set the size past the end */
	bool patched; /* some of what counts as written was only zeroed */
	bool checkpointed; /* committed by fsync, and not written to since */
	bool broken;
	/* A write failed, and nothing has been written there since: no commit
	 * until it has, or nobody would know of the hole. */
	int failed; /* its -errno */
	uint64_t failed_from, failed_to;
	/* The version that chunks are shared with: has_base and `entry`'s
	 * object is its object, too.  We hold it (pages_hold()). */
	bool has_base;
	struct meta_entry base;
	uint64_t base_limit; /* only so many of its bytes still count */
	struct cache_page *base_page; /* for reads; while nothing is dirty */
	uint64_t staged_bytes;	      /* slots we have reserved */
};

struct cache_writer {
	struct list node; /* in staging->handles */
	struct cache_staging *staging;
	pid_t process;
	bool append;
	bool peek;
	/* Guarded by table_lock. */
	bool flushed; /* and not used since */
	bool wrote;   /* since the last commit */
};

/* What the kernel sends in one request at most; a write of so much is perhaps
 * not all. */
#define STAGE_REQUEST_BYTES (UINT32_C(1) << 20)

#define STAGE_TABLE_SIZE 1024u
#define STAGE_HINTS 256u
#define STAGE_CHAINS 64u

struct stagings {
	struct cache *cache;
	pthread_mutex_t names_lock;
	pthread_mutex_t table_lock;
	struct list table[STAGE_TABLE_SIZE]; /* table_lock */
	/* The size of the page last committed to a directory, and to any. */
	struct {
		_Atomic uint64_t dir, size_bytes;
	} hints[STAGE_HINTS];
	_Atomic uint64_t last_size_bytes;
	/* The object that the next page of a process will have: the successor
	 * that its last one was committed with.  table_lock. */
	struct {
		pid_t process;
		uint64_t object;
	} chains[STAGE_CHAINS];
	_Atomic uint64_t staged_bytes; /* of all, in reserved slots */
};

static inline uint64_t stage_chunk_bytes(const struct cache_staging *staging)
{
	return UINT64_C(1) << staging->entry.chunk_shift;
}

static inline uint64_t stage_chunk_start(const struct cache_staging *staging,
					 uint32_t index)
{
	return (uint64_t)index << staging->entry.chunk_shift;
}

/* How many chunks a page of that size has. */
static inline uint32_t stage_chunks_of(const struct cache_staging *staging,
				       uint64_t size_bytes)
{
	return (uint32_t)((size_bytes + stage_chunk_bytes(staging) - 1) >>
			  staging->entry.chunk_shift);
}

static inline uint64_t stage_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t stage_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* ---- staging.c ---- */

/* A new one, with one reference and no name.  NULL: no memory. */
struct cache_staging *stage_new(struct cache *cache,
				const struct cache_creator *creator);
/* Of the chunks that a page begins with. */
unsigned stage_chunk_shift(const struct cache *cache);
/* All under table_lock. */
struct cache_staging *stage_find(struct stagings *stagings,
				 const struct cache_name *name);
void stage_name_set(struct cache_staging *staging,
		    const struct cache_name *name);
void stage_name_clear(struct cache_staging *staging);
bool stage_name_get(const struct cache_staging *staging,
		    struct cache_name *ret);
/* A handle other than `but` that may still write before it is closed? */
bool stage_active(const struct cache_staging *staging,
		  const struct cache_writer *but);

/* The object for a new page of that process; what its successor will be. */
uint64_t stage_object_take(struct stagings *stagings, pid_t process);
uint64_t stage_successor(struct stagings *stagings, pid_t process);

uint64_t stage_hint_get(struct stagings *stagings, uint64_t dir);
void stage_hint_set(struct stagings *stagings, uint64_t dir,
		    uint64_t size_bytes);

/* Copies, under info_lock. */
struct slot_class stage_class(struct cache_staging *staging,
			      uint64_t len_bytes);
uint64_t stage_size(struct cache_staging *staging);
void stage_set_size(struct cache_staging *staging, uint64_t size_bytes);
void stage_set_shape(struct cache_staging *staging, unsigned shift,
		     uint64_t object);
void stage_touch(struct cache_staging *staging); /* mtime and ctime are now */

/* Drops all that was not committed.  lock. */
void stage_drop(struct cache_staging *staging);
/* There will be something to commit: lets go of what clean pages have. */
void stage_dirty(struct cache_staging *staging);

/* ---- stage_chunk.c; all under lock ---- */

struct stage_chunk *stage_chunk_find(const struct cache_staging *staging,
				     uint32_t index);
/* The position of the first chunk with that index or a higher one. */
size_t stage_chunk_position(const struct cache_staging *staging,
			    uint32_t index);
/* How many bytes of the version below are at that chunk's place. */
uint32_t stage_base_bytes(const struct cache_staging *staging, uint32_t index);
/* The chunk, in a slot that has room for `end` bytes and may be written to.
 * len: of the write, which tells how large the page may become. */
int stage_chunk_open(struct cache_staging *staging, uint32_t index,
		     uint32_t end, uint32_t len_bytes, uint64_t deadline_ns,
		     struct stage_chunk **ret);
/* Moves the chunk into a slot of this class. */
int stage_chunk_move(struct cache_staging *staging, struct stage_chunk *chunk,
		     const struct slot_class *class, uint64_t deadline_ns,
		     bool wait);
/* Takes its bytes out of the version below where it has none of its own. */
int stage_chunk_fill(struct cache_staging *staging, struct stage_chunk *chunk,
		     uint64_t deadline_ns);
/* Before a write to the slot: there is room to remember one range more. */
int stage_chunk_prepare(struct cache_staging *staging,
			struct stage_chunk *chunk, uint64_t deadline_ns);
/* [from, to) has been written to the slot: ranges and checksums follow. */
void stage_chunk_written(struct cache_staging *staging,
			 struct stage_chunk *chunk, uint32_t from, uint32_t to);
void *stage_chunk_data(const struct cache_staging *staging,
		       const struct stage_chunk *chunk);
uint32_t stage_chunk_len(const struct stage_chunk *chunk);
/* Adds and takes out of the list; free also gives slot or place back. */
struct stage_chunk *stage_chunk_new(struct cache_staging *staging,
				    uint32_t index);
void stage_chunk_remove(struct cache_staging *staging,
			struct stage_chunk *chunk);
void stage_chunk_free(struct cache_staging *staging, struct stage_chunk *chunk);
/* Gives slot or place back, of a chunk that is in no list. */
void stage_chunk_release(struct cache_staging *staging,
			 struct stage_chunk *chunk);
struct chunk_id stage_chunk_id(const struct cache_staging *staging,
			       const struct stage_chunk *chunk);
/* A reserved slot, accounted; spills where that makes room. */
int stage_room(struct cache_staging *staging, const struct slot_class *class,
	       uint64_t deadline_ns, bool wait, slot_t *ret);
/* Gives back the slot of an OPEN chunk. */
void stage_slot_free(struct cache_staging *staging, slot_t slot);
/* The slot is not ours alone any more (sealed), or was and is again. */
void stage_slot_account(struct cache_staging *staging, slot_t slot, bool ours);
/* Pins a chunk of the version below: 0, CACHE_HOLE, -EIO, -ENOSPC. */
int stage_base_get(struct cache_staging *staging, uint32_t index,
		   uint64_t deadline_ns, struct cache_slot *ret);

/* ---- the rest; all under lock ---- */

/* stage_write.c: the piece lies within one chunk; data NULL: zeroes. */
int stage_write_piece(struct cache_staging *staging, uint32_t index,
		      uint32_t from, const void *data, uint32_t len_bytes,
		      uint64_t deadline_ns);
/* stage_size.c */
int stage_set_length(struct cache_staging *staging, uint64_t size_bytes,
		     uint64_t deadline_ns);
/* Parts of the size were never written. */
bool stage_incomplete(const struct cache_staging *staging);
/* stage_recut.c: every chunk becomes one of ours, of that size, in an object
 * of its own where there was a version below. */
int stage_recut(struct cache_staging *staging, unsigned shift,
		uint64_t deadline_ns);
/* Smaller chunks, if what begins there leaves a hole. */
int stage_recut_sparse(struct cache_staging *staging, uint64_t from_bytes,
		       uint64_t deadline_ns);
/* Smaller chunks, when a page is written to after a checkpoint. */
int stage_recut_checkpointed(struct cache_staging *staging,
			     uint64_t deadline_ns);
/* stage_spill.c: where staged pages take too much of memory, full chunks of
 * this one go to a bucket; and back. */
void stage_spill(struct cache_staging *staging, uint64_t need_bytes);
int stage_unspill(struct cache_staging *staging, struct stage_chunk *chunk,
		  uint64_t deadline_ns);
/* stage_seal.c */
void stage_chunk_hash(struct cache_staging *staging, struct stage_chunk *chunk,
		      uint32_t from, uint32_t to);
/* The chunk ends at `len` now. */
void stage_chunk_cut(struct stage_chunk *chunk, uint32_t len);
/* Zeroes gaps and finishes the checksums: ready to be written somewhere. */
int stage_chunk_finish(struct cache_staging *staging, struct stage_chunk *chunk,
		       uint64_t deadline_ns);
int stage_seal(struct cache_staging *staging, uint64_t deadline_ns);
/* stage_rows.c: the indexes in [first, end) at which an object has rows, of any
 * version and in any tier, ascending: a sparse page has few, however long it
 * is.  The caller frees ret->all. */
struct stage_indexes {
	uint32_t *all;
	size_t count, room;
	uint32_t end;
	int error;
};
int stage_indexes_of(struct cache *cache, struct meta_txn *txn, uint64_t object,
		     uint32_t first, uint32_t end, struct stage_indexes *ret);
/* Before a commit: holes above old rows get rows of their own. */
int stage_cover_leftovers(struct cache_staging *staging, uint64_t deadline_ns);
/* stage_attr.c; info_lock */
void stage_free_xattrs(struct cache_staging *staging);
/* stage_commit.c: 0, and *ret_committed: a version was made; -errno. */
int stage_commit(struct cache_staging *staging, bool *ret_committed);
/* The rows of a transaction that failed half. */
void stage_forget_rows(struct cache_staging *staging,
		       const struct stage_chunk *chunk);

#endif
