/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/internal.h"

#include "meta/keys.h"

/* Key: when (clock, node), serial.  Value: the fact. */
#define STASH_KEY_BYTES 20u

int meta_stash_put(struct meta_txn *txn, const struct page_version *at,
		   uint32_t serial, const void *fact, size_t len)
{
	MDB_val value = {.mv_size = len, .mv_data = (void *)(uintptr_t)fact};
	uint8_t key[STASH_KEY_BYTES];

	key_put64(key, at->clock);
	key_put64(key + 8, at->node);
	key_put32(key + 16, serial);
	return db_append(txn, txn->meta->home, TABLE_STASH, key, sizeof(key),
			 &value);
}

int meta_stash_take(struct meta_txn *txn, unsigned max,
		    int (*each)(void *arg, const void *fact, size_t len),
		    void *arg)
{
	enum meta_tier home = txn->meta->home;
	MDB_val key, value;
	MDB_cursor *cursor;
	int rc = db_cursor_open(txn, home, TABLE_STASH, &cursor);

	if (rc < 0)
		return rc;
	rc = db_seek(txn, home, cursor, &key, &value, MDB_FIRST);
	while (rc == 0 && max-- > 0) {
		/* Shown first: the bytes are gone once the row is. */
		int stop = each(arg, value.mv_data, value.mv_size);

		rc = db_cursor_del(txn, home, cursor);
		if (rc == 0)
			rc = db_seek(txn, home, cursor, &key, &value,
				     MDB_FIRST);
		if (stop)
			break;
	}
	db_cursor_close(cursor);
	if (rc == META_ABSENT)
		return 0;
	return rc < 0 ? rc : 1;
}
