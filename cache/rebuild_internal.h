/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_REBUILD_INTERNAL_H
#define PAGEFS_CACHE_REBUILD_INTERNAL_H

/*
 * Building the index from the buckets, in four passes: the buckets are read
 * (rebuild.c), their facts applied in the order of their clocks
 * (rebuild_apply.c), and then, in rebuild_check.c, the tree is walked (objects
 * rows, links; pages that are not whole go) and rows that no name needs are
 * dropped.  One thread; nothing else uses the index meanwhile.
 */

#include "cache/names.h"

#define REBUILD_STEPS 4096u /* changes in one transaction, about */
#define REBUILD_FACTS 256u  /* taken at once */

struct rebuild {
	struct cache *cache;
	struct meta_txn *txn; /* NULL between transactions */
	unsigned steps;
	uint32_t serial;
	uint64_t last_clock;
	struct page_version moved_at; /* the last MOVED that was applied */
	uint64_t records, facts, names, lost, damaged;
	int error; /* in a callback */
};

/* A transaction to make one more change in: rebuild->txn.  0 or -errno. */
int rebuild_step(struct rebuild *rebuild);
int rebuild_flush(struct rebuild *rebuild);

int rebuild_apply(struct rebuild *rebuild, const struct meta_fact *fact);
int rebuild_names(struct rebuild *rebuild);
int rebuild_chunks(struct rebuild *rebuild);

/* Until the tree has been walked, what a version consists of (chunk_sum())
 * stands among its object's attributes under this name. */
#define SUM_ATTR_BYTES 9u
void rebuild_sum_attr(uint64_t clock, char ret[SUM_ATTR_BYTES]);
bool rebuild_is_sum_attr(const char *name, size_t len);

int cache_rebuild_count(struct cache *cache, struct rebuild *ret);

#endif
