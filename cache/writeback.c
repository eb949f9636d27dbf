/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/batch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/clock.h"
#include "tools/lib/log.h"

#define GATHER_BYTES (8u << 20)
#define RETRY_FIRST_NS (100 * CLOCK_NS_PER_MS)
#define RETRY_MAX_NS (5 * CLOCK_NS_PER_SECOND)
#define RETRY_SOON_NS (20 * CLOCK_NS_PER_MS)
#define ROOM_EVERY_NS CLOCK_NS_PER_SECOND /* others may fill the disk */
#define TOMBS_EVERY_NS (60 * CLOCK_NS_PER_SECOND)
#define TOMBS_KEPT_NS (7 * 24 * 3600 * (int64_t)CLOCK_NS_PER_SECOND)
#define TOMBS_AT_ONCE 1000u

/* Chunks that a writer wants on disk before its commit. */
struct spill {
	struct bucket_record *records;
	unsigned count;
	uint64_t deadline_ns;
	int result;
	bool done;
	struct spill *next;
};

struct writeback {
	struct cache *cache;
	pthread_t thread;
	bool running;
	struct batch *batch; /* owned by the thread */

	pthread_mutex_t lock;
	pthread_cond_t wake; /* the thread waits for work */
	pthread_cond_t done; /* others wait for the thread */

	/* Guarded by lock. */
	bool stop;
	bool urgent;
	uint64_t since_ns; /* when the oldest work came; 0: there is none */
	uint64_t retry_ns; /* after a failure: not before this */
	uint64_t pause_ns;
	uint64_t rounds;  /* batches tried, and empty queues found */
	uint64_t batches; /* batches written */
	int failure;	  /* of the last batch: -EIO, -ENOSPC, ... or 0 */
	uint64_t sync_wanted, sync_done;
	int sync_result;
	bool trim_wanted; /* somebody waits for room on the disk */
	uint64_t trims;	  /* done */
	struct spill *spills;

	/* The thread's own. */
	uint64_t tombs_ns;   /* when tombs were swept last */
	uint64_t trimmed_ns; /* when trim() was called last */
};

/* ---- writing, on the thread ---- */

static void alarm_raise(struct writeback *writeback, int error)
{
	struct cache *cache = writeback->cache;

	CACHE_COUNT(cache, write_errors, 1);
	if (atomic_exchange(&cache->counters->disk_alarm, true))
		return;
	if (error == -ENOSPC)
		log_error("%s: no room to write pages, and nothing can be "
			  "evicted: free space there, or lower --disk-cap; "
			  "pages stay in memory meanwhile",
			  cache->config.disk_dir);
	else
		log_error("%s: cannot write pages: %s: look at the disk "
			  "(dmesg); pages stay in memory, and writing is "
			  "tried again",
			  cache->config.disk_dir, strerror(-error));
}

static void alarm_clear(struct writeback *writeback)
{
	struct cache *cache = writeback->cache;

	if (atomic_exchange(&cache->counters->disk_alarm, false))
		log_info("%s: writing pages works again",
			 cache->config.disk_dir);
}

/* Room for what is pending, as far as a batch takes it. */
static void make_room(struct cache *cache)
{
	uint64_t bytes = atomic_load(&cache->counters->pending_bytes);
	uint64_t most = bucket_limit_bytes(cache->buckets);

	if (most > BATCH_BYTES_MAX)
		most = BATCH_BYTES_MAX;
	(void)evict_make_room(cache, bytes < most ? bytes : most);
}

static int append_spill(struct cache *cache, const struct spill *spill)
{
	int error;

	do
		error = bucket_append(cache->buckets, spill->records,
				      spill->count, spill->deadline_ns);
	while (error == -ENOSPC && evict_bucket(cache) == 0);
	return error;
}

/* One batch: 1 if there may be more, 0 when the queue was empty, -EAGAIN when
 * nothing of it can be written just now, -errno. */
static int write_batch(struct writeback *writeback)
{
	struct cache *cache = writeback->cache;
	struct batch *batch = writeback->batch;
	bool on;
	int error;

	make_room(cache);
	error = batch_gather(cache, batch);
	on = !error && batch_gets_on(batch);
	if (!error && batch_empty(batch)) {
		batch_recount(batch);
		batch_release(batch);
		return 0;
	}
	if (!error)
		error = batch_announce(batch);
	if (!error && batch->record_count)
		error = bucket_append(
			cache->buckets, batch->records, batch->record_count,
			clock_deadline_ns(batch->bytes + batch->journal_bytes));
	if (!error)
		error = batch_finish(batch);
	batch_release(batch);
	/* It was more than it seemed, or others were faster. */
	if (error == -ENOSPC && evict_bucket(cache) == 0)
		error = 0;
	if (!error && !on)
		error = -EAGAIN;
	return error ? error : 1;
}

/* Others fill the disk, too: what is above the cap as it stands now goes, and
 * what was deleted is given back. */
static void trim(struct writeback *writeback)
{
	(void)evict_make_room(writeback->cache, 0);
	writeback->trimmed_ns = clock_monotonic_ns();
	bucket_reclaim(writeback->cache->buckets, writeback->trimmed_ns);
	evict_spent(writeback->cache);
}

/* Also while batches follow one another. */
static bool trim_is_due(const struct writeback *writeback)
{
	return clock_monotonic_ns() >= writeback->trimmed_ns + ROOM_EVERY_NS;
}

static void sweep_tombs(struct writeback *writeback)
{
	int64_t before_ns = (int64_t)clock_realtime_ns() - TOMBS_KEPT_NS;
	uint64_t now_ns = clock_monotonic_ns();
	struct meta_txn *txn;

	if (now_ns < writeback->tombs_ns + TOMBS_EVERY_NS)
		return;
	writeback->tombs_ns = now_ns;
	if (meta_begin_write(writeback->cache->meta, &txn) != 0)
		return;
	if (meta_tomb_sweep(txn, before_ns, TOMBS_AT_ONCE) > 0)
		cache_commit(writeback->cache, txn);
	else
		meta_abort(txn);
}

/* ---- the thread ---- */

/* How long the thread may sleep: 0 when there is something to do at once. */
static uint64_t sleep_until(const struct writeback *writeback, uint64_t now_ns)
{
	const struct cache *cache = writeback->cache;
	uint64_t until_ns;

	if (writeback->stop || writeback->spills || writeback->trim_wanted)
		return 0;
	if (writeback->retry_ns > now_ns)
		return writeback->retry_ns;
	if (writeback->sync_wanted != writeback->sync_done)
		return 0;
	if (!writeback->since_ns)
		return now_ns + ROOM_EVERY_NS;
	if (writeback->urgent ||
	    atomic_load(&cache->counters->pending_bytes) >= GATHER_BYTES)
		return 0;
	/* Half of the time for gathering, the other half for writing. */
	until_ns = writeback->since_ns +
		   cache->config.writeback_max_ms * CLOCK_NS_PER_MS / 2;
	return until_ns > now_ns ? until_ns : 0;
}

static void wait_for_work(struct writeback *writeback)
{
	uint64_t until_ns;

	while ((until_ns = sleep_until(writeback, clock_monotonic_ns()))) {
		struct timespec until = clock_to_timespec(until_ns);

		if (pthread_cond_timedwait(&writeback->wake, &writeback->lock,
					   &until) == ETIMEDOUT &&
		    !writeback->since_ns)
			return;
	}
}

static void do_spill(struct writeback *writeback)
{
	struct spill *spill = writeback->spills;

	writeback->spills = spill->next;
	pthread_mutex_unlock(&writeback->lock);
	spill->result = append_spill(writeback->cache, spill);
	if (spill->result)
		alarm_raise(writeback, spill->result);
	else
		alarm_clear(writeback);
	pthread_mutex_lock(&writeback->lock);
	spill->done = true;
	pthread_cond_broadcast(&writeback->done);
}

static void do_sync(struct writeback *writeback)
{
	uint64_t wanted = writeback->sync_wanted;
	int result;

	pthread_mutex_unlock(&writeback->lock);
	result = bucket_sync(writeback->cache->buckets, clock_deadline_ns(0));
	if (result)
		alarm_raise(writeback, result);
	pthread_mutex_lock(&writeback->lock);
	writeback->sync_done = wanted;
	writeback->sync_result = result;
	pthread_cond_broadcast(&writeback->done);
}

static void do_trim(struct writeback *writeback)
{
	writeback->trim_wanted = false;
	pthread_mutex_unlock(&writeback->lock);
	trim(writeback);
	pthread_mutex_lock(&writeback->lock);
	writeback->trims++;
	pthread_cond_broadcast(&writeback->done);
}

static void note_failure(struct writeback *writeback, int error)
{
	writeback->pause_ns =
		writeback->pause_ns ? 2 * writeback->pause_ns : RETRY_FIRST_NS;
	if (writeback->pause_ns > RETRY_MAX_NS)
		writeback->pause_ns = RETRY_MAX_NS;
	writeback->retry_ns = clock_monotonic_ns() + writeback->pause_ns;
	writeback->failure = error;
}

static void do_batch(struct writeback *writeback)
{
	uint64_t since_ns = writeback->since_ns;
	int result;

	/* What is queued from here on is counted from here on: it may or may
	 * not come into this batch. */
	writeback->since_ns = 0;
	pthread_mutex_unlock(&writeback->lock);
	result = write_batch(writeback);
	if (result >= 0)
		alarm_clear(writeback);
	else if (result != -EAGAIN)
		alarm_raise(writeback, result);
	if (result == -ENOSPC || trim_is_due(writeback))
		trim(writeback);
	pthread_mutex_lock(&writeback->lock);
	writeback->rounds++;
	if (result == -EAGAIN) {
		writeback->retry_ns = clock_monotonic_ns() + RETRY_SOON_NS;
	} else if (result < 0) {
		note_failure(writeback, result);
	} else {
		writeback->failure = 0;
		writeback->retry_ns = writeback->pause_ns = 0;
		writeback->batches += (uint64_t)result;
	}
	if (result && (!writeback->since_ns || writeback->since_ns > since_ns))
		writeback->since_ns = since_ns;
	else if (!result)
		writeback->urgent = false;
	pthread_cond_broadcast(&writeback->done);
}

static void *run(void *arg)
{
	struct writeback *writeback = arg;

	pthread_mutex_lock(&writeback->lock);
	for (;;) {
		wait_for_work(writeback);
		if (writeback->spills) {
			do_spill(writeback);
		} else if (writeback->stop) {
			break;
		} else if (writeback->trim_wanted) {
			do_trim(writeback);
		} else if (writeback->since_ns) {
			do_batch(writeback);
		} else if (writeback->sync_wanted != writeback->sync_done) {
			do_sync(writeback);
		} else {
			pthread_mutex_unlock(&writeback->lock);
			trim(writeback);
			sweep_tombs(writeback);
			pthread_mutex_lock(&writeback->lock);
		}
	}
	pthread_mutex_unlock(&writeback->lock);
	return NULL;
}

/* ---- life ---- */

static void init_conditions(struct writeback *writeback)
{
	pthread_condattr_t monotonic;

	pthread_mutex_init(&writeback->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&writeback->wake, &monotonic);
	pthread_cond_init(&writeback->done, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

int writeback_new(struct cache *cache, struct writeback **ret)
{
	struct writeback *writeback = calloc(1, sizeof(*writeback));
	int error;

	if (!writeback)
		return -ENOMEM;
	writeback->cache = cache;
	writeback->batch = calloc(1, sizeof(*writeback->batch));
	if (!writeback->batch) {
		free(writeback);
		return -ENOMEM;
	}
	init_conditions(writeback);
	*ret = writeback;
	if (!cache->buckets)
		return 0;
	/* What the last stop left is looked at first. */
	writeback->since_ns = clock_monotonic_ns();
	error = pthread_create(&writeback->thread, NULL, run, writeback);
	if (error)
		return -error;
	writeback->running = true;
	pthread_setname_np(writeback->thread, "pagefs-write");
	return 0;
}

void writeback_free(struct writeback *writeback)
{
	if (!writeback)
		return;
	if (writeback->running) {
		pthread_mutex_lock(&writeback->lock);
		writeback->stop = true;
		pthread_cond_signal(&writeback->wake);
		pthread_mutex_unlock(&writeback->lock);
		pthread_join(writeback->thread, NULL);
	}
	pthread_cond_destroy(&writeback->wake);
	pthread_cond_destroy(&writeback->done);
	pthread_mutex_destroy(&writeback->lock);
	free(writeback->batch);
	free(writeback);
}

/* ---- for others ---- */

/* The thread is woken only by what changes how long it may sleep: each commit
 * kicks. */
static void kick(struct writeback *writeback, bool urgent)
{
	const struct cache *cache = writeback->cache;
	bool sooner =
		urgent || !writeback->since_ns ||
		atomic_load(&cache->counters->pending_bytes) >= GATHER_BYTES;

	if (!writeback->since_ns)
		writeback->since_ns = clock_monotonic_ns();
	writeback->urgent |= urgent;
	if (sooner)
		pthread_cond_signal(&writeback->wake);
}

void writeback_kick(struct writeback *writeback, bool urgent)
{
	if (!writeback->running)
		return;
	pthread_mutex_lock(&writeback->lock);
	kick(writeback, urgent);
	pthread_mutex_unlock(&writeback->lock);
}

static int first_row(void *arg, const struct meta_pending *row)
{
	*(uint64_t *)arg = row->clock;
	return 1;
}

/* 1: something up to this clock is pending; 0: nothing is; -errno. */
static int is_pending(struct writeback *writeback, uint64_t clock)
{
	uint64_t first = UINT64_MAX;
	struct meta_txn *txn;
	int error = meta_begin_read(writeback->cache->meta, &txn);

	if (error)
		return error;
	error = meta_pending_each(txn, 0, first_row, &first);
	meta_abort(txn);
	return error < 0 ? error : first <= clock;
}

/* Until the thread has finished a round that began after this call; under
 * lock.  0, or -ETIMEDOUT. */
static int wait_done(struct writeback *writeback, uint64_t deadline_ns)
{
	struct timespec until = clock_to_timespec(deadline_ns);

	return pthread_cond_timedwait(&writeback->done, &writeback->lock,
				      &until) == ETIMEDOUT
		       ? -ETIMEDOUT
		       : 0;
}

static int wait_written(struct writeback *writeback, uint64_t clock,
			uint64_t deadline_ns)
{
	uint64_t rounds = writeback->rounds;
	int outcome = 1;

	for (;;) {
		/* The round under way may have begun before the row was
		 * there: its failure says nothing about ours. */
		bool tried = writeback->rounds > rounds + 1;
		int failure = writeback->failure;

		pthread_mutex_unlock(&writeback->lock);
		outcome = is_pending(writeback, clock);
		pthread_mutex_lock(&writeback->lock);
		if (outcome <= 0)
			return outcome;
		if (tried && failure)
			return failure;
		if (writeback->rounds > rounds && writeback->failure)
			writeback->retry_ns = 0;
		kick(writeback, true);
		if (wait_done(writeback, deadline_ns))
			return writeback->failure ? writeback->failure
						  : -ETIMEDOUT;
	}
}

static int wait_synced(struct writeback *writeback, uint64_t deadline_ns)
{
	uint64_t wanted = ++writeback->sync_wanted;

	pthread_cond_signal(&writeback->wake);
	while (writeback->sync_done < wanted)
		if (wait_done(writeback, deadline_ns))
			return -ETIMEDOUT;
	return writeback->sync_result;
}

int writeback_wait(struct writeback *writeback, uint64_t clock, bool sync,
		   uint64_t deadline_ns)
{
	uint64_t now = atomic_load(&writeback->cache->hlc.last);
	int error;

	if (!writeback->running)
		return 0;
	if (clock > now)
		clock = now;
	pthread_mutex_lock(&writeback->lock);
	error = wait_written(writeback, clock, deadline_ns);
	if (!error && sync)
		error = wait_synced(writeback, deadline_ns);
	pthread_mutex_unlock(&writeback->lock);
	return error;
}

int writeback_wait_batch(struct writeback *writeback, uint64_t deadline_ns)
{
	uint64_t batches, rounds;
	int error = 0;

	if (!writeback->running)
		return 0;
	pthread_mutex_lock(&writeback->lock);
	batches = writeback->batches;
	rounds = writeback->rounds;
	kick(writeback, true);
	/* Two rounds without a batch: the queue is empty, or writing fails. */
	while (!error && writeback->batches == batches &&
	       writeback->rounds < rounds + 2) {
		kick(writeback, true);
		error = wait_done(writeback, deadline_ns);
	}
	if (writeback->batches == batches && writeback->failure)
		error = writeback->failure;
	pthread_mutex_unlock(&writeback->lock);
	return error;
}

int writeback_make_room(struct writeback *writeback, uint64_t deadline_ns)
{
	uint64_t trims;
	int error = 0;

	if (!writeback->running)
		return -ENOSPC;
	pthread_mutex_lock(&writeback->lock);
	/* The one under way may have looked before there was a need. */
	trims = writeback->trims + 1;
	while (!error && writeback->trims <= trims) {
		writeback->trim_wanted = true;
		pthread_cond_signal(&writeback->wake);
		error = wait_done(writeback, deadline_ns);
	}
	pthread_mutex_unlock(&writeback->lock);
	return error;
}

static void spill_queue(struct writeback *writeback, struct spill *spill)
{
	struct spill **last = &writeback->spills;

	while (*last)
		last = &(*last)->next;
	*last = spill;
	pthread_cond_signal(&writeback->wake);
}

int writeback_spill(struct writeback *writeback, struct bucket_record *records,
		    unsigned count, uint64_t deadline_ns)
{
	struct spill spill = {
		.records = records,
		.count = count,
		.deadline_ns = deadline_ns,
	};

	if (!writeback->running)
		return -ENOSPC;
	pthread_mutex_lock(&writeback->lock);
	spill_queue(writeback, &spill);
	/* Answered by its own deadline, which bucket_append() keeps; the
	 * records are the caller's, so there is no leaving before. */
	while (!spill.done)
		pthread_cond_wait(&writeback->done, &writeback->lock);
	pthread_mutex_unlock(&writeback->lock);
	return spill.result;
}
