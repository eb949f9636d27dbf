/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_STORE_ARENA_FORMAT_H
#define PAGEFS_STORE_ARENA_FORMAT_H

/*
 * The arena's files in shared memory, little-endian. They outlive the daemon,
 * not the host, so there is no power loss to think of: a process killed at any
 * moment leaves the stores it made, in the order in which it made them.
 *
 *	arena		superblock (one block), then one record a region
 *	h0003		region 3's table of slot headers
 *	r0003		region 3's slots, where they share a file
 *	r0003.0017	slot 0x17 of region 3, where slots are files
 *
 * A record's `state` and a header's `tag` are written last when something
 * comes to be and first when it ceases to: what they say is there is whole.
 */

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/lib/endian.h"

#define ARENA_MAGIC "pagefsAR"
#define ARENA_FORMAT_VERSION 1u
#define ARENA_SUPERBLOCK_BYTES 4096u

/* Only `clean` and `pid` change while the arena lives; the checksum is of what
 * stands before it. */
struct arena_superblock {
	uint8_t magic[8];
	struct le32 version;
	struct le32 length_bytes; /* of this block: 4096 */
	struct le64 arena_bytes;
	struct le64 region_bytes; /* a power of two */
	struct le32 regions;
	struct le32 header_bytes; /* of one slot: 64 */
	struct le64 checksum;	  /* XXH3-64, seed 0 */
	struct le32 clean;	  /* 1: closed in order */
	struct le32 pid;	  /* of whoever has it open, for messages */
	uint8_t reserved[4040];
};
static_assert(sizeof(struct arena_superblock) == 4096, "superblock");
static_assert(offsetof(struct arena_superblock, arena_bytes) == 16, "layout");
static_assert(offsetof(struct arena_superblock, checksum) == 40, "layout");
static_assert(offsetof(struct arena_superblock, clean) == 48, "layout");
static_assert(offsetof(struct arena_superblock, pid) == 52, "layout");

/* `state` of a region. */
#define ARENA_REGION_NONE 0u /* no class; its files, if any, are left-overs */
#define ARENA_REGION_IN_USE 1u

/* `layout` of a region. */
#define ARENA_LAYOUT_ONE_FILE 0u
#define ARENA_LAYOUT_SLOT_FILES 1u

struct arena_region_record {
	struct le32 state;
	struct le32 layout;
	struct le32 slot_bytes;
	struct le32 slots;
	struct le32 uid;
	struct le32 gid;
	struct le32 mode;
	struct le32 generation; /* one more each time the region gets a class */
	uint8_t reserved[24];
	struct le64 checksum; /* of all before but `state`; seed: the region */
};
static_assert(sizeof(struct arena_region_record) == 64, "region record");
static_assert(offsetof(struct arena_region_record, checksum) == 56, "layout");

/* The low byte of a header's tag. */
#define ARENA_TAG_EMPTY 0u    /* never used: no bytes allocated yet */
#define ARENA_TAG_FREE 1u     /* content undefined */
#define ARENA_TAG_RESERVED 2u /* being filled; as good as free */
#define ARENA_TAG_LIVE 3u     /* holds the chunk named here */
#define ARENA_TAG_STATE_MASK 0xffu
#define ARENA_TAG_GENERATION_SHIFT 8

/* Whoever reads a slot from afar reads header, bytes, header: the same tag,
 * LIVE, both times means that the bytes between are those of this chunk, for
 * the tag's generation goes up before the slot's bytes may change. */
struct arena_slot_header {
	struct le64 tag; /* state | generation << 8 */
	struct le64 object;
	struct le64 version_clock;
	struct le64 version_node;
	struct le32 index; /* chunk number within the page */
	struct le32 length_bytes;
	struct le32 flags;
	uint8_t reserved[20];
};
static_assert(sizeof(struct arena_slot_header) == 64, "slot header");
static_assert(offsetof(struct arena_slot_header, index) == 32, "layout");
static_assert(offsetof(struct arena_slot_header, flags) == 40, "layout");

/* Found after a crash and not checked since. */
#define ARENA_HEADER_UNVERIFIED 1u

#endif
