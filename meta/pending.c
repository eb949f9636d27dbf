/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "meta/keys.h"
#include "tools/lib/endian.h"

/* Key: clock.  Value: this, then the fact of a FACT. */
struct pending_bytes {
	uint8_t kind;
	uint8_t reserved[7];
	struct le64 object;
};

static_assert(sizeof(struct pending_bytes) == 16, "format");
static_assert(offsetof(struct pending_bytes, object) == 8, "format");

#define PENDING_KEY_BYTES 8u

int pending_row_decode(const void *key, size_t key_len, const void *value,
		       size_t len, struct meta_pending *ret)
{
	static const uint8_t
		zeros[sizeof(((struct pending_bytes *)0)->reserved)];
	struct pending_bytes b;

	if (key_len != PENDING_KEY_BYTES || len < sizeof(b))
		return -EBADMSG;
	memcpy(&b, value, sizeof(b));
	if ((b.kind != META_PENDING_PAGE && b.kind != META_PENDING_FACT) ||
	    memcmp(b.reserved, zeros, sizeof(zeros)) != 0 ||
	    (b.kind == META_PENDING_PAGE && len != sizeof(b)))
		return -EBADMSG;
	*ret = (struct meta_pending){
		.clock = key_get64(key),
		.kind = (enum meta_pending_kind)b.kind,
		.object = le64_get(b.object),
		.fact = (const char *)value + sizeof(b),
		.fact_bytes = len - sizeof(b),
	};
	return 0;
}

/* Without a buffer of the caller's: LMDB makes the room, we fill it. */
int meta_pending_put(struct meta_txn *txn, const struct meta_pending *row)
{
	struct pending_bytes b = {
		.kind = (uint8_t)row->kind,
		.object = le64_put(row->object),
	};
	uint8_t key[PENDING_KEY_BYTES];
	size_t fact_bytes =
		row->kind == META_PENDING_FACT ? row->fact_bytes : 0;
	MDB_val value = {.mv_size = sizeof(b) + fact_bytes};
	enum meta_tier home = txn->meta->home;
	int rc;

	key_put64(key, row->clock);
	rc = db_put(txn, home, TABLE_PENDING, key, sizeof(key), &value,
		    MDB_APPEND | MDB_RESERVE);
	if (rc == DB_EXISTS) {
		value.mv_size = sizeof(b) + fact_bytes;
		rc = db_put(txn, home, TABLE_PENDING, key, sizeof(key), &value,
			    MDB_RESERVE);
	}
	if (rc != 0)
		return rc;
	memcpy(value.mv_data, &b, sizeof(b));
	if (fact_bytes > 0)
		memcpy((char *)value.mv_data + sizeof(b), row->fact,
		       fact_bytes);
	return 0;
}

int meta_pending_del(struct meta_txn *txn, uint64_t clock)
{
	uint8_t key[PENDING_KEY_BYTES];

	key_put64(key, clock);
	return db_del(txn, txn->meta->home, TABLE_PENDING, key, sizeof(key));
}

struct pending_walk {
	int (*each)(void *arg, const struct meta_pending *row);
	void *arg;
};

static int pending_row(void *arg, const MDB_val *key, const MDB_val *value)
{
	const struct pending_walk *walk = arg;
	struct meta_pending row;

	if (pending_row_decode(key->mv_data, key->mv_size, value->mv_data,
			       value->mv_size, &row) < 0) {
		db_bad_row(TABLE_PENDING);
		return 0;
	}
	return walk->each(walk->arg, &row);
}

int meta_pending_each(struct meta_txn *txn, uint64_t after,
		      int (*each)(void *arg, const struct meta_pending *row),
		      void *arg)
{
	struct pending_walk walk = {.each = each, .arg = arg};
	uint8_t from[PENDING_KEY_BYTES];

	if (after == UINT64_MAX)
		return 0;
	key_put64(from, after + 1);
	return db_each(txn, txn->meta->home, TABLE_PENDING, from, sizeof(from),
		       0, pending_row, &walk);
}
