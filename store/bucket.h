/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_STORE_BUCKET_H
#define PAGEFS_STORE_BUCKET_H

/*
 * The disk tier: append-only files of up to 256 MiB below DIR/buckets, read
 * and written with O_DIRECT through the disk ring.  Two kinds of records, in
 * the order in which things happened: a chunk (its bytes), and a journal (a
 * batch of small facts: names made, renamed, deleted), whose payload is the
 * caller's.  The buckets are the truth: the index can be rebuilt from them.
 * The format is described in store/FORMAT.md, its structs are in
 * store/format.h.
 *
 * Threads: bucket_read() from any; append, sync, seal and drop from one
 * thread at a time (the writer).  A bucket that is dropped while reads are in
 * flight goes away with the last of them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/io.h"
#include "tools/lib/page.h"

struct buckets;

#define BUCKET_BYTES (256u << 20)

enum bucket_outcome {
	BUCKET_GONE = 1, /* read: the bucket was dropped or is missing */
};

struct buckets_config {
	const char *dir; /* DIR; made with its parents (0700) if missing */
	struct io *io;
	uint64_t cap_bytes;	/* 0: percent decides */
	unsigned cap_percent;	/* of the file system; default 90 */
	uint64_t reserve_bytes; /* left to others; 0: 5% of the file system */
	uint64_t node; /* this node's id; 0: DIR's, or a random one if new */
};

/* Where a chunk's bytes are: data_offset is that of the bytes, not of the
 * header before them. */
struct bucket_place {
	uint32_t bucket;
	uint32_t data_block; /* offset in units of BLOCK_BYTES */
	uint32_t len_bytes;
};

/* One record to write, or as found by a scan. */
struct bucket_record {
	enum {
		BUCKET_CHUNK = 1,
		BUCKET_JOURNAL = 2
	} kind;
	struct chunk_id id; /* chunk only */
	const void *key;    /* chunk: the key when it was written */
	size_t key_bytes;
	const uint64_t *checksums; /* chunk: one a CHECK_BYTES block */
	const void *extra;	   /* chunk: the encoded entry of the page, in
				      the record of its last chunk; opaque */
	size_t extra_bytes;
	const void *data; /* chunk: bytes, 4 KiB-aligned, zero from
			     len_bytes to the next 4 KiB; journal:
			     payload, any alignment.  NULL in a scan of
			     chunks */
	uint32_t len_bytes;
	struct bucket_place place; /* set by append and by scan */
};

/* Opens or makes DIR and its lock.  0; -EWOULDBLOCK: another pagefs has it
 * (ret_reason names its pid); -EPROTO: written by a newer version or not
 * ours (ret_reason says); -EACCES, -ENOSPC, -errno.  Does not read buckets;
 * an unsealed one is cut after its last whole record at the first append.
 * ret_reason (256 bytes) may be NULL. */
int buckets_open(const struct buckets_config *config, struct buckets **ret,
		 char *ret_reason);
/* Seals nothing: the open bucket is continued at the next start. */
void buckets_close(struct buckets *buckets);
/* The node's id, as DIR knows it. */
uint64_t buckets_node(const struct buckets *buckets);

/* Appends records as one batch (large aligned writes, never one a record);
 * fills in each place.  Blocks until written, at most until deadline_ns.
 * Seals a full bucket (footer, then a new file); the footer has a deadline of
 * its own.  0, -ENOSPC (file system full, or cap reached: caller drops a bucket
 * and tries again), -EIO, -ETIMEDOUT: nothing of the batch counts then.
 * Journals alone may pass the cap by a bucket: so that one can be dropped they
 * must be written first.  After -ETIMEDOUT the disk may still read from the
 * records' data for a while; what it writes then is cut off and never read. */
int bucket_append(struct buckets *buckets, struct bucket_record *records,
		  unsigned count, uint64_t deadline_ns);
/* Everything appended is on stable storage: 0 or -errno (then the next call
 * tries all of it again). */
int bucket_sync(struct buckets *buckets, uint64_t deadline_ns);

/* Reads place.len_bytes rounded up to 4 KiB into data (4 KiB-aligned, with
 * that much room).  `done` and `settled` as in io.h; res < len_bytes means a
 * bucket cut short.  The bytes are not checked here.  `request` needs only
 * done, settled, arg and deadline_ns set.  0: it will be called; BUCKET_GONE or
 * -errno (the file can't be opened): not submitted, no callback. */
int bucket_read(struct buckets *buckets, const struct bucket_place *place,
		void *data, struct io_request *request);

/* Takes the place out of what counts as live (deleted, superseded, or damaged).
 * Nothing leads to it any more; its bytes are given back by a later
 * bucket_reclaim(). */
void bucket_forget(struct buckets *buckets, const struct bucket_place *place);
/* Makes holes where forgotten places were, some seconds after that (reads may
 * be under way), in buckets that are not written to any more.  A bounded amount
 * of work; for the writer's thread, about once a second. */
void bucket_reclaim(struct buckets *buckets, uint64_t now_ns);
/* A sealed bucket that has nothing left but headers and old journals, so that
 * dropping it costs little: 0, or -ENOENT. */
int bucket_spent(struct buckets *buckets, uint32_t *ret_bucket);
/* Counts a hit on the place's bucket, for eviction by age of use. */
void bucket_touch(struct buckets *buckets, const struct bucket_place *place);

/* Room: 0 when `bytes` more may be written under the cap as it stands now
 * (worked out again as others fill the disk), else how many bytes must go. */
uint64_t bucket_excess(struct buckets *buckets, uint64_t bytes);
/* How long a bucket gets before it is sealed: less than BUCKET_BYTES under a
 * small cap. */
uint64_t bucket_limit_bytes(struct buckets *buckets);
/* The sealed bucket to drop next (fewest live bytes, in eighths of the bucket;
 * then coldest): 0, or -ENOENT. */
int bucket_coldest(struct buckets *buckets, uint32_t *ret_bucket);
/* Removes a bucket's file; reads in flight finish.  The caller has dropped
 * its places from the index (bucket_scan() lists them), and has written again
 * what it still needs of the bucket's journals.  -EBUSY: records are appended
 * to it. */
int bucket_drop(struct buckets *buckets, uint32_t bucket);
/* Gives the room of the bucket's chunks back and leaves its journals: for a
 * file system so full that what must outlive the bucket can't be written
 * elsewhere before it is dropped.  The caller has dropped its places from the
 * index. */
int bucket_hollow(struct buckets *buckets, uint32_t bucket);
/* Live bytes as the index knows them (each chunk's, rounded up to 4 KiB): set
 * once at start, after a scan of the index; until then all counts as live. */
void bucket_set_live(struct buckets *buckets, uint32_t bucket,
		     uint64_t live_bytes);

/* Calls `each` for the records of one bucket in the order written (chunks
 * from the footer where it is sealed and `payloads` is false; journals always
 * with their payload).  Stops when each returns non-zero, and returns that.
 * Damage ends one record, is logged once, and is counted in *ret_damaged.
 * verify: read the chunks' bytes too and call each with data set; a chunk
 * whose bytes don't match is counted, not shown.  Of an unsealed bucket, what a
 * crash left incomplete is not shown either.  -ENOENT: no such bucket. */
int bucket_scan(struct buckets *buckets, uint32_t bucket, bool verify,
		int (*each)(void *arg, const struct bucket_record *record),
		void *arg, uint64_t *ret_damaged);
/* Ids of all bucket files, ascending; caller frees. */
int bucket_list(struct buckets *buckets, uint32_t **ret_ids, size_t *ret_count);

struct buckets_stats {
	uint64_t buckets;
	uint64_t file_bytes; /* on disk, dead bytes included */
	uint64_t live_bytes;
	uint64_t cap_bytes; /* as it stands now */
	uint64_t records_written, bytes_written, buckets_dropped, damaged;
};
void buckets_get_stats(struct buckets *buckets, struct buckets_stats *ret);

#endif
