/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_RECOVER_H
#define PAGEFS_CACHE_RECOVER_H

/*
 * What recover*.c and rebuild*.c share.  At start, before any other thread of
 * the cache runs; fsck uses it on a directory that nobody has mounted.
 */

#include "cache/internal.h"

struct object_list {
	uint64_t *all;
	size_t count, room;
};
/* One that equals the last is left out.  0 or -ENOMEM. */
int object_list_add(struct object_list *list, uint64_t object);

struct id_list {
	struct chunk_id *all;
	size_t count, room;
};
int id_list_add(struct id_list *list, const struct chunk_id *id);
/* Deletes these rows, a bounded number a transaction. */
int id_list_delete(struct cache *cache, enum meta_tier tier,
		   const struct id_list *list);

/* Tells the buckets what is live in them; drops the rows that lead to buckets
 * which are not there, and adds their objects to the suspects. */
int recover_buckets(struct cache *cache, struct object_list *suspects);
/* Drops those of these pages that are not whole. */
int recover_drop_lost(struct cache *cache, struct object_list *suspects);

#endif
