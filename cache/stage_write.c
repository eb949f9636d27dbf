/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/stage.h"

#include <errno.h>
#include <string.h>

#include "tools/lib/checksum.h"
#include "tools/lib/clock.h"

/* Block by block, so that each is hashed while it is in the cache next to the
 * core: 0.1 ms less for 3.5 MiB than after the whole request. */
static void copy_in(struct cache_staging *staging, struct stage_chunk *chunk,
		    uint32_t from, uint32_t to, const uint8_t *data)
{
	const uint32_t block = (uint32_t)CHECKSUM_BLOCK_BYTES;
	uint8_t *slot = stage_chunk_data(staging, chunk);

	while (from < to) {
		uint32_t end = (uint32_t)stage_min(
			to, (uint64_t)from - from % block + block);

		if (data)
			memcpy(slot + from, data, end - from);
		else
			memset(slot + from, 0, end - from);
		stage_chunk_written(staging, chunk, from, end);
		data = data ? data + (end - from) : NULL;
		from = end;
	}
}

int stage_write_piece(struct cache_staging *staging, uint32_t index,
		      uint32_t from, const void *data, uint32_t len_bytes,
		      uint64_t deadline_ns)
{
	struct stage_chunk *chunk;
	int error = stage_chunk_open(staging, index, from + len_bytes,
				     len_bytes, deadline_ns, &chunk);

	if (!error)
		error = stage_chunk_prepare(staging, chunk, deadline_ns);
	if (!error)
		copy_in(staging, chunk, from, from + len_bytes, data);
	return error;
}

/* Writes up to `len_bytes`, and says how much; 0, or why it was not all. */
static int write_at(struct cache_staging *staging, const uint8_t *data,
		    size_t len_bytes, uint64_t offset, size_t *ret_done)
{
	uint64_t deadline = clock_deadline_ns(len_bytes);
	size_t done = 0;
	int error = stage_recut_sparse(staging, offset, deadline);

	if (!error)
		error = stage_recut_checkpointed(staging, deadline);
	while (!error && done < len_bytes) {
		uint64_t whole = stage_chunk_bytes(staging);
		uint32_t from = (uint32_t)((offset + done) & (whole - 1));
		uint32_t piece =
			(uint32_t)stage_min(whole - from, len_bytes - done);
		uint32_t index = (uint32_t)((offset + done) >>
					    staging->entry.chunk_shift);

		error = stage_write_piece(staging, index, from, data + done,
					  piece, deadline);
		if (!error)
			done += piece;
	}
	*ret_done = done;
	return error;
}

/* Engines that don't look at what write() says must not publish a page with a
 * hole: what is missing has to be written first. */
static void remember_failure(struct cache_staging *staging, uint64_t from,
			     uint64_t to, int error)
{
	if (staging->failed) {
		from = stage_min(from, staging->failed_from);
		to = stage_max(to, staging->failed_to);
	}
	staging->failed = error;
	staging->failed_from = from;
	staging->failed_to = to;
}

static void heal(struct cache_staging *staging, uint64_t from, uint64_t to)
{
	if (from <= staging->failed_from && to > staging->failed_from)
		staging->failed_from = to;
	if (staging->failed_from >= staging->failed_to)
		staging->failed = 0;
}

static void mark_written(struct cache_writer *writer)
{
	struct stagings *stagings = writer->staging->cache->stagings;

	pthread_mutex_lock(&stagings->table_lock);
	writer->flushed = false;
	writer->wrote = true;
	pthread_mutex_unlock(&stagings->table_lock);
}

/* Under lock. */
static ssize_t write_and_note(struct cache_staging *staging, const void *data,
			      size_t len_bytes, uint64_t offset)
{
	size_t done;
	int error = write_at(staging, data, len_bytes, offset, &done);

	if (done) {
		stage_dirty(staging);
		stage_set_size(staging,
			       stage_max(stage_size(staging), offset + done));
		stage_touch(staging);
		heal(staging, offset, offset + done);
	}
	if (error)
		remember_failure(staging, offset + done, offset + len_bytes,
				 error);
	return done ? (ssize_t)done : error;
}

ssize_t cache_stage_write(struct cache_writer *writer, const void *data,
			  size_t len_bytes, uint64_t *offset)
{
	struct cache_staging *staging = writer->staging;
	ssize_t done = -EFBIG;

	if (writer->peek)
		return -EBADF;
	mark_written(writer);
	pthread_mutex_lock(&staging->lock);
	if (writer->append)
		*offset = stage_size(staging);
	if (*offset <= PAGE_MAX_BYTES && len_bytes <= PAGE_MAX_BYTES - *offset)
		done = write_and_note(staging, data, len_bytes, *offset);
	pthread_mutex_unlock(&staging->lock);
	return done;
}
