/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/stage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/lib/clock.h"

#define PIECES_MAX 8
#define ZEROES_BYTES (UINT32_C(256) << 10)

static const uint8_t zeroes[ZEROES_BYTES];

/* ---- clean pages: the version below answers ---- */

struct forward {
	cache_read_fn *done;
	void *arg;
	struct cache_page *page;
};

static void forward_done(void *arg, ssize_t result, const struct iovec *iov,
			 int count)
{
	struct forward *forward = arg;

	forward->done(forward->arg, result, iov, count);
	cache_page_close(forward->page);
	free(forward);
}

/* Under lock; the read itself is not. */
static struct forward *forward_new(struct cache_staging *staging,
				   cache_read_fn *done, void *arg)
{
	struct forward *forward;

	if (!staging->base_page || staging->dirty)
		return NULL;
	forward = malloc(sizeof(*forward));
	if (!forward)
		return NULL;
	cache_page_ref(staging->base_page);
	*forward = (struct forward){done, arg, staging->base_page};
	return forward;
}

/* ---- the others: pieces of staged chunks, of chunks below, and zeroes ---- */

struct gather {
	struct cache_staging *staging;
	uint64_t deadline_ns;
	struct iovec pieces[PIECES_MAX];
	int count;
	/* Where there are more pieces, all are copied to here. */
	uint8_t *bounce;
	size_t bounced, len_bytes;
	/* The chunk below that the last piece was taken from, pinned. */
	struct cache_slot below[PIECES_MAX];
	unsigned below_count;
};

static int bounce(struct gather *gather)
{
	gather->bounce = malloc(gather->len_bytes);
	if (!gather->bounce)
		return -ENOMEM;
	for (int i = 0; i < gather->count; i++) {
		memcpy(gather->bounce + gather->bounced,
		       gather->pieces[i].iov_base, gather->pieces[i].iov_len);
		gather->bounced += gather->pieces[i].iov_len;
	}
	gather->pieces[0] = (struct iovec){gather->bounce, gather->bounced};
	gather->count = 1;
	return 0;
}

static int add_piece(struct gather *gather, const uint8_t *data, size_t len)
{
	union {
		const uint8_t *from;
		void *to;
	} piece = {.from = data};
	int error = 0;

	if (!gather->bounce && gather->count == PIECES_MAX)
		error = bounce(gather);
	if (error)
		return error;
	if (!gather->bounce) {
		gather->pieces[gather->count++] = (struct iovec){piece.to, len};
		return 0;
	}
	memcpy(gather->bounce + gather->bounced, data, len);
	gather->bounced += len;
	gather->pieces[0].iov_len = gather->bounced;
	return 0;
}

static int add_zeroes(struct gather *gather, size_t len)
{
	int error = 0;

	while (!error && len) {
		size_t piece = len < ZEROES_BYTES ? len : ZEROES_BYTES;

		error = add_piece(gather, zeroes, piece);
		len -= piece;
	}
	return error;
}

/* Bytes [from, to) of the chunk of the version below at that index. */
static int add_below(struct gather *gather, uint32_t index, uint32_t from,
		     uint32_t to)
{
	struct cache_staging *staging = gather->staging;
	uint32_t bytes = stage_base_bytes(staging, index);
	struct cache_slot below;
	uint32_t end = (uint32_t)stage_min(to, stage_max(from, bytes));
	int error = CACHE_HOLE;

	if (end > from)
		error = stage_base_get(staging, index, gather->deadline_ns,
				       &below);
	if (error == CACHE_HOLE)
		return add_zeroes(gather, to - from);
	if (error)
		return error;
	end = (uint32_t)stage_min(end, stage_max(from, below.len_bytes));
	if (end > from)
		error = add_piece(gather,
				  (uint8_t *)arena_data(staging->cache->arena,
							below.slot) +
					  from,
				  end - from);
	if (gather->bounce || gather->below_count == PIECES_MAX)
		arena_unpin(staging->cache->arena, below.slot);
	else
		gather->below[gather->below_count++] = below;
	return error ? error : add_zeroes(gather, to - end);
}

static int add_chunk(struct gather *gather, struct stage_chunk *chunk,
		     uint32_t from, uint32_t to)
{
	struct cache_staging *staging = gather->staging;
	struct stage_range gap;
	int error = 0;

	if (chunk->state == STAGE_SPILLED)
		error = stage_unspill(staging, chunk, gather->deadline_ns);
	if (!error && from < chunk->under_bytes)
		error = stage_chunk_fill(staging, chunk, gather->deadline_ns);
	while (!error && from < to) {
		if (!stage_ranges_gap(&chunk->written, from, to, &gap))
			gap = (struct stage_range){to, to};
		if (gap.from > from)
			error = add_piece(
				gather,
				(uint8_t *)stage_chunk_data(staging, chunk) +
					from,
				gap.from - from);
		if (!error)
			error = add_zeroes(gather, gap.to - gap.from);
		from = gap.to;
	}
	return error;
}

static int gather_all(struct gather *gather, uint64_t offset, uint64_t end)
{
	struct cache_staging *staging = gather->staging;
	uint64_t whole = stage_chunk_bytes(staging);
	int error = 0;

	while (!error && offset < end) {
		uint32_t index =
			(uint32_t)(offset >> staging->entry.chunk_shift);
		uint32_t from = (uint32_t)(offset & (whole - 1));
		uint32_t to =
			from + (uint32_t)stage_min(whole - from, end - offset);
		struct stage_chunk *chunk = stage_chunk_find(staging, index);

		error = chunk ? add_chunk(gather, chunk, from, to)
			      : add_below(gather, index, from, to);
		offset += to - from;
	}
	return error;
}

static void gather_release(struct gather *gather)
{
	for (unsigned i = 0; i < gather->below_count; i++)
		arena_unpin(gather->staging->cache->arena,
			    gather->below[i].slot);
	free(gather->bounce);
}

void cache_stage_read(struct cache_writer *writer, uint64_t offset,
		      size_t len_bytes, cache_read_fn *done, void *arg)
{
	struct cache_staging *staging = writer->staging;
	struct gather gather = {.staging = staging};
	struct forward *forward;
	uint64_t size;
	int error;

	pthread_mutex_lock(&staging->lock);
	forward = forward_new(staging, done, arg);
	if (forward) {
		pthread_mutex_unlock(&staging->lock);
		cache_page_read(forward->page, offset, len_bytes, forward_done,
				forward);
		return;
	}
	size = stage_size(staging);
	if (offset > size)
		offset = size;
	if (len_bytes > size - offset)
		len_bytes = (size_t)(size - offset);
	gather.len_bytes = len_bytes;
	gather.deadline_ns = clock_deadline_ns(len_bytes);
	error = gather_all(&gather, offset, offset + len_bytes);
	/* The bytes lie in slots that the next write may change: the lock is
	 * held until they have been taken. */
	if (error)
		done(arg, error == -ENOSPC ? -EIO : error, NULL, 0);
	else
		done(arg, (ssize_t)len_bytes, gather.pieces, gather.count);
	gather_release(&gather);
	pthread_mutex_unlock(&staging->lock);
}

/* ---- seek: holes within a chunk count as data ---- */

struct next_row {
	uint64_t at_clock;
	uint32_t index;
};

static int note_row(void *arg, const struct meta_chunk *row)
{
	struct next_row *next = arg;

	if (row->id.version.clock > next->at_clock ||
	    !cache_chunk_current(row, next->at_clock))
		return 0;
	if (row->id.index < next->index)
		next->index = row->id.index;
	return 1;
}

/* The first chunk of the version below from that index on, UINT32_MAX: none. */
static uint32_t next_below(struct cache_staging *staging, uint32_t index)
{
	struct cache *cache = staging->cache;
	struct next_row next = {staging->base.version.clock, UINT32_MAX};
	struct meta_txn *txn;

	if (!stage_base_bytes(staging, index) ||
	    meta_begin_read(cache->meta, &txn))
		return UINT32_MAX;
	meta_chunk_each(txn, META_MEMORY, staging->base.object, index, note_row,
			&next);
	if (cache->buckets)
		meta_chunk_each(txn, META_DISK, staging->base.object, index,
				note_row, &next);
	meta_abort(txn);
	return stage_base_bytes(staging, next.index) ? next.index : UINT32_MAX;
}

static uint32_t next_data(struct cache_staging *staging, uint32_t index)
{
	size_t at = stage_chunk_position(staging, index);
	uint32_t below = next_below(staging, index);

	if (at == staging->chunk_count || staging->chunks[at]->index > below)
		return below;
	return staging->chunks[at]->index;
}

/* Under lock; offset lies within the page. */
static uint64_t seek_from(struct cache_staging *staging, uint64_t offset,
			  uint64_t size, int whence)
{
	uint32_t index = (uint32_t)(offset >> staging->entry.chunk_shift);
	uint32_t end = stage_chunks_of(staging, size);
	uint32_t next = next_data(staging, index);

	if (whence == SEEK_DATA && next >= end)
		return UINT64_MAX;
	if (whence == SEEK_HOLE) {
		uint32_t hole = index;

		while (hole < end && next_data(staging, hole) == hole)
			hole++;
		next = hole;
	}
	if (next == index)
		return offset;
	return stage_min(stage_chunk_start(staging, next), size);
}

off_t cache_stage_seek(struct cache_writer *writer, off_t offset, int whence)
{
	struct cache_staging *staging = writer->staging;
	uint64_t size, found = UINT64_MAX;

	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		return -EINVAL;
	pthread_mutex_lock(&staging->lock);
	size = stage_size(staging);
	if (offset >= 0 && (uint64_t)offset < size)
		found = seek_from(staging, (uint64_t)offset, size, whence);
	pthread_mutex_unlock(&staging->lock);
	return found == UINT64_MAX ? -ENXIO : (off_t)found;
}
