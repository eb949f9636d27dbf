/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/batch.h"
#include "cache/reads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/clock.h"
#include "tools/lib/log.h"

/* Chunks a transaction. */
#define BATCH 512u

/* Of a bucket at most this part is written again, or dropping buckets would
 * make no room. */
#define AGAIN_PART 4

/* For one batch. */
#define EVICTIONS_MAX 8

struct dying {
	struct chunk_id id;
	struct bucket_place place;
};

struct burial {
	struct cache *cache;
	uint32_t bucket;
	struct meta_txn *txn;
	struct dying batch[BATCH];
	size_t count;
	uint64_t again_bytes, again_max_bytes;
	struct evict_lost lost;
};

/* What is in memory, too, and was hit lately, is written again, within bounds;
 * else it stays as long as memory keeps it. Only here: lost. */
static int let_go(struct burial *burial, const struct dying *dying)
{
	struct cache *cache = burial->cache;
	struct cache_garbage *garbage = &burial->lost.garbage;
	struct chunk_rows rows;
	bool again;
	int error = chunk_rows(cache, burial->txn, &dying->id, &rows);

	if (error || !rows.on_disk || rows.disk.bucket != dying->place.bucket ||
	    rows.disk.data_block != dying->place.data_block)
		return error;
	if (rows.in_memory) {
		again = arena_hit_lately(cache->arena, rows.memory.slot) &&
			burial->again_bytes + rows.disk.len_bytes <=
				burial->again_max_bytes;
		error = chunk_leave_disk(cache, burial->txn, &rows.memory,
					 &rows.disk, again, garbage);
		if (!error && again)
			burial->again_bytes += rows.disk.len_bytes;
		if (error != META_ABSENT)
			return error;
	}
	error = evict_lost_add(&burial->lost, dying->id.object);
	return error ? error
		     : chunk_lose(cache, burial->txn, &dying->id, garbage);
}

static int commit(struct burial *burial, int error)
{
	if (!error)
		return cache_commit(burial->cache, burial->txn);
	meta_abort(burial->txn);
	return error;
}

/* Places that garbage names after an abort have their rows still. */
static int free_garbage(struct burial *burial, int error)
{
	if (error)
		cache_garbage_drop(&burial->lost.garbage);
	else
		cache_garbage_free(burial->cache, &burial->lost.garbage);
	return error;
}

static int let_all_go(struct burial *burial)
{
	int error = meta_begin_write(burial->cache->meta, &burial->txn);

	if (error)
		return error;
	for (size_t i = 0; i < burial->count && !error; i++)
		error = let_go(burial, &burial->batch[i]);
	return commit(burial, error);
}

static int flush(struct burial *burial)
{
	int error;

	evict_begin(burial->cache);
	error = let_all_go(burial);
	evict_end(burial->cache);
	burial->count = 0;
	return free_garbage(burial, error);
}

static int keep_facts(struct burial *burial, const struct bucket_record *record)
{
	int error = meta_begin_write(burial->cache->meta, &burial->txn);

	if (error)
		return error;
	return commit(burial,
		      cache_facts_keep(burial->cache, burial->txn, record));
}

static int each_record(void *arg, const struct bucket_record *record)
{
	struct burial *burial = arg;

	if (record->kind == BUCKET_JOURNAL)
		return keep_facts(burial, record);
	burial->batch[burial->count++] =
		(struct dying){.id = record->id, .place = record->place};
	return burial->count == BATCH ? flush(burial) : 0;
}

static int forget_bucket(struct burial *burial)
{
	int error = meta_begin_write(burial->cache->meta, &burial->txn);

	if (error)
		return error;
	return commit(burial, meta_bucket_del(burial->txn, burial->bucket));
}

/* ---- the facts go first ---- */

/* The disk may be so full that they can only take the room of the bucket that
 * they come from. */
static int append_facts(struct burial *burial, struct batch *batch)
{
	struct buckets *buckets = burial->cache->buckets;
	uint64_t deadline_ns = clock_deadline_ns(batch->journal_bytes);
	int error = bucket_append(buckets, batch->records, batch->record_count,
				  deadline_ns);

	if (error != -ENOSPC)
		return error;
	error = bucket_hollow(buckets, burial->bucket);
	return error ? error
		     : bucket_append(buckets, batch->records,
				     batch->record_count, deadline_ns);
}

/* 1: there may be more; 0: none is left; -errno. */
static int write_some_facts(struct burial *burial, struct batch *batch)
{
	int error = batch_gather_facts(burial->cache, batch);
	bool none = !error && batch_empty(batch);

	if (!error && !none)
		error = append_facts(burial, batch);
	if (!error && !none)
		error = batch_finish(batch);
	batch_release(batch);
	return error ? error : !none;
}

/* Everything that is known of names is on stable storage in other buckets: what
 * was kept of this one, and that the pages which go with it are gone. */
static int write_facts(struct burial *burial)
{
	struct batch *batch = malloc(sizeof(*batch));
	int outcome = 1;

	if (!batch)
		return -ENOMEM;
	while (outcome > 0)
		outcome = write_some_facts(burial, batch);
	free(batch);
	return outcome ? outcome
		       : bucket_sync(burial->cache->buckets,
				     clock_deadline_ns(0));
}

/* ---- the burial ---- */

/* A bucket that can't be read can't be kept either: whoever asks for one of its
 * pages finds it missing, and the page is dropped then. */
static int empty(struct burial *burial)
{
	uint64_t damaged = 0;
	int error = bucket_scan(burial->cache->buckets, burial->bucket, false,
				each_record, burial, &damaged);

	if (!error)
		error = flush(burial);
	/* Names before bytes: who looks meanwhile finds a miss. */
	evict_lost(burial->cache, &burial->lost);
	if (error != -EIO && error != -ETIMEDOUT)
		return error;
	log_warning("bucket %u: cannot be read (%s) and goes as it is, to make "
		    "room",
		    burial->bucket, strerror(-error));
	return 0;
}

static int bury(struct burial *burial)
{
	int error = empty(burial);

	/* Even the index finds no room to say what goes. */
	if (error == -ENOSPC) {
		error = bucket_hollow(burial->cache->buckets, burial->bucket);
		if (!error)
			error = empty(burial);
	}
	if (!error)
		error = write_facts(burial);
	if (!error)
		error = bucket_drop(burial->cache->buckets, burial->bucket);
	return error ? error : forget_bucket(burial);
}

static int evict_this(struct cache *cache, uint32_t bucket)
{
	static struct log_limit limit;
	struct burial *burial = calloc(1, sizeof(*burial));
	int error;

	if (!burial)
		return -ENOMEM;
	burial->cache = cache;
	burial->bucket = bucket;
	burial->again_max_bytes =
		bucket_limit_bytes(cache->buckets) / AGAIN_PART;
	error = bury(burial);
	if (error)
		log_limited(&limit, LOG_LEVEL_WARNING,
			    "cannot drop bucket %u to make room: %s", bucket,
			    strerror(-error));
	free(burial);
	return error;
}

int evict_bucket(struct cache *cache)
{
	uint32_t bucket;
	int error = bucket_coldest(cache->buckets, &bucket);

	return error ? error : evict_this(cache, bucket);
}

void evict_spent(struct cache *cache)
{
	uint32_t bucket;

	for (int i = 0;
	     i < EVICTIONS_MAX && bucket_spent(cache->buckets, &bucket) == 0;
	     i++)
		if (evict_this(cache, bucket) != 0)
			return;
}

int evict_make_room(struct cache *cache, uint64_t bytes)
{
	int error = 0;

	for (int i = 0; !error && i < EVICTIONS_MAX &&
			bucket_excess(cache->buckets, bytes) > 0;
	     i++)
		error = evict_bucket(cache);
	return error;
}
