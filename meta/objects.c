/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/internal.h"

#include <errno.h>
#include <string.h>

#include "meta/keys.h"
#include "meta/row.h"
#include "tools/lib/endian.h"

/* Key: object.  Value: the hash (little-endian, 8 bytes), then directory and
 * links as varints of row.h: there is one for each page. */
#define OBJECT_MAX_BYTES 28u

int object_row_decode(const void *value, size_t len, struct meta_object *ret)
{
	const uint8_t *at = value;
	const uint8_t *end = at + len;
	uint64_t dir, links;
	struct le64 hash;

	if (len < sizeof(hash))
		return -EBADMSG;
	memcpy(&hash, at, sizeof(hash));
	at = varint_get(at + sizeof(hash), end, &dir);
	if (at != NULL)
		at = varint_get(at, end, &links);
	if (at != end || links > UINT32_MAX)
		return -EBADMSG;
	*ret = (struct meta_object){
		.dir = dir,
		.hash = le64_get(hash),
		.links = (uint32_t)links,
	};
	return 0;
}

int meta_object_get(struct meta_txn *txn, uint64_t object,
		    struct meta_object *ret)
{
	uint8_t key[8];
	MDB_val value;
	int rc;

	key_put64(key, object);
	rc = db_get(txn, txn->meta->home, TABLE_OBJECTS, key, sizeof(key),
		    &value);
	if (rc != 0)
		return rc;
	if (object_row_decode(value.mv_data, value.mv_size, ret) == 0)
		return 0;
	db_bad_row(TABLE_OBJECTS);
	return META_ABSENT;
}

int meta_object_put(struct meta_txn *txn, uint64_t object,
		    const struct meta_object *row)
{
	const struct le64 hash = le64_put(row->hash);
	uint8_t bytes[OBJECT_MAX_BYTES];
	uint8_t *end = bytes + sizeof(hash);
	MDB_val value = {.mv_data = bytes};
	uint8_t key[8];

	memcpy(bytes, &hash, sizeof(hash));
	end = varint_put(end, row->dir);
	end = varint_put(end, row->links);
	value.mv_size = (size_t)(end - bytes);
	key_put64(key, object);
	return db_append(txn, txn->meta->home, TABLE_OBJECTS, key, sizeof(key),
			 &value);
}

int meta_object_del(struct meta_txn *txn, uint64_t object)
{
	uint8_t key[8];

	key_put64(key, object);
	return db_del(txn, txn->meta->home, TABLE_OBJECTS, key, sizeof(key));
}
