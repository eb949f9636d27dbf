/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_STORE_BUCKET_PRIVATE_H
#define PAGEFS_STORE_BUCKET_PRIVATE_H

/*
 * What the files bucket*.c share: the table of buckets (bucket.c), the cap
 * (bucket_room.c), blocking
 * disk requests (bucket_disk.c), the directory (bucket_directory.c), the writer
 * (bucket_append.c) and the scan (bucket_scan.c).  bucket.h says who may call
 * what; here "writer" is the one thread that appends, syncs, seals and drops.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/bucket.h"
#include "store/format.h"
#include "store/io.h"

#define BUCKET_NAME_BYTES 32

/* One file.  In the table until it is dropped; freed with its last reference.
 */
struct bucket {
	struct buckets *owner;
	uint32_t id;

	/* Guarded by the owner's lock. */
	int fd;		     /* -1: not open now */
	unsigned refs;	     /* the table's, and one a user of fd */
	unsigned unsettled;  /* writes that may still be under way */
	bool dropped;	     /* not in the table any more */
	bool appending;	     /* the writer is not done with it, or was not
				before this start */
	bool writing;	     /* the writer has it: end_block says how far */
	bool unsynced;	     /* written to since it was last synced */
	uint32_t end_block;  /* writing: records are whole up to here */
	uint64_t file_bytes; /* on disk */
	uint64_t live_bytes; /* of chunks that the index knows */
	uint64_t size_bytes; /* of the file, holes included, when bytes were
				last given back; 0: never */
	uint64_t touched_ns; /* real time: survives a restart as mtime */
	struct bucket *next_grave;
};

/* The footer's index, as it grows. */
struct bucket_index {
	unsigned char *bytes;
	size_t len;
	size_t capacity;
	uint32_t count;
};

/* A bucket that the writer adds to, or has given up and still has to end.
 * Owned by the writer. */
struct open_bucket {
	struct bucket *bucket; /* a reference */
	uint32_t end_block;    /* this batch included */
	uint32_t durable_block;
	uint32_t limit_blocks; /* sealed before it gets longer */
	uint64_t salt;
	struct bucket_index index;
	struct open_bucket *next;
};

/* Forgotten places whose bytes are to be given back, oldest first. */
struct dead_places {
	struct dead_place {
		struct bucket_place place;
		uint64_t since_ns; /* monotonic */
	} * all;
	size_t count, room;
};

struct buckets {
	struct io *io;
	char *path; /* of the buckets' directory, for messages */
	int parent_fd;
	int lock_fd;
	int fd; /* of the buckets' directory */
	uint64_t cap_bytes;
	uint64_t reserve_bytes;
	unsigned cap_percent;
	unsigned fds_max;
	struct format_superblock superblock; /* the writer's */

	/* Owned by the writer. */
	struct open_bucket *open;      /* where the next batch goes, or NULL */
	struct open_bucket *abandoned; /* to be ended once they have settled */
	bool recovered;		       /* the newest bucket was looked at */
	bool directory_unsynced;
	bool can_allocate;

	/* Shared, guarded by `lock`. */
	pthread_mutex_t lock;
	pthread_cond_t put;    /* a reference was given back */
	struct bucket **table; /* by id, ascending */
	size_t count, capacity;
	size_t hand;	       /* where to look for a file to close */
	unsigned fds;	       /* open files */
	unsigned references;   /* besides the table's */
	struct bucket *graves; /* dropped and free: their files wait to be
				  closed by a thread that may block */
	bool buffered;	       /* O_DIRECT was refused */
	struct dead_places dead;
	uint64_t room_until_ns; /* when cap_now_bytes is to be renewed */
	uint64_t cap_now_bytes;
	struct buckets_stats stats; /* file_bytes and counters; the rest is
				       worked out when asked for */
};

/* ---- bucket.c: the table ---- */

void bucket_file_name(uint32_t id, char name[BUCKET_NAME_BYTES]);
/* A new reference, with fd open; -ENOENT: dropped or missing; -errno. */
int bucket_get(struct buckets *buckets, uint32_t id, struct bucket **ret);
/* Any thread; never blocks. */
void bucket_put(struct bucket *bucket);
/* Makes the next file, with a reference for the caller. */
int bucket_create(struct buckets *buckets, struct bucket **ret);
/* Removes the file; the number may be given out again if `unused`. */
int bucket_remove(struct buckets *buckets, uint32_t id, bool unused);
/* Called with the lock held. */
struct bucket *bucket_newest(const struct buckets *buckets);
/* Opens a bucket's file, with O_DIRECT unless that was refused. */
int bucket_open_file(struct buckets *buckets, uint32_t id, int flags);
/* Closes what was dropped. */
void bucket_bury(struct buckets *buckets);

/* Called with the lock held; NULL: none of that number. */
struct bucket *bucket_find(const struct buckets *buckets, uint32_t id);

/* ---- bucket_reclaim.c: bytes that are given back ---- */

/* Called with the lock held. */
void bucket_dead_add(struct buckets *buckets, const struct bucket_place *place);

/* ---- bucket_room.c: the cap ---- */

/* Looks at the file system again if the last look is too old.  Called with the
 * lock held. */
void bucket_renew_cap(struct buckets *buckets);

/* ---- bucket_directory.c ---- */

/* Opens, makes and locks; fills parent_fd, lock_fd, fd, path, superblock. */
int directory_open(struct buckets *buckets, const struct buckets_config *config,
		   char *reason);
void directory_close(struct buckets *buckets);
int directory_write_superblock(struct buckets *buckets);

/* ---- bucket_disk.c: blocking requests with a deadline ---- */

struct disk_part {
	struct io_request request;
	int64_t res;
};

/* Requests that are waited for together.  What they refer to (memory of the
 * batch, a bucket) stays until the last has settled, however early the waiting
 * ended. */
struct disk_batch {
	struct buckets *buckets;
	struct bucket *bucket; /* a reference, or NULL */
	void *buffer;	       /* the batch's, 4 KiB-aligned, or NULL */
	struct iovec *vectors; /* the batch's, or NULL */
	unsigned count, capacity;
	bool writes;

	pthread_mutex_t lock; /* guards the rest, and each part's res */
	pthread_cond_t progress;
	unsigned unanswered, unsettled;
	unsigned late; /* past the deadline: these settle some day */
	bool left;     /* by its owner: the last to settle frees it */
	int error;     /* the first */
	struct disk_part parts[];
};

/* NULL: no memory.  `bucket` may be NULL. */
struct disk_batch *disk_batch_new(struct buckets *buckets,
				  struct bucket *bucket, unsigned capacity,
				  size_t buffer_bytes, unsigned vector_count);
struct disk_part *disk_batch_add(struct disk_batch *batch,
				 enum io_operation operation, int fd,
				 void *data, uint32_t len_bytes,
				 uint64_t offset_bytes);
/* Submits all and waits until each has settled or passed the deadline: 0, or
 * the first -errno. */
int disk_batch_run(struct disk_batch *batch, uint64_t deadline_ns);
void disk_batch_put(struct disk_batch *batch);
/* One request without memory of its own (IO_SYNC, IO_ALLOCATE). */
int disk_run(struct buckets *buckets, struct bucket *bucket, int fd,
	     enum io_operation operation, uint64_t offset_bytes,
	     uint32_t len_bytes, uint64_t deadline_ns);
/* Reads into the buffer of a new batch, which the caller puts: bytes read (less
 * than len_bytes at the end of the file), or -errno. */
int64_t disk_read(struct buckets *buckets, struct bucket *bucket,
		  uint64_t offset_bytes, uint32_t len_bytes,
		  struct disk_batch **ret);

/* ---- bucket_scan.c ---- */

/* What is in a bucket, from its footer or from its headers. */
struct bucket_contents {
	struct bucket_index index;
	uint32_t end_block; /* after the last whole record */
	uint32_t durable_block;
	uint64_t salt; /* 0: no record */
	bool sealed;
	bool torn; /* there is something after end_block */
	uint64_t damaged;
	uint32_t damaged_block; /* the first */
};

/* -errno: can't be read. */
int contents_load(struct buckets *buckets, struct bucket *bucket,
		  struct bucket_contents *ret);
void contents_release(struct bucket_contents *contents);
/* Adds an encoded header to an index: 0 or -ENOMEM. */
int index_add(struct bucket_index *index, const struct bucket_record *record,
	      const void *header, uint32_t block);

/* ---- bucket_append.c ---- */

void bucket_set_file_bytes(struct bucket *bucket, uint64_t bytes);
/* Ends what was given up and has settled since. */
void writer_tidy(struct buckets *buckets);
void writer_close(struct buckets *buckets);

#endif
