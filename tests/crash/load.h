/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TESTS_CRASH_LOAD_H
#define PAGEFS_TESTS_CRASH_LOAD_H

/*
 * What goes on when the daemon is killed.  Each worker has a directory of its
 * own, whose keys only it changes, so that it knows what they hold (load.c);
 * a few more keys are changed by all at once (shared.c).  Before each
 * operation its outcome is noted as tried, and after it as acknowledged.
 */

#include <pthread.h>

#include "tests/crash/model.h"

#define LOAD_KEYS 12u /* a worker */
#define LOAD_PATH 200u

struct shared;

struct worker {
	const char *mount;
	struct shared *shared;
	_Atomic bool *killed; /* the daemon: from here on calls may fail */
	unsigned number;
	uint64_t random;
	uint64_t generation; /* the last */
	struct key_history keys[LOAD_KEYS];
	/* Its directory has one of two names.  Until a rename is synced, a
	 * crash may lead back. */
	bool second_name, to_second;
	enum {
		NOT_RENAMED,
		RENAMING,
		RENAMED
	} renaming;
	/* Of a rename from key to key: both have changed, or none. */
	int moving_from, moving_to;

	/* Of one round. */
	pthread_t thread;
	uint64_t operations;
	bool interrupted; /* the kill cut an operation off */
	int unexpected;	  /* errno of one that failed otherwise */
	const char *at;	  /* what it was doing */
	char wrong[200];  /* a page was not what it must be */
	uint8_t *buffer, *scratch;
};

/* 0 or -1. */
int worker_init(struct worker *worker, unsigned number, uint64_t seed);
void worker_release(struct worker *worker);
uint64_t worker_generation(struct worker *worker);

void worker_dir(const struct worker *worker, bool second, char ret[LOAD_PATH]);
void worker_path(const struct worker *worker, unsigned key,
		 char ret[LOAD_PATH]);

/* The thread: works until an operation fails. */
void *worker_run(void *arg);

/* Helpers of operations: 0 or an errno. */
int load_write(struct worker *worker, const char *path,
	       const struct page_state *state, bool sync);
int load_sync(const char *path);

#endif
