/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_ROWS_H
#define PAGEFS_CACHE_ROWS_H

/*
 * Rows of chunks: which of them names and open pages need, and how the others
 * go.  Within the caller's transaction.
 */

#include "cache/names.h"

struct row {
	enum meta_tier tier;
	struct chunk_id id;
	uint32_t len_bytes, slot, flags;
	struct bucket_place place;
};

struct rows {
	struct row *all;
	size_t count, room;
	enum meta_tier tier;
	uint32_t last_index;
	int error;
};

/* Rows of both tiers with first <= index <= last, by index and version.  The
 * caller frees ret->all, also after an error. */
int rows_of(struct cache *cache, struct meta_txn *txn, uint64_t object,
	    uint32_t first, uint32_t last, struct rows *ret);

/* The versions at which an object has names: gathered by object_each_name();
 * the caller frees `all`. */
struct versions {
	uint64_t *all;
	size_t count, room;
};
int versions_add(void *arg, const struct object_name *name);

/* Drops the rows before `limit` that neither these versions nor an open page
 * consist of; with `mark` those that stay are marked as superseded. */
int rows_sweep(struct cache *cache, struct meta_txn *txn,
	       const struct rows *rows, uint64_t limit, bool mark,
	       const struct versions *versions, struct cache_garbage *garbage);
int row_drop(struct meta_txn *txn, const struct row *row,
	     struct cache_garbage *garbage);

/* Does a name or an open page consist of this row?  Rows of memory stay for a
 * while after they are needed. */
bool row_wanted(struct cache *cache, struct meta_txn *txn,
		const struct meta_chunk *chunk);

/* What an object has and neither its names nor open pages need. */
int object_sweep(struct cache *cache, struct meta_txn *txn, uint64_t object,
		 struct cache_garbage *garbage);

/* Rows of memory that cache_garbage_free() has left behind. */
struct stale;
int stale_new(struct stale **ret);
void stale_free(struct stale *stale);
int stale_sweep(struct stale *stale, struct meta_txn *txn);

#endif
