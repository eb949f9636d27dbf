/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/stage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/checksum.h"
#include "tools/lib/clock.h"

#define SPILL_BATCH 8

/* Staged pages may take so much of memory before their own chunks go out. */
static uint64_t spill_limit(const struct cache *cache)
{
	return cache->config.memory_bytes / 4;
}

static bool over_limit(const struct cache *cache, uint64_t need_bytes)
{
	return atomic_load_explicit(&cache->stagings->staged_bytes,
				    memory_order_relaxed) +
		       need_bytes >
	       spill_limit(cache);
}

/* Nothing more of it will come, as far as can be known. */
static bool full(const struct cache_staging *staging,
		 const struct stage_chunk *chunk)
{
	uint32_t whole = (uint32_t)stage_chunk_bytes(staging);

	return chunk->state == STAGE_OPEN && chunk->slot != SLOT_NONE &&
	       stage_ranges_cover(&chunk->written, 0, whole);
}

static void spill_key(struct cache_staging *staging, char *ret, size_t *ret_len)
{
	struct stagings *stagings = staging->cache->stagings;
	char copy[NAME_MAX_BYTES];
	struct cache_name name;
	bool named;

	pthread_mutex_lock(&stagings->table_lock);
	named = stage_name_get(staging, &name);
	memcpy(copy, staging->name, name.len);
	pthread_mutex_unlock(&stagings->table_lock);
	name.name = copy;
	*ret_len = 0;
	/* The key in a record is for people: the fact that follows counts. */
	if (!named || cache_key(staging->cache, &name, ret, ret_len))
		*ret_len = 0;
}

static void fill_record(const struct cache_staging *staging,
			const struct stage_chunk *chunk,
			struct bucket_record *ret)
{
	*ret = (struct bucket_record){
		.kind = BUCKET_CHUNK,
		.id = stage_chunk_id(staging, chunk),
		.checksums = chunk->sums,
		.data = stage_chunk_data(staging, chunk),
		.len_bytes = stage_chunk_len(chunk),
	};
}

static void now_on_disk(struct cache_staging *staging,
			struct stage_chunk *chunk,
			const struct bucket_record *record)
{
	stage_slot_free(staging, chunk->slot);
	chunk->slot = SLOT_NONE;
	chunk->object = record->id.object;
	chunk->place = record->place;
	chunk->state = STAGE_SPILLED;
}

/* Returns how many chunks went out. */
static unsigned spill_batch(struct cache_staging *staging)
{
	struct bucket_record records[SPILL_BATCH];
	struct stage_chunk *chunks[SPILL_BATCH];
	char key[KEY_MAX_BYTES];
	uint64_t bytes = 0, deadline = clock_deadline_ns(0);
	unsigned count = 0;
	size_t key_len;

	spill_key(staging, key, &key_len);
	for (size_t i = 0; i < staging->chunk_count && count < SPILL_BATCH;
	     i++) {
		struct stage_chunk *chunk = staging->chunks[i];

		if (!full(staging, chunk) ||
		    stage_chunk_finish(staging, chunk, deadline))
			continue;
		fill_record(staging, chunk, &records[count]);
		records[count].key = key;
		records[count].key_bytes = key_len;
		bytes += records[count].len_bytes;
		chunks[count++] = chunk;
	}
	if (count == 0 || writeback_spill(staging->cache->writeback, records,
					  count, clock_deadline_ns(bytes)))
		return 0;
	for (unsigned i = 0; i < count; i++)
		now_on_disk(staging, chunks[i], &records[i]);
	return count;
}

void stage_spill(struct cache_staging *staging, uint64_t need_bytes)
{
	if (!staging->cache->buckets)
		return;
	while (over_limit(staging->cache, need_bytes)) {
		if (spill_batch(staging) == 0)
			return;
	}
}

/* ---- back into memory ---- */

/* Freed by the one that comes last: who waits, or `settled`. */
struct reading {
	struct io_request request;
	struct cache_staging *staging;
	struct arena *arena;
	slot_t slot;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done, settled, left;
	int64_t res;
};

static void reading_free(struct reading *reading)
{
	pthread_cond_destroy(&reading->cond);
	pthread_mutex_destroy(&reading->lock);
	free(reading);
}

static void read_done(struct io_request *request, int64_t res)
{
	struct reading *reading = request->arg;

	pthread_mutex_lock(&reading->lock);
	reading->done = true;
	reading->res = res;
	pthread_cond_signal(&reading->cond);
	pthread_mutex_unlock(&reading->lock);
}

static void read_settled(struct io_request *request)
{
	struct reading *reading = request->arg;
	bool left;

	pthread_mutex_lock(&reading->lock);
	reading->settled = true;
	left = reading->left;
	pthread_cond_signal(&reading->cond);
	pthread_mutex_unlock(&reading->lock);
	if (!left)
		return;
	arena_quarantine_end(reading->arena, reading->slot);
	reading_free(reading);
}

static struct reading *reading_new(struct cache_staging *staging, slot_t slot,
				   uint64_t deadline_ns)
{
	struct reading *reading = calloc(1, sizeof(*reading));

	if (!reading)
		return NULL;
	pthread_mutex_init(&reading->lock, NULL);
	pthread_cond_init(&reading->cond, NULL);
	reading->arena = staging->cache->arena;
	reading->slot = slot;
	reading->request = (struct io_request){
		.deadline_ns = deadline_ns,
		.done = read_done,
		.settled = read_settled,
		.arg = reading,
	};
	return reading;
}

/* Waits for the answer; a slot that may still be written to is left in
 * quarantine: -ETIMEDOUT. */
static int64_t reading_wait(struct reading *reading)
{
	int64_t res;

	pthread_mutex_lock(&reading->lock);
	while (!reading->done)
		pthread_cond_wait(&reading->cond, &reading->lock);
	res = reading->res;
	if (res == -ETIMEDOUT && !reading->settled) {
		reading->left = true;
		arena_quarantine(reading->arena, reading->slot);
		pthread_mutex_unlock(&reading->lock);
		return -ETIMEDOUT;
	}
	while (!reading->settled)
		pthread_cond_wait(&reading->cond, &reading->lock);
	pthread_mutex_unlock(&reading->lock);
	reading_free(reading);
	return res == -ETIMEDOUT ? -EIO : res;
}

static int read_place(struct cache_staging *staging, struct stage_chunk *chunk,
		      slot_t slot, uint64_t deadline_ns)
{
	struct chunk_id id = stage_chunk_id(staging, chunk);
	uint32_t len = stage_chunk_len(chunk);
	struct reading *reading = reading_new(staging, slot, deadline_ns);
	void *data = arena_data(staging->cache->arena, slot);
	int64_t res;

	if (!reading)
		return -ENOMEM;
	if (bucket_read(staging->cache->buckets, &chunk->place, data,
			&reading->request)) {
		reading_free(reading);
		return -EIO;
	}
	res = reading_wait(reading);
	if (res == -ETIMEDOUT)
		return -ETIMEDOUT;
	if (res < (int64_t)len || checksum_verify(data, len, chunk_seed(&id),
						  chunk->sums) != SIZE_MAX)
		return -EIO;
	return 0;
}

int stage_unspill(struct cache_staging *staging, struct stage_chunk *chunk,
		  uint64_t deadline_ns)
{
	struct slot_class class = stage_class(staging, stage_chunk_len(chunk));
	slot_t slot;
	int error = stage_room(staging, &class, deadline_ns, true, &slot);

	if (error)
		return error;
	error = read_place(staging, chunk, slot, deadline_ns);
	if (error == -ETIMEDOUT)
		stage_slot_account(staging, slot, false);
	else if (error)
		stage_slot_free(staging, slot);
	if (error)
		return error == -ETIMEDOUT ? -EIO : error;
	bucket_forget(staging->cache->buckets, &chunk->place);
	chunk->slot = slot;
	chunk->state = STAGE_OPEN;
	/* Its record stays in the bucket: other bytes need another version. */
	chunk->version = cache_next_version(staging->cache);
	memset(chunk->hashed, 0, sizeof(chunk->hashed));
	return 0;
}
