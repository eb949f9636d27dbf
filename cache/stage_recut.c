/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/stage.h"

#include <errno.h>
#include <stdlib.h>

/* Past this, copying everything once costs more than large chunks do. */
#define RECUT_MAX_BYTES (UINT64_C(256) << 20)

/* What a page consisted of before. */
struct before {
	struct stage_chunk **chunks;
	size_t count;
	unsigned shift;
	bool has_base;
	uint64_t base_limit;
};

static int copy_range(struct cache_staging *staging, uint64_t offset,
		      const uint8_t *data, uint64_t len_bytes,
		      uint64_t deadline_ns)
{
	uint64_t whole = stage_chunk_bytes(staging);
	int error = 0;

	while (!error && len_bytes) {
		uint32_t from = (uint32_t)(offset & (whole - 1));
		uint32_t piece = (uint32_t)stage_min(whole - from, len_bytes);

		error = stage_write_piece(
			staging,
			(uint32_t)(offset >> staging->entry.chunk_shift), from,
			data, piece, deadline_ns);
		offset += piece;
		data += piece;
		len_bytes -= piece;
	}
	return error;
}

static int copy_chunk(struct cache_staging *staging,
		      const struct before *before,
		      const struct stage_chunk *chunk, uint64_t deadline_ns)
{
	const uint8_t *data = stage_chunk_data(staging, chunk);
	uint64_t start = (uint64_t)chunk->index << before->shift;
	int error = 0;

	for (unsigned i = 0; i < chunk->written.count && !error; i++) {
		struct stage_range range = chunk->written.range[i];

		error = copy_range(staging, start + range.from,
				   data + range.from, range.to - range.from,
				   deadline_ns);
	}
	return error;
}

/* All of a chunk of the version below; what is written above it later wins. */
static int copy_below(struct cache_staging *staging,
		      const struct before *before, uint32_t index,
		      uint32_t len_bytes, uint64_t deadline_ns)
{
	struct cache_slot below;
	int outcome = stage_base_get(staging, index, deadline_ns, &below);

	if (outcome == CACHE_HOLE)
		return 0;
	if (outcome)
		return outcome;
	outcome =
		copy_range(staging, (uint64_t)index << before->shift,
			   arena_data(staging->cache->arena, below.slot),
			   stage_min(len_bytes, below.len_bytes), deadline_ns);
	arena_unpin(staging->cache->arena, below.slot);
	return outcome;
}

static int copy_all(struct cache_staging *staging, const struct before *before,
		    uint64_t deadline_ns)
{
	uint64_t whole = UINT64_C(1) << before->shift;
	uint64_t below = before->has_base ? before->base_limit : 0;
	uint32_t chunks = (uint32_t)((below + whole - 1) >> before->shift);
	size_t next = 0;
	int error = 0;

	for (uint32_t index = 0; !error && index < chunks; index++) {
		uint64_t len = stage_min(
			below - ((uint64_t)index << before->shift), whole);

		while (next < before->count &&
		       before->chunks[next]->index < index)
			next++;
		if (next < before->count &&
		    before->chunks[next]->index == index)
			len = before->chunks[next]->under_bytes;
		if (len)
			error = copy_below(staging, before, index,
					   (uint32_t)len, deadline_ns);
	}
	for (size_t i = 0; !error && i < before->count; i++)
		error = copy_chunk(staging, before, before->chunks[i],
				   deadline_ns);
	return error;
}

/* Empties the page, but keeps what it consisted of. */
static int take_apart(struct cache_staging *staging, struct before *ret,
		      uint64_t deadline_ns)
{
	for (size_t i = 0; i < staging->chunk_count; i++) {
		struct stage_chunk *chunk = staging->chunks[i];
		int error = chunk->state == STAGE_SPILLED
				    ? stage_unspill(staging, chunk, deadline_ns)
				    : 0;

		if (error)
			return error;
	}
	*ret = (struct before){
		.chunks = staging->chunks,
		.count = staging->chunk_count,
		.shift = staging->entry.chunk_shift,
		.has_base = staging->has_base,
		.base_limit = staging->base_limit,
	};
	staging->chunks = NULL;
	staging->chunk_count = 0;
	staging->chunk_room = 0;
	staging->has_base = false;
	return 0;
}

static void free_chunks(struct cache_staging *staging,
			struct stage_chunk **chunks, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		stage_chunk_release(staging, chunks[i]);
		free(chunks[i]);
	}
	free(chunks);
}

static void put_back(struct cache_staging *staging, const struct before *before)
{
	free_chunks(staging, staging->chunks, staging->chunk_count);
	staging->chunks = before->chunks;
	staging->chunk_count = before->count;
	staging->chunk_room = before->count;
	staging->has_base = before->has_base;
}

int stage_recut(struct cache_staging *staging, unsigned shift,
		uint64_t deadline_ns)
{
	uint64_t object = staging->entry.object;
	struct before before;
	int error = take_apart(staging, &before, deadline_ns);

	if (error)
		return error;
	stage_set_shape(staging, shift,
			before.has_base ? cache_next_object(staging->cache)
					: object);
	error = copy_all(staging, &before, deadline_ns);
	if (error) {
		stage_set_shape(staging, before.shift, object);
		put_back(staging, &before);
		return error;
	}
	free_chunks(staging, before.chunks, before.count);
	if (before.has_base)
		pages_release(staging->cache->pages, staging->base.object,
			      staging->base.version.clock);
	staging->base_limit = 0;
	stage_dirty(staging);
	return 0;
}

static bool worth_it(const struct cache_staging *staging)
{
	return staging->entry.chunk_shift > CHUNK_SHIFT_SMALL &&
	       staging->entry.size_bytes <= RECUT_MAX_BYTES;
}

int stage_recut_sparse(struct cache_staging *staging, uint64_t from_bytes,
		       uint64_t deadline_ns)
{
	uint64_t hole = UINT64_C(1) << CHUNK_SHIFT_MAX;

	if (from_bytes <= staging->entry.size_bytes + hole ||
	    !worth_it(staging))
		return 0;
	return stage_recut(staging, CHUNK_SHIFT_SMALL, deadline_ns);
}

/*
 * A checkpoint alone says nothing: engines that fsync each page write it once.
 * The first write after it does, and would copy a chunk anyway.
 */
int stage_recut_checkpointed(struct cache_staging *staging,
			     uint64_t deadline_ns)
{
	if (!staging->checkpointed)
		return 0;
	staging->checkpointed = false;
	if (staging->entry.size_bytes <= UINT64_C(1) << CHUNK_SHIFT_SMALL ||
	    !worth_it(staging))
		return 0;
	return stage_recut(staging, CHUNK_SHIFT_SMALL, deadline_ns);
}
