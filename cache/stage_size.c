/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/stage.h"

#include <errno.h>
#include <fcntl.h>

#include "tools/lib/clock.h"

/* All of a chunk is zeroes.  Where the version below has a row, one short
 * chunk of zeroes has to stand above that; a chunk may end before its place. */
static int empty_chunk(struct cache_staging *staging, uint32_t index,
		       uint64_t deadline_ns)
{
	struct stage_chunk *chunk = stage_chunk_find(staging, index);
	int error;

	if (chunk)
		stage_chunk_free(staging, chunk);
	if (!stage_base_bytes(staging, index))
		return 0;
	error = stage_write_piece(staging, index, 0, NULL, 1, deadline_ns);
	chunk = stage_chunk_find(staging, index);
	if (!error)
		chunk->under_bytes = 0;
	return error;
}

/* The last chunk that stays loses what is beyond the new end. */
static int cut_last(struct cache_staging *staging, uint64_t size_bytes,
		    uint64_t deadline_ns)
{
	uint32_t index = (uint32_t)(size_bytes >> staging->entry.chunk_shift);
	uint32_t len =
		(uint32_t)(size_bytes - stage_chunk_start(staging, index));
	struct stage_chunk *chunk = stage_chunk_find(staging, index);
	int error;

	if (len == 0)
		return 0;
	if (!chunk && stage_base_bytes(staging, index) <= len)
		return 0;
	if (chunk && stage_chunk_len(chunk) <= len)
		return 0;
	error = stage_chunk_open(staging, index, len, len, deadline_ns, &chunk);
	if (error)
		return error;
	stage_chunk_cut(chunk, len);
	if (stage_chunk_len(chunk) > 0)
		return 0;
	return empty_chunk(staging, index, deadline_ns);
}

static int shrink(struct cache_staging *staging, uint64_t size_bytes,
		  uint64_t deadline_ns)
{
	int error = cut_last(staging, size_bytes, deadline_ns);
	uint32_t chunks = stage_chunks_of(staging, size_bytes);

	if (error)
		return error;
	while (staging->chunk_count &&
	       staging->chunks[staging->chunk_count - 1]->index >= chunks)
		stage_chunk_free(staging,
				 staging->chunks[staging->chunk_count - 1]);
	staging->base_limit = stage_min(staging->base_limit, size_bytes);
	return 0;
}

/* Of a page that is cut to nothing nothing is shared: it goes on as another
 * object, as one that was opened with O_TRUNC. */
static void begin_anew(struct cache_staging *staging)
{
	struct cache *cache = staging->cache;

	stage_drop(staging);
	stage_set_shape(staging, stage_chunk_shift(cache),
			cache_next_object(cache));
	staging->checkpointed = false;
}

int stage_set_length(struct cache_staging *staging, uint64_t size_bytes,
		     uint64_t deadline_ns)
{
	uint64_t old = stage_size(staging);
	int error;

	if (size_bytes == old)
		return 0;
	if (size_bytes > PAGE_MAX_BYTES)
		return -EFBIG;
	if (size_bytes == 0 && staging->has_base) {
		begin_anew(staging);
		error = 0;
	} else {
		error = stage_recut_checkpointed(staging, deadline_ns);
	}
	if (!error && size_bytes < old)
		error = shrink(staging, size_bytes, deadline_ns);
	else if (!error)
		error = stage_recut_sparse(staging, size_bytes, deadline_ns);
	if (error)
		return error;
	staging->sized = staging->sized || size_bytes > old;
	if (size_bytes <= staging->failed_from)
		staging->failed = 0;
	stage_dirty(staging);
	stage_set_size(staging, size_bytes);
	stage_touch(staging);
	return 0;
}

int cache_stage_truncate(struct cache_staging *staging, uint64_t size_bytes)
{
	int error;

	pthread_mutex_lock(&staging->lock);
	error = stage_set_length(staging, size_bytes,
				 clock_deadline_ns(stage_chunk_bytes(staging)));
	pthread_mutex_unlock(&staging->lock);
	return error;
}

/* [from, to) of a chunk is zeroes; what nobody has written already is. */
static int zero_chunk(struct cache_staging *staging, uint32_t index,
		      uint32_t from, uint32_t to, uint64_t deadline_ns)
{
	struct stage_chunk *chunk = stage_chunk_find(staging, index);
	uint32_t len = chunk ? stage_chunk_len(chunk)
			     : stage_base_bytes(staging, index);

	if (from >= len)
		return 0;
	if (from == 0 && to >= len)
		return empty_chunk(staging, index, deadline_ns);
	return stage_write_piece(staging, index, from, NULL,
				 (uint32_t)stage_min(to, len) - from,
				 deadline_ns);
}

static int zero_range(struct cache_staging *staging, uint64_t offset,
		      uint64_t end, uint64_t deadline_ns)
{
	int error = stage_recut_checkpointed(staging, deadline_ns);
	uint64_t whole = stage_chunk_bytes(staging);

	while (!error && offset < end) {
		uint32_t index =
			(uint32_t)(offset >> staging->entry.chunk_shift);
		uint32_t from = (uint32_t)(offset & (whole - 1));
		uint32_t piece =
			(uint32_t)stage_min(whole - from, end - offset);

		error = zero_chunk(staging, index, from, from + piece,
				   deadline_ns);
		offset += piece;
	}
	return error;
}

int cache_stage_allocate(struct cache_writer *writer, int mode, uint64_t offset,
			 uint64_t len_bytes)
{
	struct cache_staging *staging = writer->staging;
	int zeroing = mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE);
	uint64_t end, size, deadline = clock_deadline_ns(len_bytes);
	int error = 0;

	if (writer->peek)
		return -EBADF;
	if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE |
		     FALLOC_FL_ZERO_RANGE))
		return -EOPNOTSUPP;
	if (offset > PAGE_MAX_BYTES || len_bytes > PAGE_MAX_BYTES - offset)
		return -EFBIG;
	end = offset + len_bytes;
	pthread_mutex_lock(&staging->lock);
	size = stage_size(staging);
	if (zeroing) {
		error = zero_range(staging, offset, stage_min(end, size),
				   deadline);
		stage_dirty(staging);
		stage_touch(staging);
	}
	if (!error && end > size && !(mode & FALLOC_FL_KEEP_SIZE))
		error = stage_set_length(staging, end, deadline);
	pthread_mutex_unlock(&staging->lock);
	return error;
}

bool stage_incomplete(const struct cache_staging *staging)
{
	uint64_t size = staging->entry.size_bytes;

	if (!staging->sized)
		return false;
	if (staging->patched)
		return true;
	for (uint32_t index = 0; index < stage_chunks_of(staging, size);
	     index++) {
		const struct stage_chunk *chunk =
			stage_chunk_find(staging, index);
		uint64_t start = stage_chunk_start(staging, index);
		uint32_t len = (uint32_t)stage_min(size - start,
						   stage_chunk_bytes(staging));
		uint32_t from = stage_base_bytes(staging, index);

		if (chunk)
			from = chunk->under_bytes;
		if (from < len &&
		    (!chunk || !stage_ranges_cover(&chunk->written, from, len)))
			return true;
	}
	return false;
}
