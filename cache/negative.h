/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_NEGATIVE_H
#define PAGEFS_CACHE_NEGATIVE_H

/*
 * The negative cache: keys whose get failed are remembered for a TTL, so that
 * repeats are answered at once (SGLang's failed-get cache, taken into the
 * file system).  It holds names only, never data, and is bounded: at the
 * bound the entry nearest its end goes first, counted when that is before its
 * time.  An entry that a caller holds (a failed OPEN that was answered with
 * ESTALE, until the look-up that follows) is not thrown out, however small
 * the cache.
 *
 * Keys are 128-bit hashes of (directory, name).  Under 100 bytes an entry.
 * Thread-safe; the batch calls take the lock once.  `now_ns` is passed in
 * (clock_monotonic_ns()).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/lib/page.h"

struct negative;

struct negative_stats {
	uint64_t entries, hits, inserts, expired, evicted_early, cleared;
};

/* max_entries 0 or ttl_ns 0: off.  0 or -ENOMEM. */
int negative_new(uint64_t ttl_ns, unsigned max_entries, struct negative **ret);
void negative_free(struct negative *negative);
/* Both may change at any time; entries keep the end they were given, but none
 * outlives a shorter TTL that is set. */
void negative_configure(struct negative *negative, uint64_t ttl_ns,
			unsigned max_entries);
bool negative_enabled(const struct negative *negative);

struct key_id negative_key(uint64_t dir, const char *name, size_t len);

/* Nanoseconds that are left, 0 if the key is not there. */
uint64_t negative_left(struct negative *negative, struct key_id key,
		       uint64_t now_ns);
/* Inserts (a key that is there gets a new end); `hold` as above.  Returns
 * false when the cache is off. */
bool negative_insert(struct negative *negative, struct key_id key,
		     uint64_t now_ns, bool hold);
/* The look-up that a held entry waited for has come. */
void negative_release(struct negative *negative, struct key_id key);
/* A get or put succeeded: true if the key was there. */
bool negative_remove(struct negative *negative, struct key_id key);

void negative_left_batch(struct negative *negative, const struct key_id *keys,
			 size_t count, uint64_t now_ns, uint64_t *ret_left);
void negative_insert_batch(struct negative *negative, const struct key_id *keys,
			   size_t count, uint64_t now_ns);
void negative_remove_batch(struct negative *negative, const struct key_id *keys,
			   size_t count);

/* Empties it; returns how many entries there were. */
size_t negative_clear(struct negative *negative);
/* Walks a copy of the entries (for `.pagefs/negative`). */
void negative_each(struct negative *negative, uint64_t now_ns,
		   void (*each)(void *arg, struct key_id key, uint64_t left_ns),
		   void *arg);
void negative_get_stats(struct negative *negative, struct negative_stats *ret);

#endif
