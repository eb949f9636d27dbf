/* SPDX-License-Identifier: Apache-2.0 */
#include "store/format.h"

#include <string.h>

#include "tools/lib/checksum.h"

#define CHECK_OFFSET 120u

/* As they read in a hex dump. */
static const char superblock_magic[8] = "pagefsDB";
static const char record_magic[8] = "pagefsRC";
static const char trailer_magic[8] = "pagefsTR";

static struct le64 magic_put(const char magic[8])
{
	struct le64 value;

	memcpy(&value, magic, sizeof(value));
	return value;
}

static bool magic_is(struct le64 value, const char magic[8])
{
	return memcmp(&value, magic, sizeof(value)) == 0;
}

static bool all_zero(const void *bytes, size_t len)
{
	const unsigned char *at = bytes;

	for (size_t i = 0; i < len; i++) {
		if (at[i] != 0)
			return false;
	}
	return true;
}

/* Over all but the checksum itself. */
static uint64_t check_of(const void *bytes, size_t len, uint64_t seed)
{
	const unsigned char *at = bytes;

	seed = checksum_bytes(at, CHECK_OFFSET, seed);
	return checksum_bytes(at + FORMAT_STRUCT_BYTES,
			      len - FORMAT_STRUCT_BYTES, seed);
}

static uint64_t position_seed(uint32_t bucket, uint32_t block)
{
	return ((uint64_t)bucket << 32 | block) ^ UINT64_C(0x706167656673);
}

/* ---- superblock ---- */

void format_encode_superblock(const struct format_superblock *superblock,
			      void *block)
{
	struct disk_superblock disk = {
		.magic = magic_put(superblock_magic),
		.version = le32_put(FORMAT_VERSION),
		.next_bucket = le32_put(superblock->next_bucket),
		.node = le64_put(superblock->node),
		.created_ns = le64_put(superblock->created_ns),
	};

	memset(block, 0, BLOCK_BYTES);
	memcpy(block, &disk, sizeof(disk));
	disk.check = le64_put(check_of(block, BLOCK_BYTES, 0));
	memcpy(block, &disk, sizeof(disk));
}

int format_decode_superblock(const void *bytes, size_t len,
			     struct format_superblock *ret)
{
	struct disk_superblock disk;

	if (len < BLOCK_BYTES)
		return FORMAT_DAMAGED;
	memcpy(&disk, bytes, sizeof(disk));
	if (!magic_is(disk.magic, superblock_magic))
		return FORMAT_OTHER;
	if (le64_get(disk.check) != check_of(bytes, BLOCK_BYTES, 0))
		return FORMAT_DAMAGED;
	ret->version = le32_get(disk.version);
	if (ret->version > FORMAT_VERSION)
		return FORMAT_NEWER;
	if (ret->version == 0 ||
	    !all_zero(disk.reserved, sizeof(disk.reserved)))
		return FORMAT_DAMAGED;
	ret->next_bucket = le32_get(disk.next_bucket);
	ret->node = le64_get(disk.node);
	ret->created_ns = le64_get(disk.created_ns);
	return 0;
}

/* ---- records ---- */

static size_t checksum_count(const struct bucket_record *record)
{
	if (record->kind != BUCKET_CHUNK)
		return 0;
	return checksum_block_count(record->len_bytes);
}

/* Of a header without the zeros at its end. */
static size_t used_bytes(const struct bucket_record *record)
{
	return FORMAT_STRUCT_BYTES + checksum_count(record) * 8 +
	       record->key_bytes + record->extra_bytes;
}

uint32_t format_header_bytes(const struct bucket_record *record)
{
	return (uint32_t)round_up_block(used_bytes(record));
}

uint32_t format_data_bytes(const struct bucket_record *record)
{
	return (uint32_t)round_up_block(record->len_bytes);
}

static struct disk_record to_disk(const struct bucket_record *record,
				  const struct format_position *at)
{
	struct disk_record disk = {
		.magic = magic_put(record_magic),
		.version = le32_put(FORMAT_VERSION),
		.kind = le32_put(record->kind),
		.header_bytes = le32_put(format_header_bytes(record)),
		.data_bytes = le32_put(record->len_bytes),
		.checksum_count = le32_put((uint32_t)checksum_count(record)),
		.key_bytes = le32_put((uint32_t)record->key_bytes),
		.extra_bytes = le32_put((uint32_t)record->extra_bytes),
		.salt = le64_put(at->salt),
		.durable_block = le32_put(at->durable_block),
	};

	if (record->kind == BUCKET_CHUNK) {
		disk.object = le64_put(record->id.object);
		disk.index = le32_put(record->id.index);
		disk.version_clock = le64_put(record->id.version.clock);
		disk.version_node = le64_put(record->id.version.node);
	} else {
		disk.payload_check = le64_put(checksum_bytes(
			record->data, record->len_bytes, at->salt));
	}
	return disk;
}

void format_encode_record(struct bucket_record *record,
			  const struct format_position *position, void *header)
{
	struct disk_record disk = to_disk(record, position);
	uint32_t header_bytes = format_header_bytes(record);
	unsigned char *at = header;

	assert(record->len_bytes <= FORMAT_CHUNK_MAX);
	assert(record->key_bytes <= KEY_MAX_BYTES);
	assert(record->extra_bytes <= FORMAT_EXTRA_MAX);
	memset(at, 0, header_bytes);
	memcpy(at, &disk, sizeof(disk));
	at += sizeof(disk);
	for (size_t i = 0; i < checksum_count(record); i++, at += 8) {
		struct le64 sum = le64_put(record->checksums[i]);

		memcpy(at, &sum, sizeof(sum));
	}
	if (record->key_bytes)
		memcpy(at, record->key, record->key_bytes);
	if (record->extra_bytes)
		memcpy(at + record->key_bytes, record->extra,
		       record->extra_bytes);
	disk.check = le64_put(
		check_of(header, header_bytes,
			 position_seed(position->bucket, position->block)));
	memcpy(header, &disk, sizeof(disk));
	record->place = (struct bucket_place){
		.bucket = position->bucket,
		.data_block = position->block + header_bytes / BLOCK_BYTES,
		.len_bytes = record->len_bytes,
	};
}

/* Are the lengths such as an encoder writes? */
static bool lengths_valid(const struct disk_record *disk)
{
	uint32_t kind = le32_get(disk->kind);
	uint32_t data = le32_get(disk->data_bytes);
	uint32_t sums = le32_get(disk->checksum_count);
	uint32_t key = le32_get(disk->key_bytes);
	uint32_t extra = le32_get(disk->extra_bytes);

	if (kind != BUCKET_CHUNK && kind != BUCKET_JOURNAL)
		return false;
	if (data > FORMAT_CHUNK_MAX || key > KEY_MAX_BYTES ||
	    extra > FORMAT_EXTRA_MAX)
		return false;
	if (sums != (kind == BUCKET_CHUNK ? checksum_block_count(data) : 0))
		return false;
	return le32_get(disk->header_bytes) ==
	       round_up_block(FORMAT_STRUCT_BYTES + sums * 8 + key + extra);
}

/* The fields, from a header or an entry of the index.  `bytes` is as long as
 * the lengths in it say. */
static int take_fields(const struct disk_record *disk, const void *bytes,
		       uint32_t bucket, uint32_t block,
		       struct format_record *ret)
{
	const unsigned char *at = bytes;
	uint32_t sums = le32_get(disk->checksum_count);
	struct bucket_record *record = &ret->record;

	if (le32_get(disk->reserved0) != 0 ||
	    !all_zero(disk->reserved1, sizeof(disk->reserved1)))
		return FORMAT_DAMAGED;
	at += FORMAT_STRUCT_BYTES;
	for (uint32_t i = 0; i < sums; i++, at += 8) {
		struct le64 sum;

		memcpy(&sum, at, sizeof(sum));
		ret->checksums[i] = le64_get(sum);
	}
	memset(record, 0, sizeof(*record));
	record->kind = le32_get(disk->kind) == BUCKET_CHUNK ? BUCKET_CHUNK
							    : BUCKET_JOURNAL;
	record->id.object = le64_get(disk->object);
	record->id.index = le32_get(disk->index);
	record->id.version.clock = le64_get(disk->version_clock);
	record->id.version.node = le64_get(disk->version_node);
	record->checksums = ret->checksums;
	record->key = at;
	record->key_bytes = le32_get(disk->key_bytes);
	record->extra = at + record->key_bytes;
	record->extra_bytes = le32_get(disk->extra_bytes);
	record->len_bytes = le32_get(disk->data_bytes);
	ret->block = block;
	ret->header_bytes = le32_get(disk->header_bytes);
	ret->durable_block = le32_get(disk->durable_block);
	ret->salt = le64_get(disk->salt);
	ret->payload_check = le64_get(disk->payload_check);
	record->place = (struct bucket_place){
		.bucket = bucket,
		.data_block = block + ret->header_bytes / BLOCK_BYTES,
		.len_bytes = record->len_bytes,
	};
	return 0;
}

int format_decode_record(const void *bytes, size_t len, uint32_t bucket,
			 uint32_t block, struct format_record *ret,
			 size_t *ret_need)
{
	struct disk_record disk;
	uint32_t header_bytes;

	if (len < BLOCK_BYTES)
		return FORMAT_DAMAGED;
	memcpy(&disk, bytes, sizeof(disk));
	if (!magic_is(disk.magic, record_magic))
		return FORMAT_OTHER;
	if (le32_get(disk.version) > FORMAT_VERSION)
		return FORMAT_NEWER;
	header_bytes = le32_get(disk.header_bytes);
	if (le32_get(disk.version) == 0 || !lengths_valid(&disk))
		return FORMAT_DAMAGED;
	if (header_bytes > len) {
		*ret_need = header_bytes;
		return FORMAT_SHORT;
	}
	if (le64_get(disk.check) !=
	    check_of(bytes, header_bytes, position_seed(bucket, block)))
		return FORMAT_DAMAGED;
	return take_fields(&disk, bytes, bucket, block, ret);
}

bool format_payload_valid(const struct format_record *record,
			  const void *payload)
{
	return checksum_bytes(payload, record->record.len_bytes,
			      record->salt) == record->payload_check;
}

/* ---- footer ---- */

static size_t round_up_8(size_t len)
{
	return (len + 7) & ~(size_t)7;
}

size_t format_entry_bytes(const struct bucket_record *record)
{
	return sizeof(struct disk_entry) + round_up_8(used_bytes(record));
}

static size_t used_bytes_of(const struct disk_record *disk)
{
	return FORMAT_STRUCT_BYTES +
	       (size_t)le32_get(disk->checksum_count) * 8 +
	       le32_get(disk->key_bytes) + le32_get(disk->extra_bytes);
}

void format_encode_entry(const void *header, uint32_t block, void *entry)
{
	struct disk_record disk;
	struct disk_entry head;
	size_t used, bytes;

	memcpy(&disk, header, sizeof(disk));
	used = used_bytes_of(&disk);
	bytes = sizeof(head) + round_up_8(used);
	head.block = le32_put(block);
	head.entry_bytes = le32_put((uint32_t)bytes);
	memset(entry, 0, bytes);
	memcpy(entry, &head, sizeof(head));
	memcpy((unsigned char *)entry + sizeof(head), header, used);
}

int format_decode_entry(const void *bytes, size_t len, uint32_t bucket,
			uint32_t end_block, struct format_record *ret,
			size_t *ret_bytes)
{
	const unsigned char *at = bytes;
	struct disk_record disk;
	struct disk_entry head;
	uint64_t end;
	size_t used;
	int r;

	if (len < sizeof(head) + sizeof(disk))
		return FORMAT_DAMAGED;
	memcpy(&head, at, sizeof(head));
	memcpy(&disk, at + sizeof(head), sizeof(disk));
	if (!magic_is(disk.magic, record_magic) || !lengths_valid(&disk))
		return FORMAT_DAMAGED;
	used = used_bytes_of(&disk);
	*ret_bytes = sizeof(head) + round_up_8(used);
	if (le32_get(head.entry_bytes) != *ret_bytes || *ret_bytes > len)
		return FORMAT_DAMAGED;
	r = take_fields(&disk, at + sizeof(head), bucket, le32_get(head.block),
			ret);
	if (r)
		return r;
	end = (uint64_t)ret->block + ret->header_bytes / BLOCK_BYTES +
	      format_data_bytes(&ret->record) / BLOCK_BYTES;
	return end <= end_block ? 0 : FORMAT_DAMAGED;
}

void format_encode_trailer(const struct format_trailer *trailer, void *block)
{
	struct disk_trailer disk = {
		.magic = magic_put(trailer_magic),
		.version = le32_put(FORMAT_VERSION),
		.bucket = le32_put(trailer->bucket),
		.salt = le64_put(trailer->salt),
		.index_block = le32_put(trailer->index_block),
		.entry_count = le32_put(trailer->entry_count),
		.index_bytes = le64_put(trailer->index_bytes),
		.index_check = le64_put(trailer->index_check),
	};

	memset(block, 0, BLOCK_BYTES);
	memcpy(block, &disk, sizeof(disk));
	disk.check = le64_put(check_of(block, BLOCK_BYTES, trailer->bucket));
	memcpy(block, &disk, sizeof(disk));
}

int format_decode_trailer(const void *bytes, size_t len, uint32_t bucket,
			  struct format_trailer *ret)
{
	struct disk_trailer disk;

	if (len < BLOCK_BYTES)
		return FORMAT_DAMAGED;
	memcpy(&disk, bytes, sizeof(disk));
	if (!magic_is(disk.magic, trailer_magic))
		return FORMAT_OTHER;
	if (le32_get(disk.version) > FORMAT_VERSION)
		return FORMAT_NEWER;
	if (le64_get(disk.check) != check_of(bytes, BLOCK_BYTES, bucket) ||
	    le32_get(disk.version) == 0 || le32_get(disk.bucket) != bucket ||
	    !all_zero(disk.reserved, sizeof(disk.reserved)))
		return FORMAT_DAMAGED;
	ret->bucket = bucket;
	ret->salt = le64_get(disk.salt);
	ret->index_block = le32_get(disk.index_block);
	ret->entry_count = le32_get(disk.entry_count);
	ret->index_bytes = le64_get(disk.index_bytes);
	ret->index_check = le64_get(disk.index_check);
	return 0;
}
