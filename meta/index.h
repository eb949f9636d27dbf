/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_META_INDEX_H
#define PAGEFS_META_INDEX_H

/*
 * The index: two LMDB environments and their tables.
 *
 *   table     key                            value                     where
 *   names     directory, hash, name          entry                     home
 *   objects   object                         a name of it, links       home
 *   chunks    object, index, version clock   place, length, checksums  memory
 *                                                                   and disk
 *   attrs     object, xattr name             value ("" is a symlink's  home
 *                                            target)
 *   pending   clock                          page or fact still to be  home
 *                                            written to a bucket
 *   orphans   object                         -: unlinked while open    home
 *   tombs     key id                         version, time             home
 *   buckets   bucket                         live bytes                disk
 *   stash     clock, node, serial            fact, while rebuilding    home
 *   values    name                           small settings, totals    home
 *
 * "home" is the disk environment where there is one, else the memory one.
 * Names are ordered by a 63-bit hash within their directory: the hash is the
 * readdir cookie, so a listing can be resumed under any change.  Chunk rows
 * of many versions stand side by side: a page at version V consists, for each
 * index, of the newest row not newer than V.
 *
 * The environments aren't synced by each commit (the buckets are the truth):
 * after a power loss meta_open() says META_REBUILD.  After kill -9 they are
 * whole.  A crash between the two environments' commits leaves at most chunk
 * rows that no entry leads to; eviction finds and drops those.  Memory's rows
 * belong to one home: beside a new or rebuilt one they are forgotten.
 *
 * Threads: any number of readers, one writer at a time (meta_begin_write()
 * waits).  A transaction belongs to the thread that began it.  Read
 * transactions must be short: they hold back the reuse of LMDB's pages, and
 * the growth of the map.  Each environment is looked at as it was when the
 * transaction first touched it.
 *
 * A row that can't be decoded is logged and counts as absent.  -EBADMSG from
 * any call here means that LMDB found damage: the next meta_open() rebuilds.
 * Values handed out as pointers lead into the map, valid until the
 * transaction ends or (write) changes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "meta/entry.h"
#include "tools/lib/page.h"

struct meta;
struct meta_txn;

enum meta_outcome {
	META_ABSENT = 1,  /* get: no such row */
	META_REBUILD = 2, /* open: the disk environment is new, damaged or not
			     to be trusted (power loss), and empty now: fill it
			     from the buckets if there are any */
};

struct meta_config {
	const char *memory_dir; /* on a tmpfs, beside the arena */
	const char *disk_dir;	/* DIR; the environment goes to DIR/index;
				   NULL: no disk tier */
	bool memory_fresh;	/* the arena is new: forget memory's rows */
};

/* 0 or META_REBUILD (with one log line that says why); -errno.  Clears stale
 * readers.  After an unclean stop the environments are walked in a child
 * process first, so that damage makes that child crash and not us.  Call
 * before threads start. */
int meta_open(const struct meta_config *config, struct meta **ret);
/* After META_REBUILD: the index is full again (or there were no buckets).
 * Until this is called, each meta_open() starts from nothing. */
int meta_rebuilt(struct meta *meta);
/* Syncs, marks clean, closes. */
void meta_close(struct meta *meta);
/* Makes the disk environment as durable as LMDB can: 0 or -errno. */
int meta_sync(struct meta *meta);

/* 0 or -errno (-ENOSPC: the file system under an environment is full). */
/* -EBUSY: 1,024 are open already (found when it is first used). */
int meta_begin_read(struct meta *meta, struct meta_txn **ret);
/* Waits for the writer before it, at most 10 s (-ETIMEDOUT).  A transaction may
 * change at least 8 MiB, as a rule 32; past that -ENOSPC.  A thread may hold a
 * read transaction meanwhile, but delays growth with it. */
int meta_begin_write(struct meta *meta, struct meta_txn **ret);
/* Commits memory's environment, then the home one: 0 or -errno, and nothing
 * of the home environment's part has happened then.  Ends the transaction
 * either way.  Grows the maps in time: no call returns "map full". */
int meta_commit(struct meta_txn *txn);
void meta_abort(struct meta_txn *txn); /* also ends a read; NULL is fine */

/* ---- names ---- */

/* The cookie of a name: 1 <= hash < 2^63. */
uint64_t meta_name_hash(const char *name, size_t len);

int meta_name_get(struct meta_txn *txn, uint64_t dir, const char *name,
		  size_t len, struct meta_entry *ret);
/* Inserts or replaces; keeps the totals and (for a new or replaced object)
 * nothing else: objects rows are the caller's.  The name may be empty (the
 * root's own entry, in directory 0, say). */
int meta_name_put(struct meta_txn *txn, uint64_t dir, const char *name,
		  size_t len, const struct meta_entry *entry);
int meta_name_del(struct meta_txn *txn, uint64_t dir, const char *name,
		  size_t len); /* 0 or META_ABSENT */
bool meta_dir_empty(struct meta_txn *txn, uint64_t dir);
/* Calls `each` for the names of a directory with a hash greater than
 * `after` (0: from the start), in the order of hashes; then, for
 * `after_name` not NULL, also those of hash == after that sort behind that
 * name.  `each` returns non-zero to stop. */
int meta_list(struct meta_txn *txn, uint64_t dir, uint64_t after,
	      const char *after_name, size_t after_name_len,
	      int (*each)(void *arg, uint64_t hash, const char *name,
			  size_t len, const struct meta_entry *entry),
	      void *arg);

/* ---- objects: from an object back to (one of) its names ---- */

struct meta_object {
	uint64_t dir;	/* where its name is */
	uint64_t hash;	/* of the name there */
	uint32_t links; /* names of a file; 2 + subdirectories of a directory */
};
int meta_object_get(struct meta_txn *txn, uint64_t object,
		    struct meta_object *ret);
int meta_object_put(struct meta_txn *txn, uint64_t object,
		    const struct meta_object *row);
int meta_object_del(struct meta_txn *txn, uint64_t object);
/* The name and entry that an object's row leads to: 0, or META_ABSENT when
 * that name is gone or leads to another object.  ret_name has room for
 * NAME_MAX_BYTES + 1. */
int meta_object_name(struct meta_txn *txn, uint64_t object, uint64_t *ret_dir,
		     char *ret_name, size_t *ret_len,
		     struct meta_entry *ret_entry);
/* The full key of a name: walks up to the root.  0, META_ABSENT (a directory
 * on the way is gone), -ENAMETOOLONG.  ret_key has room for KEY_MAX_BYTES. */
int meta_key(struct meta_txn *txn, uint64_t dir, const char *name, size_t len,
	     char *ret_key, size_t *ret_len);

/* ---- chunks ---- */

enum meta_tier {
	META_MEMORY,
	META_DISK
};

struct meta_chunk {
	struct chunk_id id;
	uint32_t len_bytes;
	uint32_t slot;	 /* META_MEMORY */
	uint32_t bucket; /* META_DISK */
	uint32_t data_block;
	uint32_t flags;		   /* the caller's, kept */
	const uint64_t *checksums; /* one a CHECK_BYTES block, in the host's
				      byte order for a put; from a get:
				      may be unaligned in the map, so read it
				      through meta_checksum() */
};
uint64_t meta_checksum(const struct meta_chunk *chunk, size_t block);

/* The newest row of (object, index) with version clock <= at_clock. */
int meta_chunk_get(struct meta_txn *txn, enum meta_tier tier, uint64_t object,
		   uint32_t index, uint64_t at_clock, struct meta_chunk *ret);
int meta_chunk_put(struct meta_txn *txn, enum meta_tier tier,
		   const struct meta_chunk *chunk);
int meta_chunk_del(struct meta_txn *txn, enum meta_tier tier,
		   const struct chunk_id *id); /* 0 or META_ABSENT */
/* All rows of an object from first_index on, ascending (index, version);
 * object 0: of the whole table.  `each` returns non-zero to stop; it may not
 * change the table. */
int meta_chunk_each(struct meta_txn *txn, enum meta_tier tier, uint64_t object,
		    uint32_t first_index,
		    int (*each)(void *arg, const struct meta_chunk *chunk),
		    void *arg);

/* ---- xattrs and symlink targets ---- */

int meta_attr_get(struct meta_txn *txn, uint64_t object, const char *name,
		  size_t name_len, const void **ret_value, size_t *ret_len);
int meta_attr_put(struct meta_txn *txn, uint64_t object, const char *name,
		  size_t name_len, const void *value, size_t len);
int meta_attr_del(struct meta_txn *txn, uint64_t object, const char *name,
		  size_t name_len);
int meta_attr_each(struct meta_txn *txn, uint64_t object,
		   int (*each)(void *arg, const char *name, size_t name_len,
			       const void *value, size_t len),
		   void *arg);
int meta_attr_del_all(struct meta_txn *txn, uint64_t object);
/* Gives `to` copies of what `from` has (an overwrite that keeps xattrs). */
int meta_attr_copy(struct meta_txn *txn, uint64_t from, uint64_t to);

/* ---- pending: what a bucket does not have yet, in order ---- */

enum meta_pending_kind {
	META_PENDING_PAGE = 1,
	META_PENDING_FACT = 2
};

struct meta_pending {
	uint64_t clock; /* the key: of the page's version, or the fact's */
	enum meta_pending_kind kind;
	uint64_t object;  /* PAGE: commit (object, clock) must be written */
	const void *fact; /* FACT: encoded */
	size_t fact_bytes;
};
int meta_pending_put(struct meta_txn *txn, const struct meta_pending *row);
int meta_pending_del(struct meta_txn *txn, uint64_t clock);
/* Rows with a clock greater than `after`, ascending. */
int meta_pending_each(struct meta_txn *txn, uint64_t after,
		      int (*each)(void *arg, const struct meta_pending *row),
		      void *arg);

/* ---- the rest ---- */

int meta_orphan_put(struct meta_txn *txn, uint64_t object);
int meta_orphan_del(struct meta_txn *txn, uint64_t object);
int meta_orphan_each(struct meta_txn *txn,
		     int (*each)(void *arg, uint64_t object), void *arg);

int meta_tomb_put(struct meta_txn *txn, const struct key_id *id,
		  const struct page_version *version, int64_t at_ns);
int meta_tomb_get(struct meta_txn *txn, const struct key_id *id,
		  struct page_version *ret);
/* Drops up to max tombstones older than before_ns; returns how many.  Looks at
 * 1024 + 16 * max rows and goes on there the next time: 0 does not mean that
 * there are no more. */
int meta_tomb_sweep(struct meta_txn *txn, int64_t before_ns, unsigned max);

int meta_bucket_add(struct meta_txn *txn, uint32_t bucket, int64_t bytes);
int meta_bucket_del(struct meta_txn *txn, uint32_t bucket);
int meta_bucket_each(struct meta_txn *txn,
		     int (*each)(void *arg, uint32_t bucket, uint64_t live),
		     void *arg);

/* Facts stashed during a rebuild, given back in the order of `at`. */
int meta_stash_put(struct meta_txn *txn, const struct page_version *at,
		   uint32_t serial, const void *fact, size_t len);
/* From the stash's start, up to `max` facts, each deleted once shown; 0 when
 * the stash is empty, else 1. */
int meta_stash_take(struct meta_txn *txn, unsigned max,
		    int (*each)(void *arg, const void *fact, size_t len),
		    void *arg);

/* Small values by name (at most 511 bytes): 0 or META_ABSENT (also when it has
 * another length).  Names that begin with "meta." are ours. */
int meta_value_get(struct meta_txn *txn, const char *name, void *ret,
		   size_t len);
int meta_value_put(struct meta_txn *txn, const char *name, const void *value,
		   size_t len);

/* Kept with every change of names, in the same transaction. */
struct meta_totals {
	uint64_t pages;	      /* names of files */
	uint64_t directories; /* META_ROOT not counted */
	uint64_t symlinks;
	uint64_t logical_bytes; /* sum of stored_bytes over names */
};
int meta_get_totals(struct meta_txn *txn, struct meta_totals *ret);

struct meta_stats {
	uint64_t memory_bytes; /* the memory environment's file */
	uint64_t disk_bytes;
	uint64_t map_bytes;
	uint32_t readers;
};
int meta_get_stats(struct meta *meta, struct meta_stats *ret);

#endif
