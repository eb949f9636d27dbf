/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_BATCH_H
#define PAGEFS_CACHE_BATCH_H

/*
 * One batch of the write-behind: what is pending, gathered in clock order
 * (batch_gather.c), announced to the index, appended to a bucket by
 * writeback.c, and then made known to the index (batch_finish.c).  Owned by the
 * write-behind thread; slots stay pinned from batch_gather() to
 * batch_release().
 */

#include "cache/internal.h"

#define BATCH_BYTES_MAX (64u << 20)
#define BATCH_RECORDS_MAX 256u
#define BATCH_JOURNAL_MAX (1u << 20)

/* A chunk that is written. */
struct batch_chunk {
	struct cache_slot slot;
	uint64_t *checksums;
	bool there; /* set by batch_finish(): the index has its row */
};

/* A page with a row in the queue. */
struct batch_page {
	uint64_t object, clock;
	bool complete; /* with this batch every chunk is on disk, and its fact
			  is written */
	bool gone;     /* deleted or superseded: nothing to write */
	bool lost;     /* it seems: a chunk of it could not be had */
	uint64_t stored_bytes;
	/* The name that is written with it, as of the snapshot. */
	uint64_t dir;
	char name[NAME_MAX_BYTES + 1];
	size_t name_len;
	bool name_new; /* no bucket held it by then */
	int64_t ctime_ns;
	char *key;
	size_t key_bytes;
	void *fact;
	size_t fact_bytes;
};

struct batch {
	struct cache *cache;
	struct page_version at; /* what the snapshot is called */

	struct bucket_record records[BATCH_RECORDS_MAX + 1];
	unsigned record_count; /* chunks, then perhaps a journal */
	struct batch_chunk chunks[BATCH_RECORDS_MAX];
	unsigned chunk_count; /* chunk i is record i */
	uint64_t bytes;

	struct batch_page *pages;
	size_t page_count, page_room;
	uint64_t *facts; /* clocks of the facts in the journal */
	size_t fact_count, fact_room;
	uint8_t *journal;
	size_t journal_bytes, journal_room;
	bool more; /* the queue has more than went into this batch */
	bool facts_only;
	uint64_t max_bytes; /* BATCH_BYTES_MAX, less under a small disk cap */
};

/* 0; -ENOMEM, -errno.  An empty queue gives an empty batch. */
int batch_gather(struct cache *cache, struct batch *batch);
/* The same, of the facts alone: what has to be on disk before a bucket goes. */
int batch_gather_facts(struct cache *cache, struct batch *batch);
bool batch_empty(const struct batch *batch);
/* It will take at least one row off the queue, or write a chunk. */
bool batch_gets_on(const struct batch *batch);
/* Before the records are written: their names are not new any more.  A crash
 * (or a failure) between this and batch_finish() leaves records in the bucket
 * that the index knows nothing of; with this it does know that there may be a
 * record of the name, so that what happens to the name later is written, too,
 * and a rebuild comes to the same end.  0 or -errno: do not write. */
int batch_announce(struct batch *batch);
/* The records are in a bucket: one transaction of the index; then the arena
 * hears that slots are clean.  0 or -errno: all of it will be written again. */
int batch_finish(struct batch *batch);
/* The queue is empty: is that what the counters say, too? */
void batch_recount(struct batch *batch);
void batch_release(struct batch *batch);

#endif
