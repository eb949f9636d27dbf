/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/stage.h"

#include <errno.h>
#include <string.h>

#include "tools/lib/checksum.h"

static bool hashed(const struct stage_chunk *chunk, size_t block)
{
	return chunk->hashed[block / 64] >> (block % 64) & 1;
}

static void set_hashed(struct stage_chunk *chunk, size_t block, bool is)
{
	uint64_t bit = UINT64_C(1) << (block % 64);

	if (is)
		chunk->hashed[block / 64] |= bit;
	else
		chunk->hashed[block / 64] &= ~bit;
}

static void hash_block(struct cache_staging *staging, struct stage_chunk *chunk,
		       size_t block, uint32_t len)
{
	struct chunk_id id = stage_chunk_id(staging, chunk);
	size_t from = block * CHECKSUM_BLOCK_BYTES;
	size_t bytes = len - from < CHECKSUM_BLOCK_BYTES ? len - from
							 : CHECKSUM_BLOCK_BYTES;

	chunk->sums[block] = checksum_bytes(
		(const uint8_t *)stage_chunk_data(staging, chunk) + from, bytes,
		chunk_seed(&id) + block);
}

/*
 * A block is hashed by the write that reaches its end, when all of it is
 * there: its bytes are hot then.  What is written out of order is hashed at
 * the commit.
 */
void stage_chunk_hash(struct cache_staging *staging, struct stage_chunk *chunk,
		      uint32_t from, uint32_t to)
{
	const uint32_t block_bytes = (uint32_t)CHECKSUM_BLOCK_BYTES;

	for (uint32_t block = from / block_bytes; block * block_bytes < to;
	     block++) {
		uint32_t start = block * block_bytes;
		bool whole = to - start >= block_bytes &&
			     stage_ranges_cover(&chunk->written, start,
						start + block_bytes);

		if (whole)
			hash_block(staging, chunk, block, start + block_bytes);
		set_hashed(chunk, block, whole);
	}
}

void stage_chunk_cut(struct stage_chunk *chunk, uint32_t len)
{
	size_t blocks = checksum_block_count(len);

	stage_ranges_cut(&chunk->written, len);
	chunk->under_bytes = (uint32_t)stage_min(chunk->under_bytes, len);
	for (size_t block = blocks ? blocks - 1 : 0;
	     block < 8 * sizeof(chunk->hashed); block++)
		set_hashed(chunk, block, false);
}

int stage_chunk_finish(struct cache_staging *staging, struct stage_chunk *chunk,
		       uint64_t deadline_ns)
{
	int error = stage_chunk_fill(staging, chunk, deadline_ns);
	uint8_t *data = stage_chunk_data(staging, chunk);
	uint32_t len = stage_chunk_len(chunk);
	struct stage_range gap;
	size_t blocks = checksum_block_count(len);

	if (error)
		return error;
	while (stage_ranges_gap(&chunk->written, 0, len, &gap)) {
		memset(data + gap.from, 0, gap.to - gap.from);
		stage_ranges_add(&chunk->written, gap.from, gap.to);
	}
	memset(data + len, 0, round_up_block(len) - len);
	for (size_t block = 0; block < blocks; block++) {
		/* A block that is shorter now than when it was hashed. */
		bool short_block = (block + 1) * CHECKSUM_BLOCK_BYTES > len;

		if (short_block || !hashed(chunk, block))
			hash_block(staging, chunk, block, len);
		set_hashed(chunk, block, !short_block);
	}
	return 0;
}

/* A slot that is too long by more than an eighth, or of a size that repeats
 * elsewhere, is given up for the right one; where that can't be had without
 * waiting, it stays. */
static int fit(struct cache_staging *staging, struct stage_chunk *chunk,
	       uint64_t deadline_ns)
{
	uint64_t len = round_up_block(stage_chunk_len(chunk));
	uint32_t have = arena_slot_bytes(staging->cache->arena, chunk->slot);
	struct slot_class class;
	int error;

	if (have == len)
		return 0;
	class = stage_class(staging, len);
	if (class.slot_bytes >= have)
		return 0;
	if (class.slot_bytes != len && have - len <= have / 8)
		return 0;
	error = stage_chunk_move(staging, chunk, &class, deadline_ns, false);
	return error == -ENOSPC ? 0 : error;
}

static int seal(struct cache_staging *staging, struct stage_chunk *chunk,
		uint64_t deadline_ns)
{
	struct arena *arena = staging->cache->arena;
	struct chunk_id id;
	int error = stage_chunk_finish(staging, chunk, deadline_ns);

	if (!error)
		error = fit(staging, chunk, deadline_ns);
	if (error)
		return error;
	/* fit() copies what was written, not the zeroes behind it. */
	memset((uint8_t *)stage_chunk_data(staging, chunk) +
		       stage_chunk_len(chunk),
	       0,
	       round_up_block(stage_chunk_len(chunk)) - stage_chunk_len(chunk));
	id = stage_chunk_id(staging, chunk);
	chunk->object = id.object;
	chunk->state = STAGE_SEALED;
	stage_slot_account(staging, chunk->slot, false);
	arena_commit(arena, chunk->slot, &id, stage_chunk_len(chunk), true);
	return 0;
}

int stage_seal(struct cache_staging *staging, uint64_t deadline_ns)
{
	for (size_t i = 0; i < staging->chunk_count; i++) {
		struct stage_chunk *chunk = staging->chunks[i];
		int error;

		if (chunk->state != STAGE_OPEN)
			continue;
		error = seal(staging, chunk, deadline_ns);
		if (error)
			return error;
	}
	return 0;
}
