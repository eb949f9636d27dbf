/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_LIB_CHECKSUM_H
#define PAGEFS_TOOLS_LIB_CHECKSUM_H

/*
 * Checksums of pages: XXH3-64 a block of 256 KiB, so that a part of a chunk
 * can be checked without the rest, and block i is seeded with seed + i, so that
 * blocks that changed places are found. Pure functions; about 10 GB/s a core.
 * The values are part of the disk and wire formats.
 */

#include <stddef.h>
#include <stdint.h>

#define CHECKSUM_BLOCK_BYTES ((size_t)256 * 1024)

uint64_t checksum_bytes(const void *data, size_t len_bytes, uint64_t seed);

/* How many blocks so many bytes have: 0 for 0. */
size_t checksum_block_count(uint64_t len_bytes);

/* `ret` has room for checksum_block_count(len_bytes) values. */
void checksum_blocks(const void *data, size_t len_bytes, uint64_t seed,
		     uint64_t *ret);

/* The index of the first block that is not as `expected` says, or SIZE_MAX. */
size_t checksum_verify(const void *data, size_t len_bytes, uint64_t seed,
		       const uint64_t *expected);

/* The id of a key: XXH3-128 of its bytes; ret[0] is the low half. */
void checksum_key(const void *key, size_t len_bytes, uint64_t ret[2]);

#endif
