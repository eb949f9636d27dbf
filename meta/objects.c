/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "meta/keys.h"
#include "tools/lib/endian.h"

/* Key: object. */
struct object_bytes {
	struct le64 dir;
	struct le64 hash;
	struct le32 links;
};

#define OBJECT_BYTES 20u
static_assert(offsetof(struct object_bytes, hash) == 8, "format");
static_assert(offsetof(struct object_bytes, links) == 16, "format");
static_assert(sizeof(struct object_bytes) >= OBJECT_BYTES, "format");

int object_row_decode(const void *value, size_t len, struct meta_object *ret)
{
	struct object_bytes b;

	if (len != OBJECT_BYTES)
		return -EBADMSG;
	memcpy(&b, value, OBJECT_BYTES);
	*ret = (struct meta_object){
		.dir = le64_get(b.dir),
		.hash = le64_get(b.hash),
		.links = le32_get(b.links),
	};
	return 0;
}

int meta_object_get(
	struct meta_txn *txn, uint64_t object, struct meta_object *ret)
{
	uint8_t key[8];
	MDB_val value;
	int rc;

	key_put64(key, object);
	rc = db_get(
		txn, txn->meta->home, TABLE_OBJECTS, key, sizeof(key), &value);
	if (rc != 0)
		return rc;
	if (object_row_decode(value.mv_data, value.mv_size, ret) == 0)
		return 0;
	db_bad_row(TABLE_OBJECTS);
	return META_ABSENT;
}

int meta_object_put(
	struct meta_txn *txn, uint64_t object, const struct meta_object *row)
{
	struct object_bytes b = {
		.dir = le64_put(row->dir),
		.hash = le64_put(row->hash),
		.links = le32_put(row->links),
	};
	MDB_val value = {.mv_size = OBJECT_BYTES, .mv_data = &b};
	uint8_t key[8];

	key_put64(key, object);
	return db_append(
		txn, txn->meta->home, TABLE_OBJECTS, key, sizeof(key), &value);
}

int meta_object_del(struct meta_txn *txn, uint64_t object)
{
	uint8_t key[8];

	key_put64(key, object);
	return db_del(txn, txn->meta->home, TABLE_OBJECTS, key, sizeof(key));
}
