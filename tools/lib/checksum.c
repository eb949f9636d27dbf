/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/checksum.h"

#include <xxhash.h>

/* The same function, by the widest vectors that this processor has: twice as
 * fast where those are AVX2 or wider. */
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>

/* The library looks at the processor at its first long input, without a lock:
 * here, before there are threads. */
__attribute__((constructor)) static void choose_vectors(void)
{
	static const char zeroes[1024];

	XXH3_64bits_withSeed(zeroes, sizeof(zeroes), 1);
}
#endif

uint64_t checksum_bytes(const void *data, size_t len_bytes, uint64_t seed)
{
	return XXH3_64bits_withSeed(data, len_bytes, seed);
}

size_t checksum_block_count(uint64_t len_bytes)
{
	return (size_t)(len_bytes / CHECKSUM_BLOCK_BYTES +
			(len_bytes % CHECKSUM_BLOCK_BYTES != 0));
}

static uint64_t checksum_block(const void *data, size_t len_bytes,
			       uint64_t seed, size_t index)
{
	size_t offset = index * CHECKSUM_BLOCK_BYTES;
	size_t rest = len_bytes - offset;

	return checksum_bytes(
		(const char *)data + offset,
		rest < CHECKSUM_BLOCK_BYTES ? rest : CHECKSUM_BLOCK_BYTES,
		seed + index);
}

void checksum_blocks(const void *data, size_t len_bytes, uint64_t seed,
		     uint64_t *ret)
{
	size_t count = checksum_block_count(len_bytes);

	for (size_t i = 0; i < count; i++)
		ret[i] = checksum_block(data, len_bytes, seed, i);
}

size_t checksum_verify(const void *data, size_t len_bytes, uint64_t seed,
		       const uint64_t *expected)
{
	size_t count = checksum_block_count(len_bytes);

	for (size_t i = 0; i < count; i++) {
		if (checksum_block(data, len_bytes, seed, i) != expected[i])
			return i;
	}
	return SIZE_MAX;
}

void checksum_key(const void *key, size_t len_bytes, uint64_t ret[2])
{
	XXH128_hash_t hash = XXH3_128bits(key, len_bytes);

	ret[0] = hash.low64;
	ret[1] = hash.high64;
}
