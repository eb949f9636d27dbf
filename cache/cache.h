/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_CACHE_H
#define PAGEFS_CACHE_CACHE_H

/*
 * What is asked for and what comes back.  cache/ puts the index (meta/) and
 * the tiers (store/) together: names, open pages, writers, the negative
 * cache, eviction, write-behind, recovery.  fs/ turns its outcomes into errno
 * for the kernel.
 *
 * Threads: every function may be called from any thread.  Those that may wait
 * say so, and never wait past their deadline.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "meta/entry.h"
#include "tools/lib/page.h"

struct cache;
struct cache_source; /* cache/source.h */

/* Expected outcomes of the functions of this folder; errors are -errno. */
enum cache_outcome {
	CACHE_MISS = 1,	  /* no such name, or its page is lost */
	CACHE_HIDDEN = 2, /* the negative cache hides the name */
	CACHE_STAGED = 3, /* not committed yet; the caller has it open for
			     writing */
	CACHE_FAILED = 4, /* a get failed; the key is in the negative cache
			     now (unless that is off) */
	CACHE_BUSY = 5,	  /* our own reasons (memory full of pinned pages,
			     shutting down): a miss, and nothing is remembered */
	CACHE_STALE = 6,  /* open: that version is not the current one any
			     more: look the name up again */
	CACHE_MORE = 7,	  /* part of it was done: call again */
};

/* A name: a component below a directory (by its object number). */
struct cache_name {
	uint64_t dir;
	const char *name; /* not terminated */
	size_t len;
};

struct cache_config {
	uint64_t memory_bytes;
	const char *memory_dir; /* from arena_place(), or any directory in
				   tests: arena and memory index live there */
	bool slot_files;
	const char *disk_dir; /* NULL: no disk tier */
	uint64_t disk_cap_bytes;
	unsigned disk_cap_percent;
	uint64_t disk_reserve_bytes; /* 0: 5% of the file system */
	bool io_uring;		     /* false: off; true: where it works */
	unsigned io_depth;
	double eviction_high_watermark_ratio;
	double eviction_ratio;
	unsigned writeback_max_ms;
	uint64_t open_fetch_max_bytes;
	unsigned chunk_shift; /* largest chunk; CHUNK_SHIFT_MAX */
	double failed_get_ttl_seconds;
	unsigned failed_get_cache_max_entries;
	unsigned lookup_wait_ms;
	unsigned miss_timeout_ms;
	bool show_partial;
	const char *temporary_names; /* patterns, ':' between; fnmatch(3) */
	unsigned stop_timeout_ms;    /* write-behind at stop */
	const struct cache_source *source; /* other hosts; NULL: none */
	/* A name's entry in the kernel is out of date (committed over, lost,
	 * hidden by the negative cache, or shown again; a commit by
	 * cache_stage_flush() tells its caller instead).  Called from any
	 * thread, under no lock of ours; must not call back or wait. */
	void (*changed)(void *arg, const struct cache_name *name);
	void *changed_arg;
};

/* The defaults of every field but the directories and sizes. */
void cache_config_defaults(struct cache_config *config);

/* Opens the tiers and the index, recovers them, starts the threads.  0 or
 * -errno; ret_reason (512 bytes) says in one line what is wrong and what to
 * do about it. */
int cache_open(const struct cache_config *config, struct cache **ret,
	       char *ret_reason);
/* From here on opens say CACHE_BUSY; write-behind goes on. */
void cache_shutdown_begin(struct cache *cache);
/* Finishes write-behind (up to stop_timeout_ms; what is left is counted and
 * logged), stops the threads, closes.  keep_memory: the arena stays for the
 * next start.  No page or writer is open any more. */
void cache_close(struct cache *cache, bool keep_memory);

/* ---- names (cache/names.c): none of these waits for a disk read ---- */

struct cache_found {
	struct meta_entry entry;
	uint32_t links;
	/* How long the kernel may keep the answer: of a hit, a miss or a
	 * hidden name.  UINT64_MAX: until it is told.  Always 0 while the name
	 * is staged, whoever asks and whatever he is told: fs/ asks first with
	 * process 0, and finds out the process only where this is 0. */
	uint64_t ttl_ns;
	/* CACHE_STAGED: referenced; cache_staging_put() gives it back. */
	struct cache_staging *staging;
};

/* process: the thread group that asks; a staged name shows itself only to
 * those that write it (or to all, with show_partial).  0, CACHE_MISS,
 * CACHE_HIDDEN, CACHE_STAGED; waits at most lookup_wait_ms, and only for a
 * source. */
int cache_lookup(struct cache *cache, const struct cache_name *name,
		 pid_t process, struct cache_found *ret);
/* The root directory's entry, and any directory's by its object number. */
int cache_directory(struct cache *cache, uint64_t dir, struct cache_found *ret,
		    uint64_t *ret_parent);

struct cache_creator {
	uid_t uid;
	gid_t gid;
	mode_t mode; /* permission bits, umask applied */
};
/* 0; -EEXIST (also for a staged name, to all); -ENOENT: the directory is
 * gone; -ENAMETOOLONG; -ENOSPC. */
int cache_mkdir(struct cache *cache, const struct cache_name *name,
		const struct cache_creator *creator, struct cache_found *ret);
int cache_symlink(struct cache *cache, const struct cache_name *name,
		  const char *target, const struct cache_creator *creator,
		  struct cache_found *ret);
int cache_readlink(struct cache *cache, uint64_t object, char *ret,
		   size_t size);
/* 0; CACHE_MISS (also for hidden names); -EISDIR, -ENOTDIR; -ENOTEMPTY (a
 * staged name in it counts, too). */
int cache_unlink(struct cache *cache, const struct cache_name *name);
int cache_rmdir(struct cache *cache, const struct cache_name *name);
/* As rename(2) with RENAME_NOREPLACE and RENAME_EXCHANGE; staged pages move
 * with their writers at work.  0, CACHE_MISS, -EEXIST, -EISDIR, -ENOTDIR,
 * -ENOTEMPTY, -EINVAL (a directory below itself). */
int cache_rename(struct cache *cache, const struct cache_name *from,
		 const struct cache_name *to, unsigned flags);
/* A second name that shares the chunks; each is overwritten by itself. */
int cache_link(struct cache *cache, const struct cache_name *from,
	       const struct cache_name *to, struct cache_found *ret);

/* What the operator removes, hidden names and what the negative cache holds of
 * them too; with `recursive` a directory and all that is below it (name NULL:
 * everything), at most `max` names a call.  0; CACHE_MORE: call again;
 * CACHE_MISS; -EISDIR (NULL, not recursive); -ENOTEMPTY (not recursive, or a
 * page below it is being written).  Tells the kernel through `changed`. */
int cache_remove(struct cache *cache, const struct cache_name *name,
		 bool recursive, unsigned max);

enum cache_attr {
	CACHE_SET_MODE = 1 << 0,
	CACHE_SET_UID = 1 << 1,
	CACHE_SET_GID = 1 << 2,
	CACHE_SET_ATIME = 1 << 3,
	CACHE_SET_MTIME = 1 << 4,
};
/* Changes the entry if it still leads to `object`; CACHE_MISS otherwise. */
int cache_set_attributes(struct cache *cache, const struct cache_name *name,
			 uint64_t object, unsigned which,
			 const struct meta_entry *values,
			 struct cache_found *ret);

/* xattrs of a committed object ("user.*" and whatever fs/ lets through).
 * get: length, or -ENODATA; size 0 asks for the length; -ERANGE.  list: names
 * with their NULs. */
ssize_t cache_xattr_get(struct cache *cache, uint64_t object, const char *name,
			void *ret, size_t size);
ssize_t cache_xattr_list(struct cache *cache, uint64_t object, char *ret,
			 size_t size);
/* flags as setxattr(2).  value NULL removes. */
int cache_xattr_set(struct cache *cache, const struct cache_name *name,
		    uint64_t object, const char *xattr, const void *value,
		    size_t len, int flags);

/* Names of a directory, resumable: see meta_list().  Hidden and staged names
 * are left out. */
int cache_list(struct cache *cache, uint64_t dir, uint64_t after,
	       const char *after_name, size_t after_len,
	       int (*each)(void *arg, uint64_t cookie, const char *name,
			   size_t len, const struct meta_entry *entry),
	       void *arg);
/* The full key of a name, for messages and logs. */
int cache_key(struct cache *cache, const struct cache_name *name,
	      char ret[KEY_MAX_BYTES], size_t *ret_len);
/* Resolves a full key to a name (its last component points into key). */
int cache_resolve(struct cache *cache, const char *key, size_t len,
		  struct cache_name *ret);

/* ---- open pages (cache/page.c) ---- */

struct cache_page; /* one version, open: immutable, counted, shared */

/* Opens the version that `found` (from cache_lookup()) describes and gets its
 * bytes ready: pages up to open_fetch_max are complete, checked and pinned
 * when `opened` is called.  outcome: 0 and a page; CACHE_MISS, CACHE_FAILED,
 * CACHE_BUSY, CACHE_STALE and NULL.  `opened` is called exactly once, by the
 * deadline: before this returns when the page is in memory, else from a
 * thread of the cache. */
typedef void cache_opened_fn(void *arg, int outcome, struct cache_page *page);
void cache_page_open(struct cache *cache, const struct cache_name *name,
		     const struct meta_entry *entry, cache_opened_fn *opened,
		     void *arg);
/* One more reference; close gives one back. */
void cache_page_ref(struct cache_page *page);
void cache_page_close(struct cache_page *page);
const struct meta_entry *cache_page_entry(const struct cache_page *page);

/* Reads: `done` is called exactly once, with the bytes where they lie (holes
 * point at zeroes), valid until it returns; result: bytes (short at the end of
 * the page), or -EIO, -ETIMEDOUT (only pages larger than open_fetch_max).
 * len_bytes up to 1 MiB gives at most 8 pieces. */
typedef void cache_read_fn(void *arg, ssize_t result, const struct iovec *iov,
			   int count);
void cache_page_read(struct cache_page *page, uint64_t offset, size_t len_bytes,
		     cache_read_fn *done, void *arg);
/* SEEK_DATA / SEEK_HOLE: the offset, or -ENXIO. */
off_t cache_page_seek(struct cache_page *page, off_t offset, int whence);

/* ---- facts about a page, for xattrs and `pagefs stat` ---- */

struct cache_facts {
	bool in_memory; /* all of it */
	bool on_disk;	/* all of it */
	uint64_t memory_bytes;
	uint64_t disk_bytes;
	struct page_version version;
	uint64_t checksum; /* of its chunks' checksums */
	uint64_t hits; /* opens for reading since this start, as far as they are
			  remembered: those of some 10,000 pages */
};
int cache_get_facts(struct cache *cache, const struct meta_entry *entry,
		    struct cache_facts *ret);

/* ---- the operator's hand ---- */

/* Writes what is pending, then drops the page (or all pages: NULL) from the
 * memory tier, pinned ones aside: 0, CACHE_MISS, -ENOTSUP (no disk tier),
 * -ETIMEDOUT. */
int cache_evict(struct cache *cache, const struct cache_name *name);
/* Everything committed so far is in buckets and synced. */
int cache_sync(struct cache *cache);

struct cache_stats {
	uint64_t opens, hits_memory, hits_disk, hits_empty, misses, failures,
		busy, stale;
	uint64_t commits, bytes_committed, aborted_writers;
	uint64_t evicted_pages, evicted_bytes, lost_pages;
	uint64_t checksum_errors, disk_errors, timeouts;
	uint64_t refused_reads; /* too much of the arena is in late ones */
	uint64_t pending_pages, pending_bytes, written_pages, written_bytes;
	uint64_t write_errors;
	uint64_t waits_for_memory, no_space;
	uint64_t fetches, fetches_shared;
	uint64_t open_pages, open_writers;
	bool disk_alarm; /* writing fails; what to do stands in the log */
};
void cache_get_stats(struct cache *cache, struct cache_stats *ret);

struct cache_space { /* for statfs */
	uint64_t total_bytes, free_bytes, available_bytes;
	uint64_t pages, pages_free;
};
void cache_get_space(struct cache *cache, struct cache_space *ret);

/* The parts, for fs/'s control files and for tests. */
struct arena;
struct buckets;
struct io;
struct meta;
struct negative;
struct arena *cache_arena(struct cache *cache);
struct buckets *cache_buckets(struct cache *cache); /* NULL: no disk tier */
struct io *cache_io(struct cache *cache);	    /* NULL likewise */
struct meta *cache_meta(struct cache *cache);
struct negative *cache_negative(struct cache *cache);

#include "cache/negative.h"
#include "cache/source.h"
#include "cache/staging.h"

#endif
