/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_BENCH_OFFLOAD_RUN_H
#define PAGEFS_TOOLS_BENCH_OFFLOAD_RUN_H

/*
 * The requests of the offload workload, and the threads that serve them
 * through a mounted directory. The same plan and seed give the same requests
 * in the same order, with the same bytes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/bench_samples.h"

/* 4,096 tokens in pages of 64, K and V apart. */
#define OFFLOAD_KEYS_PER_REQUEST 128u

struct offload_plan {
	const char *directory; /* pages go right below it */
	unsigned clients;
	unsigned rounds;
	double request_rate;   /* arrivals a second (Poisson); 0: at once */
	unsigned max_parallel; /* requests served at a time */
	bool round_barrier;    /* a round begins when all of the last ended */
	uint64_t seed;
	size_t page_bytes;
	bool progress; /* a line on stderr a round */
};

struct offload_result {
	uint64_t keys;	 /* written */
	uint64_t hits;	 /* read back, right */
	uint64_t misses; /* not there */
	uint64_t wrong;	 /* there, with other bytes */
	uint64_t errors; /* calls that failed with anything but ENOENT */
	int first_error; /* -errno of the first of these */
	struct samples get, put, request; /* ns; released by the caller */
};

/* 0 or -errno (of what kept it from running at all). */
int offload_run(const struct offload_plan *plan, struct offload_result *ret);
void offload_result_release(struct offload_result *result);

#endif
