/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/stage.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/checksum.h"

/* ---- the list ---- */

size_t stage_chunk_position(const struct cache_staging *staging, uint32_t index)
{
	size_t low = 0, high = staging->chunk_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (staging->chunks[middle]->index < index)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct stage_chunk *stage_chunk_find(const struct cache_staging *staging,
				     uint32_t index)
{
	size_t at = stage_chunk_position(staging, index);

	if (at == staging->chunk_count || staging->chunks[at]->index != index)
		return NULL;
	return staging->chunks[at];
}

static int list_grow(struct cache_staging *staging)
{
	size_t room = staging->chunk_room ? 2 * staging->chunk_room : 4;
	struct stage_chunk **chunks;

	if (staging->chunk_count < staging->chunk_room)
		return 0;
	chunks = realloc(staging->chunks, room * sizeof(struct stage_chunk *));
	if (!chunks)
		return -ENOMEM;
	staging->chunks = chunks;
	staging->chunk_room = room;
	return 0;
}

struct stage_chunk *stage_chunk_new(struct cache_staging *staging,
				    uint32_t index)
{
	size_t sums = checksum_block_count(stage_chunk_bytes(staging));
	size_t at = stage_chunk_position(staging, index);
	struct stage_chunk *chunk;

	assert(at == staging->chunk_count ||
	       staging->chunks[at]->index != index);
	if (list_grow(staging))
		return NULL;
	chunk = calloc(1, sizeof(*chunk) + sums * sizeof(chunk->sums[0]));
	if (!chunk)
		return NULL;
	chunk->index = index;
	chunk->slot = SLOT_NONE;
	chunk->version = cache_next_version(staging->cache);
	memmove(&staging->chunks[at + 1], &staging->chunks[at],
		(staging->chunk_count - at) * sizeof(struct stage_chunk *));
	staging->chunks[at] = chunk;
	staging->chunk_count++;
	return chunk;
}

void stage_chunk_remove(struct cache_staging *staging,
			struct stage_chunk *chunk)
{
	size_t at = stage_chunk_position(staging, chunk->index);

	assert(staging->chunks[at] == chunk);
	staging->chunk_count--;
	memmove(&staging->chunks[at], &staging->chunks[at + 1],
		(staging->chunk_count - at) * sizeof(struct stage_chunk *));
	free(chunk);
}

void stage_chunk_release(struct cache_staging *staging,
			 struct stage_chunk *chunk)
{
	if (chunk->tried)
		stage_forget_rows(staging, chunk);
	if (chunk->state == STAGE_SPILLED)
		bucket_forget(staging->cache->buckets, &chunk->place);
	if (chunk->slot == SLOT_NONE)
		return;
	if (chunk->state == STAGE_OPEN) {
		stage_slot_free(staging, chunk->slot);
		return;
	}
	arena_free(staging->cache->arena, chunk->slot);
	arena_unpin(staging->cache->arena, chunk->slot);
}

void stage_chunk_free(struct cache_staging *staging, struct stage_chunk *chunk)
{
	stage_chunk_release(staging, chunk);
	stage_chunk_remove(staging, chunk);
}

struct chunk_id stage_chunk_id(const struct cache_staging *staging,
			       const struct stage_chunk *chunk)
{
	return (struct chunk_id){
		.object = chunk->state == STAGE_OPEN ? staging->entry.object
						     : chunk->object,
		.index = chunk->index,
		.version = chunk->version,
	};
}

void *stage_chunk_data(const struct cache_staging *staging,
		       const struct stage_chunk *chunk)
{
	return arena_data(staging->cache->arena, chunk->slot);
}

uint32_t stage_chunk_len(const struct stage_chunk *chunk)
{
	return (uint32_t)stage_max(stage_ranges_end(&chunk->written),
				   chunk->under_bytes);
}

/* ---- slots ---- */

void stage_slot_account(struct cache_staging *staging, slot_t slot, bool ours)
{
	struct stagings *stagings = staging->cache->stagings;
	uint64_t bytes = arena_slot_bytes(staging->cache->arena, slot);

	if (!ours)
		bytes = -bytes;
	staging->staged_bytes += bytes;
	atomic_fetch_add_explicit(&stagings->staged_bytes, bytes,
				  memory_order_relaxed);
}

int stage_room(struct cache_staging *staging, const struct slot_class *class,
	       uint64_t deadline_ns, bool wait, slot_t *ret)
{
	int error;

	if (wait)
		stage_spill(staging, class->slot_bytes);
	error = cache_room(staging->cache, class, deadline_ns, wait, ret);
	if (!error)
		stage_slot_account(staging, *ret, true);
	return error;
}

void stage_slot_free(struct cache_staging *staging, slot_t slot)
{
	stage_slot_account(staging, slot, false);
	arena_free(staging->cache->arena, slot);
}

/* ---- the version below ---- */

uint32_t stage_base_bytes(const struct cache_staging *staging, uint32_t index)
{
	uint64_t start = stage_chunk_start(staging, index);

	if (!staging->has_base || start >= staging->base_limit)
		return 0;
	return (uint32_t)stage_min(staging->base_limit - start,
				   stage_chunk_bytes(staging));
}

int stage_base_get(struct cache_staging *staging, uint32_t index,
		   uint64_t deadline_ns, struct cache_slot *ret)
{
	struct cache *cache = staging->cache;
	unsigned shift = staging->base.chunk_shift;
	uint64_t start = (uint64_t)index << shift;
	struct slot_class class =
		cache_class(cache,
			    stage_min(staging->base.size_bytes - start,
				      UINT64_C(1) << shift),
			    &staging->base);
	int outcome = cache_chunk_fetch_wait(
		cache, &class, staging->base.object, index,
		staging->base.version.clock, deadline_ns, ret);

	if (outcome == 0 || outcome == CACHE_HOLE)
		return outcome;
	return outcome == CACHE_BUSY ? -ENOSPC : -EIO;
}

int stage_chunk_fill(struct cache_staging *staging, struct stage_chunk *chunk,
		     uint64_t deadline_ns)
{
	struct stage_range gap;
	struct cache_slot below;
	uint8_t *data;
	int outcome;

	if (stage_ranges_cover(&chunk->written, 0, chunk->under_bytes)) {
		chunk->under_bytes = 0;
		return 0;
	}
	outcome = stage_base_get(staging, chunk->index, deadline_ns, &below);
	if (outcome < 0)
		return outcome;
	if (outcome == CACHE_HOLE)
		below.len_bytes = 0;
	data = stage_chunk_data(staging, chunk);
	while (stage_ranges_gap(&chunk->written, 0, chunk->under_bytes, &gap)) {
		uint32_t end = (uint32_t)stage_min(
			gap.to, stage_max(gap.from, below.len_bytes));

		if (end > gap.from)
			memcpy(data + gap.from,
			       (uint8_t *)arena_data(staging->cache->arena,
						     below.slot) +
				       gap.from,
			       end - gap.from);
		memset(data + end, 0, gap.to - end);
		stage_ranges_add(&chunk->written, gap.from, gap.to);
	}
	chunk->under_bytes = 0;
	if (outcome == 0)
		arena_unpin(staging->cache->arena, below.slot);
	return 0;
}

/* ---- writable, with room ---- */

/* A slot that grows goes by few steps, the same for all: each size is a class
 * of its own to the arena, and what is too much is given back at the commit. */
static uint64_t growth_step(uint64_t end)
{
	uint64_t step = UINT64_C(64) << 10;

	while (step < end)
		step *= step < UINT64_C(4) << 20 ? 4 : 2;
	return step;
}

/* How long a slot should be, for a write that ends at `end`: sizes repeat, so
 * the last page of this directory tells more than the first request does. */
static uint32_t slot_bytes_for(struct cache_staging *staging, uint32_t index,
			       uint32_t end, uint32_t len_bytes,
			       uint32_t old_bytes)
{
	uint64_t start = stage_chunk_start(staging, index);
	uint64_t whole = stage_chunk_bytes(staging);
	uint64_t size = stage_size(staging), want = end;
	uint64_t hint = stage_hint_get(staging->cache->stagings, staging->home);

	if (staging->sized && size > start)
		want = stage_max(want, size - start);
	else if (old_bytes || len_bytes >= STAGE_REQUEST_BYTES)
		want = stage_max(want, hint > start ? hint - start : 0);
	if (old_bytes && want == end)
		want = growth_step(end);
	if (index > 0 && len_bytes >= STAGE_REQUEST_BYTES && hint <= start)
		want = whole;
	return (uint32_t)stage_min(want, whole);
}

int stage_chunk_move(struct cache_staging *staging, struct stage_chunk *chunk,
		     const struct slot_class *class, uint64_t deadline_ns,
		     bool wait)
{
	uint8_t *from, *to;
	slot_t slot;
	int error = stage_room(staging, class, deadline_ns, wait, &slot);

	if (error)
		return error;
	from = stage_chunk_data(staging, chunk);
	to = arena_data(staging->cache->arena, slot);
	for (unsigned i = 0; i < chunk->written.count; i++) {
		struct stage_range range = chunk->written.range[i];

		memcpy(to + range.from, from + range.from,
		       range.to - range.from);
	}
	/* A sealed chunk's checksums and version stay with its old slot. */
	if (chunk->state == STAGE_SEALED) {
		stage_chunk_release(staging, chunk);
		chunk->tried = false;
		chunk->state = STAGE_OPEN;
		chunk->version = cache_next_version(staging->cache);
		memset(chunk->hashed, 0, sizeof(chunk->hashed));
	} else {
		stage_slot_free(staging, chunk->slot);
	}
	chunk->slot = slot;
	return 0;
}

static int chunk_grow(struct cache_staging *staging, struct stage_chunk *chunk,
		      uint32_t end, uint32_t len_bytes, uint64_t deadline_ns)
{
	uint32_t old = arena_slot_bytes(staging->cache->arena, chunk->slot);
	struct slot_class class;
	uint32_t bytes = old;

	if (end > old)
		bytes = slot_bytes_for(staging, chunk->index, end, len_bytes,
				       old);
	else if (chunk->state == STAGE_OPEN)
		return 0;
	class = stage_class(staging, bytes);
	return stage_chunk_move(staging, chunk, &class, deadline_ns, true);
}

int stage_chunk_open(struct cache_staging *staging, uint32_t index,
		     uint32_t end, uint32_t len_bytes, uint64_t deadline_ns,
		     struct stage_chunk **ret)
{
	struct stage_chunk *chunk = stage_chunk_find(staging, index);
	uint32_t under = stage_base_bytes(staging, index);
	struct slot_class class;
	slot_t slot;
	int error;

	*ret = chunk;
	if (chunk && chunk->state == STAGE_SPILLED) {
		error = stage_unspill(staging, chunk, deadline_ns);
		if (error)
			return error;
	}
	if (chunk)
		return chunk_grow(staging, chunk, end, len_bytes, deadline_ns);
	class = stage_class(staging,
			    stage_max(under, slot_bytes_for(staging, index, end,
							    len_bytes, 0)));
	error = stage_room(staging, &class, deadline_ns, true, &slot);
	if (error)
		return error;
	chunk = stage_chunk_new(staging, index);
	if (!chunk) {
		stage_slot_free(staging, slot);
		return -ENOMEM;
	}
	chunk->slot = slot;
	chunk->under_bytes = under;
	*ret = chunk;
	return 0;
}

/* Room for one range more: fills gaps, from below or with zeroes. */
static int fill_gaps(struct cache_staging *staging, struct stage_chunk *chunk,
		     uint64_t deadline_ns)
{
	struct stage_range gap;
	uint32_t end = stage_ranges_end(&chunk->written);
	uint8_t *data = stage_chunk_data(staging, chunk);
	int error = stage_chunk_fill(staging, chunk, deadline_ns);

	if (error)
		return error;
	while (chunk->written.count == STAGE_RANGES_MAX &&
	       stage_ranges_gap(&chunk->written, 0, end, &gap)) {
		memset(data + gap.from, 0, gap.to - gap.from);
		staging->patched = true;
		stage_ranges_add(&chunk->written, gap.from, gap.to);
	}
	return 0;
}

int stage_chunk_prepare(struct cache_staging *staging,
			struct stage_chunk *chunk, uint64_t deadline_ns)
{
	if (chunk->written.count < STAGE_RANGES_MAX)
		return 0;
	return fill_gaps(staging, chunk, deadline_ns);
}

void stage_chunk_written(struct cache_staging *staging,
			 struct stage_chunk *chunk, uint32_t from, uint32_t to)
{
	stage_ranges_add(&chunk->written, from, to);
	stage_chunk_hash(staging, chunk, from, to);
}
