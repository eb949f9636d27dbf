/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/rebuild_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/clock.h"
#include "tools/lib/log.h"

#define PROGRESS_NS (5 * CLOCK_NS_PER_SECOND)

/* ---- transactions of a bounded size ---- */

int rebuild_step(struct rebuild *rebuild)
{
	int error;

	if (rebuild->txn && ++rebuild->steps < REBUILD_STEPS)
		return 0;
	error = rebuild_flush(rebuild);
	return error ? error
		     : meta_begin_write(rebuild->cache->meta, &rebuild->txn);
}

int rebuild_flush(struct rebuild *rebuild)
{
	struct meta_txn *txn = rebuild->txn;

	rebuild->txn = NULL;
	rebuild->steps = 0;
	return txn ? cache_commit(rebuild->cache, txn) : 0;
}

/* ---- what the buckets hold ---- */

static void saw(struct rebuild *rebuild, const struct page_version *version)
{
	if (version->clock > rebuild->last_clock)
		rebuild->last_clock = version->clock;
}

static int stash(struct rebuild *rebuild, const void *bytes, size_t len)
{
	struct meta_fact fact;
	size_t used;
	int error = 0;

	for (const uint8_t *at = bytes; !error && len;
	     at += used, len -= used) {
		if (meta_fact_decode(at, len, &fact, &used) != 0) {
			rebuild->damaged++;
			return 0;
		}
		saw(rebuild, &fact.at);
		error = meta_stash_put(rebuild->txn, &fact.at,
				       rebuild->serial++, at, used);
	}
	return error;
}

/* A chunk that was written twice (moved out of a bucket that was dropped)
 * counts where it was written last. */
static int put_chunk(struct rebuild *rebuild,
		     const struct bucket_record *record)
{
	struct meta_chunk row = {
		.id = record->id,
		.len_bytes = record->len_bytes,
		.bucket = record->place.bucket,
		.data_block = record->place.data_block,
		.checksums = record->checksums,
	};
	int64_t bytes = (int64_t)round_up_block(record->len_bytes);
	struct meta_chunk old;
	int error = meta_chunk_get(rebuild->txn, META_DISK, row.id.object,
				   row.id.index, row.id.version.clock, &old);

	if (error < 0)
		return error;
	if (!error && chunk_id_equal(&old.id, &row.id)) {
		uint32_t bucket = old.bucket;

		error = meta_bucket_add(
			rebuild->txn, bucket,
			-(int64_t)round_up_block(old.len_bytes));
		if (error)
			return error;
	}
	error = meta_chunk_put(rebuild->txn, META_DISK, &row);
	return error ? error : meta_bucket_add(rebuild->txn, row.bucket, bytes);
}

static int take_record(void *arg, const struct bucket_record *record)
{
	struct rebuild *rebuild = arg;
	int error = rebuild_step(rebuild);

	if (error)
		return rebuild->error = error;
	rebuild->records++;
	if (record->kind == BUCKET_JOURNAL) {
		error = stash(rebuild, record->data, record->len_bytes);
	} else {
		saw(rebuild, &record->id.version);
		error = put_chunk(rebuild, record);
		if (!error && record->extra_bytes)
			error = stash(rebuild, record->extra,
				      record->extra_bytes);
	}
	return rebuild->error = error;
}

static int scan_buckets(struct rebuild *rebuild, const uint32_t *ids,
			size_t count)
{
	uint64_t next_ns = clock_monotonic_ns() + PROGRESS_NS;

	for (size_t i = 0; i < count; i++) {
		uint64_t damaged = 0;
		int error = bucket_scan(rebuild->cache->buckets, ids[i], false,
					take_record, rebuild, &damaged);

		rebuild->damaged += damaged;
		if (rebuild->error)
			return rebuild->error;
		/* A bucket that can't be read is as good as none. */
		if (error < 0)
			log_warning("bucket %u: cannot be read: %s; its pages "
				    "are lost",
				    (unsigned)ids[i], strerror(-error));
		if (clock_monotonic_ns() < next_ns)
			continue;
		next_ns = clock_monotonic_ns() + PROGRESS_NS;
		log_info("rebuilding the index: %zu of %zu buckets read", i + 1,
			 count);
	}
	return rebuild_flush(rebuild);
}

/* ---- the facts, in their order ---- */

struct copies {
	struct {
		void *bytes;
		size_t len;
	} all[REBUILD_FACTS];
	size_t count;
	int error;
};

static int copy_fact(void *arg, const void *fact, size_t len)
{
	struct copies *copies = arg;
	void *bytes = malloc(len);

	if (!bytes) {
		copies->error = -ENOMEM;
		return 1;
	}
	memcpy(bytes, fact, len);
	copies->all[copies->count].bytes = bytes;
	copies->all[copies->count++].len = len;
	return 0;
}

static int apply_copies(struct rebuild *rebuild, struct copies *copies)
{
	int error = copies->error;

	for (size_t i = 0; i < copies->count; i++) {
		struct meta_fact fact;
		size_t used;

		if (!error &&
		    meta_fact_decode(copies->all[i].bytes, copies->all[i].len,
				     &fact, &used) == 0)
			error = rebuild_apply(rebuild, &fact);
		rebuild->facts++;
		free(copies->all[i].bytes);
	}
	return error;
}

static int apply_facts(struct rebuild *rebuild)
{
	struct copies *copies = malloc(sizeof(*copies));
	int more = 1, error = copies ? 0 : -ENOMEM;

	while (!error && more > 0) {
		copies->count = 0;
		copies->error = 0;
		error = rebuild_step(rebuild);
		if (error)
			break;
		/* What is applied, and that it was taken, is one
		 * transaction. */
		more = meta_stash_take(rebuild->txn, REBUILD_FACTS, copy_fact,
				       copies);
		if (more < 0)
			copies->error = more;
		rebuild->steps += (unsigned)copies->count;
		error = apply_copies(rebuild, copies);
	}
	free(copies);
	return error ? error : rebuild_flush(rebuild);
}

/* ---- all of it ---- */

static int make_root(struct rebuild *rebuild)
{
	int error = rebuild_step(rebuild);

	if (!error)
		error = names_root_make(rebuild->cache, rebuild->txn);
	return error ? error : rebuild_flush(rebuild);
}

static int rebuild_from(struct rebuild *rebuild, const uint32_t *ids,
			size_t count)
{
	struct cache *cache = rebuild->cache;
	int error = scan_buckets(rebuild, ids, count);

	if (error)
		return error;
	hlc_init(&cache->hlc, cache->hlc.node, rebuild->last_clock);
	error = make_root(rebuild);
	if (!error)
		error = apply_facts(rebuild);
	if (!error)
		error = rebuild_names(rebuild);
	if (!error)
		error = rebuild_chunks(rebuild);
	return error;
}

int cache_rebuild_count(struct cache *cache, struct rebuild *ret)
{
	uint32_t *ids = NULL;
	size_t count = 0;
	int error = 0;

	*ret = (struct rebuild){.cache = cache};
	if (cache->buckets)
		error = bucket_list(cache->buckets, &ids, &count);
	if (error)
		return error;
	if (count)
		log_info("rebuilding the index from %zu buckets", count);
	error = rebuild_from(ret, ids, count);
	if (error && ret->txn)
		meta_abort(ret->txn);
	ret->txn = NULL;
	free(ids);
	if (error)
		return error;
	if (count)
		log_info("rebuilt the index: %llu names; %llu pages were not "
			 "whole, %llu records damaged",
			 (unsigned long long)ret->names,
			 (unsigned long long)ret->lost,
			 (unsigned long long)ret->damaged);
	return meta_rebuilt(cache->meta);
}

int cache_rebuild(struct cache *cache)
{
	struct rebuild rebuild;

	return cache_rebuild_count(cache, &rebuild);
}
