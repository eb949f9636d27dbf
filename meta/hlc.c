/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/hlc.h"

#include <errno.h>
#include <stdatomic.h>

#define HLC_COUNTER_BITS 16

/* Relaxed throughout: the clock orders versions, and publishes no memory. */

void hlc_init(struct hlc *hlc, uint64_t node, uint64_t last)
{
	atomic_init(&hlc->last, last);
	hlc->node = node;
}

struct page_version hlc_next(struct hlc *hlc, uint64_t now_ms)
{
	uint64_t wall = now_ms << HLC_COUNTER_BITS;
	uint64_t last = atomic_load_explicit(&hlc->last, memory_order_relaxed);
	uint64_t next;

	/* A counter that runs over carries into the milliseconds: the clock is
	 * ahead of the wall for a while then, and still unique. */
	do {
		next = wall > last ? wall : last + 1;
	} while (!atomic_compare_exchange_weak_explicit(&hlc->last, &last, next,
							memory_order_relaxed,
							memory_order_relaxed));
	return (struct page_version){.clock = next, .node = hlc->node};
}

int hlc_merge(struct hlc *hlc, uint64_t clock, uint64_t now_ms)
{
	uint64_t last;

	if (clock >> HLC_COUNTER_BITS > now_ms + HLC_MAX_AHEAD_MS)
		return -ERANGE;
	last = atomic_load_explicit(&hlc->last, memory_order_relaxed);
	while (clock > last &&
	       !atomic_compare_exchange_weak_explicit(&hlc->last, &last, clock,
						      memory_order_relaxed,
						      memory_order_relaxed))
		;
	return 0;
}
