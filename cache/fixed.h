/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_FIXED_H
#define PAGEFS_CACHE_FIXED_H

/*
 * Keeps the arena's memory registered with the disk ring, so that reads go into
 * fixed buffers.  The evictor's thread looks now and then whether slots have
 * been mapped since; a slot that isn't registered yet is read into all the
 * same.  Before a region's memory is unmapped, the arena tells the ring itself.
 * Nothing here ever fails an operation.
 */

#include <stdint.h>

struct cache;
struct fixed;

/* *ret NULL: there is nothing to register with.  0 or -ENOMEM. */
int fixed_new(struct cache *cache, struct fixed **ret);
void fixed_free(struct fixed *fixed);
/* Evictor's thread.  Returns when it wants to be called again at the latest:
 * monotonic, UINT64_MAX: when slots have been mapped.  NULL is fine. */
uint64_t fixed_work(struct fixed *fixed, uint64_t now_ns);

#endif
