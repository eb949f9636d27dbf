/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_SOURCE_H
#define PAGEFS_CACHE_SOURCE_H

/*
 * Where pages come from that are not on this host: the seam at which peers
 * will stand.  cache_lookup() asks a source for names that our own index
 * does not have, waits for at most lookup_wait_ms, and then says "no such
 * name, ask again": a directory's lock is held in the kernel meanwhile.
 */

#include <stdint.h>

#include "meta/entry.h"

struct cache_source {
	/* Starts a look-up of a key; `answer` is called exactly once, from any
	 * thread, perhaps before this returns: outcome 0 (and the entry),
	 * CACHE_MISS, or -errno.  After `deadline_ns` nobody waits for it. */
	void (*lookup)(void *self, const char *key, size_t key_bytes,
		       uint64_t deadline_ns,
		       void (*answer)(void *arg, int outcome,
				      const struct meta_entry *entry),
		       void *arg);
	void *self;
};

#endif
