/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_STORE_FORMAT_H
#define PAGEFS_STORE_FORMAT_H

/*
 * What lies on disk: the superblock of a directory, the records of a bucket,
 * and the footer that a full bucket ends with.  store/FORMAT.md tells it in
 * words.  Pure functions over the caller's memory; the decoders take any bytes
 * and touch nothing else (tests/fuzz/fuzz_bucket_*.c).
 */

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "store/bucket.h"
#include "tools/lib/endian.h"
#include "tools/lib/page.h"

#define FORMAT_VERSION 1u
#define FORMAT_CHUNK_MAX (1u << CHUNK_SHIFT_MAX) /* bytes of data, any kind */
#define FORMAT_EXTRA_MAX (72u << 10)
#define FORMAT_CHECKSUMS_MAX (FORMAT_CHUNK_MAX / CHECK_BYTES)
#define FORMAT_HEADER_MAX 81920u /* bytes: all of them at their longest */

/* Of each struct below: the last 8 of its 128 bytes are a checksum over all
 * else in its blocks. */
#define FORMAT_STRUCT_BYTES 128u

struct disk_superblock {
	struct le64 magic; /* "pagefsDB" */
	struct le32 version;
	struct le32 next_bucket; /* numbers below were given out */
	struct le64 node;
	struct le64 created_ns; /* since 1970 */
	uint8_t reserved[88];
	struct le64 check;
};
static_assert(sizeof(struct disk_superblock) == FORMAT_STRUCT_BYTES, "");
static_assert(offsetof(struct disk_superblock, check) == 120, "");

/* Then the chunk's checksums, the key, `extra`, and zeros to the next block,
 * where the data begins. */
struct disk_record {
	struct le64 magic; /* "pagefsRC" */
	struct le32 version;
	struct le32 kind; /* BUCKET_CHUNK, BUCKET_JOURNAL */
	struct le32 header_bytes;
	struct le32 data_bytes;
	struct le64 object;
	struct le64 version_clock;
	struct le64 version_node;
	struct le32 index;
	struct le32 checksum_count;
	struct le32 key_bytes;
	struct le32 extra_bytes;
	struct le64 salt;	   /* the bucket's, random */
	struct le32 durable_block; /* the bucket up to here was on stable
				      storage when this was written */
	struct le32 reserved0;
	struct le64 payload_check; /* journal: XXH3-64 of the data */
	uint8_t reserved1[32];
	struct le64 check;
};
static_assert(sizeof(struct disk_record) == FORMAT_STRUCT_BYTES, "");
static_assert(offsetof(struct disk_record, object) == 24, "");
static_assert(offsetof(struct disk_record, salt) == 64, "");
static_assert(offsetof(struct disk_record, payload_check) == 80, "");
static_assert(offsetof(struct disk_record, check) == 120, "");

/* In the footer's index, followed by the record's header without the zeros at
 * its end, and by zeros to a multiple of 8 bytes. */
struct disk_entry {
	struct le32 block;	 /* where the record's header is */
	struct le32 entry_bytes; /* all of it */
};
static_assert(sizeof(struct disk_entry) == 8, "");

/* The start of a sealed bucket's last block; zeros follow. */
struct disk_trailer {
	struct le64 magic; /* "pagefsTR" */
	struct le32 version;
	struct le32 bucket;
	struct le64 salt;
	struct le32 index_block;
	struct le32 entry_count;
	struct le64 index_bytes;
	struct le64 index_check; /* XXH3-64 */
	uint8_t reserved[72];
	struct le64 check;
};
static_assert(sizeof(struct disk_trailer) == FORMAT_STRUCT_BYTES, "");
static_assert(offsetof(struct disk_trailer, check) == 120, "");

/* Why bytes can't be read as what they should be. */
enum format_outcome {
	FORMAT_OTHER = 1,   /* there is no such thing here: no magic */
	FORMAT_SHORT = 2,   /* record: it goes on past the bytes given */
	FORMAT_NEWER = 3,   /* written by a newer version */
	FORMAT_DAMAGED = 4, /* a checksum or a field is wrong */
};

struct format_superblock {
	uint32_t version;
	uint32_t next_bucket;
	uint64_t node;
	uint64_t created_ns;
};

/* A header, decoded.  Pointers in `record` are into the bytes it came from or,
 * `record.checksums`, into this; `record.data` is NULL. */
struct format_record {
	struct bucket_record record;
	uint64_t checksums[FORMAT_CHECKSUMS_MAX];
	uint32_t block;
	uint32_t header_bytes;
	uint32_t durable_block;
	uint64_t salt;
	uint64_t payload_check;
};

struct format_trailer {
	uint32_t bucket;
	uint32_t index_block;
	uint32_t entry_count;
	uint64_t index_bytes;
	uint64_t index_check;
	uint64_t salt;
};

/* BLOCK_BYTES each. */
void format_encode_superblock(const struct format_superblock *superblock,
			      void *block);
int format_decode_superblock(const void *bytes, size_t len,
			     struct format_superblock *ret);

/* Bytes on disk of a record's header, and of its data. */
uint32_t format_header_bytes(const struct bucket_record *record);
uint32_t format_data_bytes(const struct bucket_record *record);

/* Where a record goes; its own bucket and block are in what the checksum
 * covers, so that it verifies nowhere else. */
struct format_position {
	uint32_t bucket;
	uint32_t block;
	uint32_t durable_block;
	uint64_t salt;
};
/* Fills format_header_bytes() bytes and sets record->place. */
void format_encode_record(struct bucket_record *record,
			  const struct format_position *position, void *header);
/* FORMAT_SHORT: *ret_need is how many bytes it takes, at most
 * FORMAT_HEADER_MAX. */
int format_decode_record(const void *bytes, size_t len, uint32_t bucket,
			 uint32_t block, struct format_record *ret,
			 size_t *ret_need);
/* Is a journal's payload what was written? */
bool format_payload_valid(const struct format_record *record,
			  const void *payload);

/* An index entry is made from an encoded header. */
size_t format_entry_bytes(const struct bucket_record *record);
void format_encode_entry(const void *header, uint32_t block, void *entry);
/* Decodes the first entry of an index whose checksum was right; *ret_bytes is
 * its length.  The record has to end at or before end_block. */
int format_decode_entry(const void *bytes, size_t len, uint32_t bucket,
			uint32_t end_block, struct format_record *ret,
			size_t *ret_bytes);

void format_encode_trailer(const struct format_trailer *trailer, void *block);
int format_decode_trailer(const void *bytes, size_t len, uint32_t bucket,
			  struct format_trailer *ret);

#endif
