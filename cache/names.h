/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_NAMES_H
#define PAGEFS_CACHE_NAMES_H

/*
 * What names_*.c, objects.c, facts.c and the write-behind share: directories
 * as entries, and from an object to all of its names.  Each function works
 * within the caller's transaction.
 *
 * The root directory has no name; its entry is the value "root".  An object
 * with several names (hard links) has its objects row lead to one, and the
 * others stand among its attributes, under names that no xattr can have.
 */

#include "cache/internal.h"

/* A directory's entry, links and parent (the root's parent is the root): 0,
 * META_ABSENT when it is gone, -ENOTDIR.  The last two may be NULL. */
int names_dir_get(struct meta_txn *txn, uint64_t dir, struct meta_entry *ret,
		  uint32_t *ret_links, uint64_t *ret_parent);
int names_dir_put(struct meta_txn *txn, uint64_t dir,
		  const struct meta_entry *entry);
/* One subdirectory more or fewer. */
int names_dir_links(struct meta_txn *txn, uint64_t dir, int change);
/* Makes the root where there is none yet. */
int names_root_make(struct cache *cache, struct meta_txn *txn);

/* Is the directory `dir` below (or the same as) the directory `above`? */
bool names_below(struct meta_txn *txn, uint64_t dir, uint64_t above);

int64_t names_now_ns(void);

/* A committed name's entry, in a transaction of its own: 0, CACHE_MISS. */
int names_find(struct cache *cache, const struct cache_name *name,
	       struct meta_entry *ret);
/* Does the negative cache hide the name? */
bool names_hidden(struct cache *cache, const struct cache_name *name);
/* Something was put there: the negative cache hides it no longer. */
void names_shown(struct cache *cache, const struct cache_name *name);

/* A file's name is about to be deleted: tells the journal, if a bucket knows
 * of the name, and leaves a tombstone. */
int names_forget(struct cache *cache, struct meta_txn *txn,
		 const struct cache_name *name, const struct meta_entry *entry);
/* Removes an empty directory: 0, -ENOTEMPTY. */
int names_remove_dir(struct cache *cache, struct meta_txn *txn,
		     const struct cache_name *name, uint64_t dir);

/* One of the names of an object. */
struct object_name {
	uint64_t dir;
	uint64_t hash;
	size_t len;
	char name[NAME_MAX_BYTES + 1];
	struct meta_entry entry;
};

/* Calls `each` for every name of an object; it may change the tables.  0, or
 * the first non-zero result. */
int object_each_name(struct meta_txn *txn, uint64_t object,
		     int (*each)(void *arg, const struct object_name *name),
		     void *arg);
/* A new object gets its first name; one that has some, another: 0, -EMLINK. */
int object_name_add(struct meta_txn *txn, uint64_t object, uint64_t dir,
		    uint64_t hash, bool directory);
/* The row of one name has moved. */
int object_name_move(struct meta_txn *txn, uint64_t object, uint64_t from_dir,
		     uint64_t from_hash, uint64_t to_dir, uint64_t to_hash);
bool object_is_link_row(const char *attr, size_t len);

/* Is the entry's page to be written by the write-behind still?  Then its name
 * goes out with its chunks. */
static inline bool entry_pending(const struct cache *cache,
				 const struct meta_entry *entry)
{
	return cache->buckets && entry->type == META_FILE && entry->chunks &&
	       !(entry->flags & META_ON_DISK);
}

#endif
