/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "meta/keys.h"
#include "tools/lib/endian.h"

/* Key: key id. */
#define TOMB_KEY_BYTES 16u

struct tomb_bytes {
	struct le64 clock;
	struct le64 node;
	struct le64 at_ns;
};

static_assert(sizeof(struct tomb_bytes) == 24, "format");

/* Rows a sweep looks at, for each one that it may drop: ids say nothing about
 * age, and a sweep of all would hold up the writers. */
#define SWEEP_ROWS_EACH 16u
#define SWEEP_ROWS_MIN 1024u

static void tomb_key_set(uint8_t key[TOMB_KEY_BYTES], const struct key_id *id)
{
	key_put64(key, id->hi);
	key_put64(key + 8, id->lo);
}

static int tomb_decode(const MDB_val *value, struct page_version *ret_version,
		       int64_t *ret_at_ns)
{
	struct tomb_bytes b;

	if (value->mv_size != sizeof(b))
		return -EBADMSG;
	memcpy(&b, value->mv_data, sizeof(b));
	ret_version->clock = le64_get(b.clock);
	ret_version->node = le64_get(b.node);
	*ret_at_ns = (int64_t)le64_get(b.at_ns);
	return 0;
}

int meta_tomb_get(struct meta_txn *txn, const struct key_id *id,
		  struct page_version *ret)
{
	uint8_t key[TOMB_KEY_BYTES];
	MDB_val value;
	int64_t at_ns;
	int rc;

	tomb_key_set(key, id);
	rc = db_get(txn, txn->meta->home, TABLE_TOMBS, key, sizeof(key),
		    &value);
	if (rc != 0)
		return rc;
	if (tomb_decode(&value, ret, &at_ns) == 0)
		return 0;
	db_bad_row(TABLE_TOMBS);
	return META_ABSENT;
}

int meta_tomb_put(struct meta_txn *txn, const struct key_id *id,
		  const struct page_version *version, int64_t at_ns)
{
	struct tomb_bytes b = {
		.clock = le64_put(version->clock),
		.node = le64_put(version->node),
		.at_ns = le64_put((uint64_t)at_ns),
	};
	MDB_val value = {.mv_size = sizeof(b), .mv_data = &b};
	uint8_t key[TOMB_KEY_BYTES];
	struct page_version there;
	int rc = meta_tomb_get(txn, id, &there);

	if (rc < 0)
		return rc;
	if (rc == 0 && page_version_compare(&there, version) > 0)
		return 0;
	tomb_key_set(key, id);
	return db_put(txn, txn->meta->home, TABLE_TOMBS, key, sizeof(key),
		      &value, 0);
}

/* 1: dropped; 0: kept. */
static int sweep_row(struct meta_txn *txn, MDB_cursor *cursor,
		     const MDB_val *value, int64_t before_ns)
{
	struct page_version version;
	int64_t at_ns;
	int rc;

	if (tomb_decode(value, &version, &at_ns) < 0) {
		db_bad_row(TABLE_TOMBS);
		return 0;
	}
	if (at_ns >= before_ns)
		return 0;
	rc = db_cursor_del(txn, txn->meta->home, cursor);
	return rc < 0 ? rc : 1;
}

int meta_tomb_sweep(struct meta_txn *txn, int64_t before_ns, unsigned max)
{
	enum meta_tier home = txn->meta->home;
	uint8_t *at = txn->meta->tomb_at; /* we are the writer */
	MDB_val key = {.mv_size = TOMB_KEY_BYTES, .mv_data = at};
	unsigned rows = max * SWEEP_ROWS_EACH + SWEEP_ROWS_MIN;
	int dropped = 0;
	MDB_val value;
	MDB_cursor *cursor;
	int rc = db_cursor(txn, home, TABLE_TOMBS, &cursor);

	if (rc == 0)
		rc = db_seek(txn, home, cursor, &key, &value, MDB_SET_RANGE);
	for (; rc == 0 && rows > 0 && (unsigned)dropped < max; rows--) {
		rc = sweep_row(txn, cursor, &value, before_ns);
		if (rc < 0)
			return rc;
		dropped += rc;
		rc = db_seek(txn, home, cursor, &key, &value, MDB_NEXT);
	}
	if (rc < 0)
		return rc;
	memset(at, 0, TOMB_KEY_BYTES);
	if (rc == 0 && key.mv_size == TOMB_KEY_BYTES)
		memcpy(at, key.mv_data, TOMB_KEY_BYTES);
	return dropped;
}
