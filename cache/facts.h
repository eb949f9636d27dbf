/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_FACTS_H
#define PAGEFS_CACHE_FACTS_H

/*
 * Encoding of facts, for the journal's queue and for the records of pages.
 * Within the caller's transaction; nothing is kept.
 */

#include "cache/internal.h"

/* Among the xattrs of a page's SET stands, under this name, which chunks it
 * consists of (8 bytes, chunk_sum()): after a rebuild, rows that are lost must
 * not be made up for by older ones that were found. */
#define FACT_CHUNKS_XATTR "\x02chunks"

/* The sum over (index, version) of the chunks that the page consists of, and
 * how many there are, as far as the index has their rows in the tiers asked
 * for. */
int chunk_sum(struct cache *cache, struct meta_txn *txn,
	      const struct meta_entry *entry, bool memory, uint64_t *ret_sum,
	      uint32_t *ret_count);

/* Encodes SET: the entry under this key, with its xattrs and target.  The
 * flags that only mean something on this side of a rebuild are left out.  0
 * and malloc'ed bytes, or -errno. */
int fact_encode_set(struct cache *cache, struct meta_txn *txn, const char *key,
		    size_t key_bytes, const struct page_version *at,
		    const struct meta_entry *entry, void **ret,
		    size_t *ret_bytes);
/* Queues MOVED. */
int fact_queue_moved(struct cache *cache, struct meta_txn *txn,
		     const char *from, size_t from_bytes, const char *to,
		     size_t to_bytes);
/* The key of a name; the root's, whose name is empty, is empty. */
int fact_key(struct meta_txn *txn, const struct cache_name *name,
	     char ret[KEY_MAX_BYTES], size_t *ret_len);

#endif
