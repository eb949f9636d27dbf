/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_CACHE_FETCH_H
#define PAGEFS_CACHE_FETCH_H

/*
 * A chunk on its way from a bucket into a slot, for the files fetch*.c.
 *
 *	STARTING --> READING --> LOADED (row not written yet) --> ENDED
 *	    |  ^        |                                           ^
 *	    v  |        `-------------------------------------------|
 *	   HUNGRY (waits for a slot) -------------------------------'
 *
 * One fetch a chunk is in the table, from STARTING until ENDED; it answers all
 * who want that chunk meanwhile. The struct of one who joins serves as his
 * place in the list of waiters. A read that missed its deadline has ENDED, but
 * its struct and its slot (in quarantine) stay until the ring lets go of them.
 */

#include "cache/reads.h"

enum fetch_state {
	FETCH_STARTING,
	FETCH_HUNGRY,
	FETCH_READING,
	FETCH_LOADED,
	FETCH_ENDED,
	FETCH_STATES,
};

struct fetch {
	/* Fixed when it begins. */
	struct cache *cache;
	struct chunk_id id;
	uint32_t len_bytes;
	struct slot_class owner;
	uint64_t deadline_ns;
	cache_fetched_fn *done;
	void *arg;

	struct fetch *next; /* a chain of prepared ones; then the table's */
	struct list link;   /* in HUNGRY's or LOADED's list, or a waiter's */

	/* Guarded by the fetches' lock. */
	enum fetch_state state;
	struct list waiters;
	unsigned refs; /* the table's or the last holder's, and the ring's */

	/* Of whoever moves it on: starter, ring, evictor's thread. */
	slot_t slot;
	struct bucket_place place;
	unsigned tries;
	bool late;
	struct io_request request;
	uint64_t checksums[];
};

#define FETCH_CHAINS 1024u

struct fetches {
	struct cache *cache;
	uint64_t quarantine_max_bytes; /* fixed: 5% of the arena */
	pthread_mutex_t promote_lock;  /* one promotion at a time; taken before
					  the write transaction */
	pthread_mutex_t lock;
	pthread_cond_t drained;
	/* Guarded by `lock`. */
	struct fetch *chains[FETCH_CHAINS];
	unsigned running;   /* STARTING, HUNGRY or READING */
	unsigned submitted; /* with the ring */
	struct list hungry;
	struct list loaded;
	struct list condemned;

	_Atomic uint64_t quarantined_bytes;
	_Atomic unsigned hungry_count; /* a copy, to look at without the lock */
};

/* fetch.c */
bool fetch_may_move(enum fetch_state from, enum fetch_state to);
const char *fetch_state_name(enum fetch_state state);
/* Under the lock. */
void fetch_move(struct fetch *fetch, enum fetch_state state);
/* Moves on, and takes the waiters: nobody joins any more, or (LOADED) whoever
 * comes finds the slot. */
void fetch_move_and_take(struct fetch *fetch, enum fetch_state state,
			 struct list *ret_waiters);
/* Answers the fetch's own caller and these; each gets a pin of his own. */
void fetch_answer(struct fetch *fetch, struct list *waiters, int outcome,
		  const struct cache_slot *slot);
/* Ends it: answers all, with a slot whose pin it takes over, or none. */
void fetch_end_with(struct fetch *fetch, int outcome,
		    const struct cache_slot *slot);
void fetch_end(struct fetch *fetch, int outcome);
/* Out of the table and its list; under the lock. */
void fetch_take_out(struct fetches *fetches, struct fetch *fetch);
void fetch_unref(struct fetch *fetch);

/* fetch_read.c */
/* Finds a slot and reads; or waits, HUNGRY. */
void fetch_start(struct fetch *fetch);
/* Submits the read into its slot. */
void fetch_submit(struct fetch *fetch);

#endif
