/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_NAMES_SOURCE_H
#define PAGEFS_CACHE_NAMES_SOURCE_H

/*
 * Names that are not in our index: asked for at the source, where there is
 * one, for at most lookup_wait_ms, because a directory's lock is held in the
 * kernel meanwhile.  Thread-safe.
 */

#include "cache/internal.h"

/* 0 (ret->entry), or CACHE_MISS; ret->ttl_ns is set in both cases. */
int source_lookup(struct cache *cache, const struct cache_name *name,
		  struct cache_found *ret);

#endif
