/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/internal.h"

#include "meta/keys.h"

/* Key: object.  The value is empty. */
#define ORPHAN_KEY_BYTES 8u

int meta_orphan_put(struct meta_txn *txn, uint64_t object)
{
	static char nothing[1];
	MDB_val value = {.mv_size = 0, .mv_data = nothing};
	uint8_t key[ORPHAN_KEY_BYTES];

	key_put64(key, object);
	return db_put(txn, txn->meta->home, TABLE_ORPHANS, key, sizeof(key),
		      &value, 0);
}

int meta_orphan_del(struct meta_txn *txn, uint64_t object)
{
	uint8_t key[ORPHAN_KEY_BYTES];

	key_put64(key, object);
	return db_del(txn, txn->meta->home, TABLE_ORPHANS, key, sizeof(key));
}

struct orphan_walk {
	int (*each)(void *arg, uint64_t object);
	void *arg;
};

static int orphan_row(void *arg, const MDB_val *key, const MDB_val *value)
{
	const struct orphan_walk *walk = arg;

	(void)value;
	if (key->mv_size != ORPHAN_KEY_BYTES) {
		db_bad_row(TABLE_ORPHANS);
		return 0;
	}
	return walk->each(walk->arg, key_get64(key->mv_data));
}

int meta_orphan_each(struct meta_txn *txn,
		     int (*each)(void *arg, uint64_t object), void *arg)
{
	struct orphan_walk walk = {.each = each, .arg = arg};

	return db_each(txn, txn->meta->home, TABLE_ORPHANS, NULL, 0, 0,
		       orphan_row, &walk);
}
