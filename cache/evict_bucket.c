/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/reads.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/lib/log.h"

/* Chunks a transaction. */
#define BATCH 512u

/* Of a bucket at most this part is written again, or dropping buckets would
 * make no room. */
#define AGAIN_BYTES (BUCKET_BYTES / 4)

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
	uint64_t again_bytes;
	struct evict_lost lost;
};

/* In memory, it was hit lately: written again, within bounds, else it stays as
 * long as memory keeps it. Only here: lost. */
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
		again = burial->again_bytes + rows.disk.len_bytes <=
			AGAIN_BYTES;
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

static int bury(struct burial *burial)
{
	struct buckets *buckets = burial->cache->buckets;
	uint64_t damaged = 0;
	int error = bucket_scan(buckets, burial->bucket, false, each_record,
				burial, &damaged);

	if (!error)
		error = flush(burial);
	/* Names before bytes: who looks meanwhile finds a miss. */
	evict_lost(burial->cache, &burial->lost);
	if (!error)
		error = bucket_drop(buckets, burial->bucket);
	return error ? error : forget_bucket(burial);
}

int evict_bucket(struct cache *cache)
{
	struct burial *burial;
	uint32_t bucket;
	int error = bucket_coldest(cache->buckets, &bucket);

	if (error)
		return error;
	burial = calloc(1, sizeof(*burial));
	if (!burial)
		return -ENOMEM;
	burial->cache = cache;
	burial->bucket = bucket;
	error = bury(burial);
	if (error)
		log_warning("cannot drop bucket %u to make room: error %d",
			    bucket, -error);
	free(burial);
	return error;
}
