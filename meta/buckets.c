/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/internal.h"

#include <errno.h>
#include <string.h>

#include "meta/keys.h"
#include "tools/lib/endian.h"
#include "tools/lib/log.h"

/* Key: bucket.  Value: live bytes. */
#define BUCKET_KEY_BYTES 4u

static int bucket_decode(const MDB_val *value, uint64_t *ret)
{
	struct le64 v;

	if (value->mv_size != sizeof(v))
		return -EBADMSG;
	memcpy(&v, value->mv_data, sizeof(v));
	*ret = le64_get(v);
	return 0;
}

static uint64_t live_after(uint32_t bucket, uint64_t live, int64_t bytes)
{
	static struct log_limit limit;

	if (bytes >= 0)
		return live + (uint64_t)bytes;
	if (live >= (uint64_t)-bytes)
		return live - (uint64_t)-bytes;
	log_limited(
		&limit, LOG_LEVEL_WARNING,
		"index: bucket %u has fewer live bytes than were taken away "
		"from it; counted as empty",
		bucket);
	return 0;
}

int meta_bucket_add(struct meta_txn *txn, uint32_t bucket, int64_t bytes)
{
	enum meta_tier home = txn->meta->home;
	uint8_t key[BUCKET_KEY_BYTES];
	uint64_t live = 0;
	struct le64 v;
	MDB_val value;
	int rc;

	key_put32(key, bucket);
	rc = db_get(txn, home, TABLE_BUCKETS, key, sizeof(key), &value);
	if (rc < 0)
		return rc;
	if (rc == 0 && bucket_decode(&value, &live) < 0)
		db_bad_row(TABLE_BUCKETS);
	v = le64_put(live_after(bucket, live, bytes));
	value = (MDB_val){.mv_size = sizeof(v), .mv_data = &v};
	return db_put(txn, home, TABLE_BUCKETS, key, sizeof(key), &value, 0);
}

int meta_bucket_del(struct meta_txn *txn, uint32_t bucket)
{
	uint8_t key[BUCKET_KEY_BYTES];

	key_put32(key, bucket);
	return db_del(txn, txn->meta->home, TABLE_BUCKETS, key, sizeof(key));
}

struct bucket_walk {
	int (*each)(void *arg, uint32_t bucket, uint64_t live);
	void *arg;
};

static int bucket_row(void *arg, const MDB_val *key, const MDB_val *value)
{
	const struct bucket_walk *walk = arg;
	uint64_t live;

	if (key->mv_size != BUCKET_KEY_BYTES ||
	    bucket_decode(value, &live) < 0) {
		db_bad_row(TABLE_BUCKETS);
		return 0;
	}
	return walk->each(walk->arg, key_get32(key->mv_data), live);
}

int meta_bucket_each(struct meta_txn *txn,
		     int (*each)(void *arg, uint32_t bucket, uint64_t live),
		     void *arg)
{
	struct bucket_walk walk = {.each = each, .arg = arg};

	return db_each(txn, txn->meta->home, TABLE_BUCKETS, NULL, 0, 0,
		       bucket_row, &walk);
}
