/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TESTS_CRASH_SHARED_H
#define PAGEFS_TESTS_CRASH_SHARED_H

/*
 * Keys that all workers change at once, by temporary page and rename, and by
 * unlink.  Each change is noted with when it began and when it was
 * acknowledged.  A key may hold what any of them left, but for one that
 * another, begun after its acknowledgement, has replaced.
 */

#include "tests/crash/load.h"

#define SHARED_KEYS 4u
#define SHARED_CHANGES 192u

struct shared_change {
	struct page_state state;
	uint64_t begun;
	uint64_t done; /* UINT64_MAX: not acknowledged */
};

struct shared_key {
	struct shared_change changes[SHARED_CHANGES];
	size_t count;
};

struct shared {
	const char *mount;
	pthread_mutex_t lock; /* guards the rest */
	uint64_t now;
	struct shared_key keys[SHARED_KEYS];
};

void shared_init(struct shared *shared, const char *mount);
void shared_path(const struct shared *shared, unsigned key,
		 char ret[LOAD_PATH]);
/* 0 or an errno. */
int shared_operation(struct worker *worker);
/* After a kill: was what was found possible?  Then it is what counts from here
 * on; memory_is_gone: and it is on disk. */
bool shared_settle(struct shared *shared, unsigned key, bool memory_is_gone,
		   const uint8_t *found, ssize_t len, uint8_t *scratch);
/* Nothing is being changed, and all of it is on disk. */
void shared_confirm(struct shared *shared);

#endif
