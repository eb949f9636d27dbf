/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_LIB_PAGE_H
#define PAGEFS_LIB_PAGE_H

/*
 * The words every layer shares: what a key, a version and a chunk are, and
 * how large each may be.  Plain values; nothing here is owned or locked.
 *
 * A page is the whole content of one key, immutable once committed.  It is
 * cut into chunks; a chunk is what is placed, stored, checked and moved.
 */

#include <stdbool.h>
#include <stdint.h>

#define KEY_MAX_BYTES 4096u	/* a key: the path below the mount */
#define NAME_MAX_BYTES 255u	/* one component of a key */
#define SYMLINK_MAX_BYTES 4095u /* a symlink's target */
#define XATTR_MAX_BYTES 65536u	/* one xattr's value */
#define PAGE_MAX_BYTES (1ull << 40)
#define BLOCK_BYTES 4096u	 /* O_DIRECT alignment: slots, disk records */
#define CHECK_BYTES (256u << 10) /* one checksum covers this much */

#define CHUNK_SHIFT_MAX 26u /* 64 MiB: a page up to this is one chunk */
#define CHUNK_SHIFT_SMALL                                                      \
	20u /* 1 MiB: sparse and checkpointed pages, so                        \
	       that an fsync rewrites little */

/* Orders the commits of a key everywhere: a hybrid logical clock (48 bits of
 * milliseconds since 1970, 16 bits of counter), ties by node id; the higher
 * one wins.  A node never issues one clock value twice, so (clock, node)
 * names one commit in the whole pool. */
struct page_version {
	uint64_t clock;
	uint64_t node;
};

/* XXH3-128 of a key's bytes. */
struct key_id {
	uint64_t lo;
	uint64_t hi;
};

/* Names the bytes of one chunk for good.  `object` is this node's number for
 * the content behind a name (an inode number: it survives rename, and a name
 * overwritten gets a new one); `version` is that of the commit that wrote
 * this chunk, which may be older than the page's: unchanged chunks are shared
 * between versions. */
struct chunk_id {
	uint64_t object;
	uint32_t index; /* chunk number within the page */
	struct page_version version;
};

static inline int page_version_compare(const struct page_version *a,
				       const struct page_version *b)
{
	if (a->clock != b->clock)
		return a->clock < b->clock ? -1 : 1;
	if (a->node != b->node)
		return a->node < b->node ? -1 : 1;
	return 0;
}

static inline bool chunk_id_equal(const struct chunk_id *a,
				  const struct chunk_id *b)
{
	return a->object == b->object && a->index == b->index &&
	       page_version_compare(&a->version, &b->version) == 0;
}

/* The seed of a chunk's checksums (XXH3-64, one a CHECK_BYTES block; block i
 * of the chunk is hashed with seed + i).  Because the seed names the commit
 * and the chunk, bytes of another key, version or place never verify: one
 * hash checks content, key and version.  It holds no `object`, which differs
 * between nodes. */
static inline uint64_t chunk_seed(const struct chunk_id *id)
{
	uint64_t seed = id->version.clock * 0x9E3779B97F4A7C15ull;

	seed ^= (id->version.node + 0x7F4A7C15ull) * 0xC2B2AE3D27D4EB4Full;
	seed ^= (id->index + 1ull) * 0x165667B19E3779F9ull;
	return seed ^ (seed >> 29);
}

static inline uint64_t round_up_block(uint64_t len_bytes)
{
	return (len_bytes + BLOCK_BYTES - 1) & ~(uint64_t)(BLOCK_BYTES - 1);
}

#endif
