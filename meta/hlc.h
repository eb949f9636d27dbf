/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_META_HLC_H
#define PAGEFS_META_HLC_H

/*
 * The hybrid logical clock that versions come from (Kulkarni et al., 2014):
 * 48 bits of milliseconds since 1970, 16 bits of counter.  It never runs
 * backwards, whatever the wall clock does, and never issues a value twice,
 * also over restarts (the index remembers the last one).  Thread-safe.
 */

#include <stdint.h>

#include "tools/lib/page.h"

#define HLC_MAX_AHEAD_MS 5000u

struct hlc {
	_Atomic uint64_t last;
	uint64_t node;
};

/* last: the highest clock known from before, 0 if none. */
void hlc_init(struct hlc *hlc, uint64_t node, uint64_t last);
/* now_ms: wall clock, milliseconds since 1970. */
struct page_version hlc_next(struct hlc *hlc, uint64_t now_ms);
/* Takes another node's clock into account: 0, or -ERANGE when it is more than
 * HLC_MAX_AHEAD_MS ahead of now_ms (then nothing changes). */
int hlc_merge(struct hlc *hlc, uint64_t clock, uint64_t now_ms);

#endif
