/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "meta/keys.h"
#include "tools/lib/endian.h"

/* Key: object, index, version clock.  Value: this, then the checksums. */
#define CHUNK_KEY_BYTES 20u
#define CHUNK_PREFIX_BYTES 12u

struct chunk_bytes {
	struct le64 node;
	struct le32 len_bytes;
	struct le32 place; /* slot or bucket */
	struct le32 data_block;
	struct le32 flags;
};

static_assert(sizeof(struct chunk_bytes) == 24, "format");
static_assert(offsetof(struct chunk_bytes, len_bytes) == 8, "format");
static_assert(offsetof(struct chunk_bytes, place) == 12, "format");
static_assert(offsetof(struct chunk_bytes, data_block) == 16, "format");
static_assert(offsetof(struct chunk_bytes, flags) == 20, "format");

#define CHUNK_LEN_MAX (1u << CHUNK_SHIFT_MAX)
#define CHUNK_CHECKS_MAX (CHUNK_LEN_MAX / CHECK_BYTES)

static size_t check_count(uint32_t len_bytes)
{
	return ((size_t)len_bytes + CHECK_BYTES - 1) / CHECK_BYTES;
}

static void chunk_key_set(uint8_t key[CHUNK_KEY_BYTES], uint64_t object,
			  uint32_t index, uint64_t clock)
{
	key_put64(key, object);
	key_put32(key + 8, index);
	key_put64(key + 12, clock);
}

uint64_t meta_checksum(const struct meta_chunk *chunk, size_t block)
{
	struct le64 v;

	memcpy(&v, (const char *)chunk->checksums + block * sizeof(v),
	       sizeof(v));
	return le64_get(v);
}

/* The place goes into both fields: the tier says which one is meant. */
int chunk_row_decode(const void *key, size_t key_len, const void *value,
		     size_t len, struct meta_chunk *ret)
{
	const uint8_t *k = key;
	struct chunk_bytes b;
	uint32_t len_bytes;

	if (key_len != CHUNK_KEY_BYTES || len < sizeof(b))
		return -EBADMSG;
	memcpy(&b, value, sizeof(b));
	len_bytes = le32_get(b.len_bytes);
	if (len_bytes > CHUNK_LEN_MAX ||
	    len - sizeof(b) != check_count(len_bytes) * sizeof(struct le64))
		return -EBADMSG;

	*ret = (struct meta_chunk){
		.id = {.object = key_get64(k),
		       .index = key_get32(k + 8),
		       .version = {.clock = key_get64(k + 12),
				   .node = le64_get(b.node)}},
		.len_bytes = len_bytes,
		.slot = le32_get(b.place),
		.bucket = le32_get(b.place),
		.data_block = le32_get(b.data_block),
		.flags = le32_get(b.flags),
		/* Perhaps unaligned: never followed but by meta_checksum(). */
		.checksums = (const void *)((const char *)value + sizeof(b)),
	};
	return 0;
}

static int chunk_decode(enum meta_tier tier, const MDB_val *key,
			const MDB_val *value, struct meta_chunk *ret)
{
	if (chunk_row_decode(key->mv_data, key->mv_size, value->mv_data,
			     value->mv_size, ret) < 0) {
		db_bad_row(TABLE_CHUNKS);
		return META_ABSENT;
	}
	if (tier == META_MEMORY)
		ret->bucket = 0;
	else
		ret->slot = 0;
	return 0;
}

static bool tier_is_missing(struct meta_txn *txn, enum meta_tier tier)
{
	return txn->meta->env[tier].mdb == NULL;
}

int meta_chunk_get(struct meta_txn *txn, enum meta_tier tier, uint64_t object,
		   uint32_t index, uint64_t at_clock, struct meta_chunk *ret)
{
	uint8_t wanted[CHUNK_KEY_BYTES];
	MDB_val key = {.mv_size = sizeof(wanted), .mv_data = wanted};
	MDB_val value;
	MDB_cursor *cursor;
	int rc;

	if (tier_is_missing(txn, tier))
		return META_ABSENT;
	chunk_key_set(wanted, object, index, at_clock);
	rc = db_cursor(txn, tier, TABLE_CHUNKS, &cursor);
	if (rc < 0)
		return rc;
	rc = db_seek(txn, tier, cursor, &key, &value, MDB_SET_RANGE);
	if (rc == 0 && (key.mv_size != sizeof(wanted) ||
			memcmp(key.mv_data, wanted, sizeof(wanted)) != 0))
		rc = db_seek(txn, tier, cursor, &key, &value, MDB_PREV);
	else if (rc == META_ABSENT)
		rc = db_seek(txn, tier, cursor, &key, &value, MDB_LAST);
	if (rc != 0)
		return rc;
	if (key.mv_size < CHUNK_PREFIX_BYTES ||
	    memcmp(key.mv_data, wanted, CHUNK_PREFIX_BYTES) != 0)
		return META_ABSENT;
	return chunk_decode(tier, &key, &value, ret);
}

int meta_chunk_put(struct meta_txn *txn, enum meta_tier tier,
		   const struct meta_chunk *chunk)
{
	uint8_t key[CHUNK_KEY_BYTES];
	struct {
		struct chunk_bytes head;
		struct le64 checks[CHUNK_CHECKS_MAX];
	} row;
	size_t checks = check_count(chunk->len_bytes);
	MDB_val value = {.mv_size = sizeof(row.head) +
				    checks * sizeof(row.checks[0]),
			 .mv_data = &row};

	if (tier_is_missing(txn, tier) || chunk->len_bytes > CHUNK_LEN_MAX)
		return -EINVAL;
	row.head = (struct chunk_bytes){
		.node = le64_put(chunk->id.version.node),
		.len_bytes = le32_put(chunk->len_bytes),
		.place = le32_put(tier == META_MEMORY ? chunk->slot
						      : chunk->bucket),
		.data_block = le32_put(chunk->data_block),
		.flags = le32_put(chunk->flags),
	};
	for (size_t i = 0; i < checks; i++) {
		uint64_t v; /* of a get's row, perhaps: unaligned */

		memcpy(&v, (const char *)chunk->checksums + i * sizeof(v),
		       sizeof(v));
		row.checks[i] = le64_put(v);
	}
	chunk_key_set(key, chunk->id.object, chunk->id.index,
		      chunk->id.version.clock);
	return db_append(txn, tier, TABLE_CHUNKS, key, sizeof(key), &value);
}

int meta_chunk_del(struct meta_txn *txn, enum meta_tier tier,
		   const struct chunk_id *id)
{
	uint8_t key[CHUNK_KEY_BYTES];

	if (tier_is_missing(txn, tier))
		return META_ABSENT;
	chunk_key_set(key, id->object, id->index, id->version.clock);
	return db_del(txn, tier, TABLE_CHUNKS, key, sizeof(key));
}

struct chunk_walk {
	enum meta_tier tier;
	int (*each)(void *arg, const struct meta_chunk *chunk);
	void *arg;
};

static int chunk_row(void *arg, const MDB_val *key, const MDB_val *value)
{
	const struct chunk_walk *walk = arg;
	struct meta_chunk chunk;

	if (chunk_decode(walk->tier, key, value, &chunk) != 0)
		return 0;
	return walk->each(walk->arg, &chunk);
}

int meta_chunk_each(struct meta_txn *txn, enum meta_tier tier, uint64_t object,
		    uint32_t first_index,
		    int (*each)(void *arg, const struct meta_chunk *chunk),
		    void *arg)
{
	struct chunk_walk walk = {.tier = tier, .each = each, .arg = arg};
	uint8_t from[CHUNK_KEY_BYTES];

	if (tier_is_missing(txn, tier))
		return 0;
	chunk_key_set(from, object, first_index, 0);
	return db_each(txn, tier, TABLE_CHUNKS, from, sizeof(from),
		       object == 0 ? 0 : sizeof(object), chunk_row, &walk);
}
