/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_BENCH_SAMPLES_H
#define PAGEFS_TOOLS_BENCH_SAMPLES_H

/*
 * A growing set of measured times, and its percentiles. Not thread-safe: each
 * worker has its own, merged at the end.
 */

#include <stddef.h>
#include <stdint.h>

struct samples {
	uint64_t *values_ns;
	size_t count;
	size_t room;
};

/* 0 or -ENOMEM; a zeroed struct is an empty set. */
int samples_add(struct samples *samples, uint64_t value_ns);
int samples_merge(struct samples *into, const struct samples *from);
/* ratio 0.5 is the median; the set is sorted by it. 0 for an empty set. */
uint64_t samples_percentile(struct samples *samples, double ratio);
uint64_t samples_mean(const struct samples *samples);
void samples_release(struct samples *samples);

#endif
