/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_STAGING_H
#define PAGEFS_CACHE_STAGING_H

/*
 * Pages being written.  A staging page is shared by all writable handles
 * (struct cache_writer) on one name; it becomes a version of the page when
 * one of them flushes and no other writable handle is open:
 *
 *	 open(O_CREAT)      write         last flush
 *   -- --------> EMPTY ---------> DIRTY ------------> COMMITTED --+
 *                                   ^       (fsync:             | write
 *                                   |        checkpoint)        |
 *                                   +---------------------------+
 *   killed writer: -> BROKEN, dropped with its last handle.
 *   parts never written (ftruncate, fallocate, mmap): the commit waits for
 *   the last close, or for the rename that follows.
 *
 * What was never changed since the base version stays shared with it (copy on
 * write, a chunk at a time); a chunk committed by a checkpoint is immutable,
 * the next write copies it.  A page that outgrows the arena is spilled to
 * buckets as it is written.
 *
 * All functions are thread-safe; those that write may wait for memory, up to
 * the deadline of the operation, and then say -ENOSPC.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cache/cache.h"

struct cache_staging; /* counted: by writers, nodes of the kernel, look-ups */
struct cache_writer;  /* one open file description */

enum cache_stage_flags {
	CACHE_STAGE_CREATE = 1 << 0,
	CACHE_STAGE_EXCLUSIVE = 1 << 1, /* -EEXIST if committed or staged */
	CACHE_STAGE_TRUNCATE = 1 << 2,
	CACHE_STAGE_APPEND = 1 << 3,
	CACHE_STAGE_READ = 1 << 4, /* O_RDWR: the version below is made ready as
				      by cache_page_open(), so that reads
				      can't fail */
	CACHE_STAGE_PEEK = 1 << 5, /* O_RDONLY of a staged page, by a process
				      that writes it (or show_partial): no
				      writable handle, holds up no commit */
};

/* Opens a name for writing: joins the staging page there is, or begins one
 * over the committed version, or (CREATE) a new one.  creator: for a new
 * page.  0; CACHE_MISS; CACHE_HIDDEN without CREATE (with it, the new page
 * replaces the hidden one); with READ also CACHE_FAILED, CACHE_BUSY,
 * CACHE_STALE; -EEXIST, -EISDIR, -ELOOP (a symlink), -ENOENT
 * (directory gone), -ENOSPC. */
int cache_stage_open(struct cache *cache, const struct cache_name *name,
		     unsigned flags, const struct cache_creator *creator,
		     pid_t process, struct cache_writer **ret);
/* One more writer for a staging page that the caller has in hand (the kernel
 * opens a node that it was given).  CACHE_STALE: its last writer has gone;
 * look the name up again. */
int cache_stage_join(struct cache_staging *staging, unsigned flags,
		     pid_t process, struct cache_writer **ret);
/* O_TMPFILE: no name until cache_stage_link(). */
int cache_stage_anonymous(struct cache *cache, uint64_t dir,
			  const struct cache_creator *creator, pid_t process,
			  struct cache_writer **ret);
int cache_stage_link(struct cache_staging *staging, const struct cache_name *to,
		     struct cache_found *ret);

struct cache_staging *cache_writer_staging(struct cache_writer *writer);
void cache_staging_ref(struct cache_staging *staging);
void cache_staging_put(struct cache_staging *staging);

/* Attributes as they are now; its name, or false when it has none (unlinked,
 * anonymous).  ret_name has room for NAME_MAX_BYTES + 1. */
void cache_staging_entry(struct cache_staging *staging, struct meta_entry *ret,
			 uint32_t *ret_links);
bool cache_staging_name(struct cache_staging *staging, uint64_t *ret_dir,
			char *ret_name, size_t *ret_len);
/* Has that process a writable handle?  One that it has closed (RELEASE comes
 * late) counts only while what was written by it is not committed. */
bool cache_staging_has(struct cache_staging *staging, pid_t process);
/* All that was written has been committed. */
bool cache_staging_clean(struct cache_staging *staging);
/* It shows itself to that process: to those, and with show_partial to all. */
bool cache_staging_shows(struct cache_staging *staging, pid_t process);

/* len_bytes (fewer when the rest failed), or -ENOSPC, -EFBIG, -EIO (a base
 * chunk can't be read), -ETIMEDOUT.  APPEND handles write at the end, whatever
 * the offset says: *offset is updated. */
ssize_t cache_stage_write(struct cache_writer *writer, const void *data,
			  size_t len_bytes, uint64_t *offset);
/* As cache_page_read(), of what has been written and what is below it. */
void cache_stage_read(struct cache_writer *writer, uint64_t offset,
		      size_t len_bytes, cache_read_fn *done, void *arg);
int cache_stage_truncate(struct cache_staging *staging, uint64_t size_bytes);
/* mode as fallocate(2): 0, KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE; others
 * -EOPNOTSUPP. */
int cache_stage_allocate(struct cache_writer *writer, int mode, uint64_t offset,
			 uint64_t len_bytes);
off_t cache_stage_seek(struct cache_writer *writer, off_t offset, int whence);
int cache_stage_set_attributes(struct cache_staging *staging, unsigned which,
			       const struct meta_entry *values);
ssize_t cache_stage_xattr_get(struct cache_staging *staging, const char *name,
			      void *ret, size_t size);
ssize_t cache_stage_xattr_list(struct cache_staging *staging, char *ret,
			       size_t size);
int cache_stage_xattr_set(struct cache_staging *staging, const char *name,
			  const void *value, size_t len, int flags);

/* Nothing was written through this handle, and the page is empty: a flush
 * would publish that. */
bool cache_writer_untouched(struct cache_writer *writer);
/* A close of one descriptor (FUSE's FLUSH).  killed: the process is exiting
 * because of a signal; marks the staging page broken.  0, and
 * *ret_committed: a version was published; -ENOSPC, -errno: it was not, and
 * the version before stays.  So, too, when a write failed and what it should
 * have written was not written later: its error. */
int cache_stage_flush(struct cache_writer *writer, bool killed,
		      bool *ret_committed);
/* Commits a checkpoint and waits until it is on disk, where there is a disk
 * tier: 0, -EIO, -ENOSPC. */
int cache_stage_sync(struct cache_writer *writer);
/* The last close of an open file description (RELEASE): commits what came
 * after the flush, or what waited for this.  *ret_committed as above. */
void cache_stage_close(struct cache_writer *writer, bool *ret_committed);

#endif
