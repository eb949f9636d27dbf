/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "meta/keys.h"

/* Key: object, name.  Value: the xattr's, as it is. */
#define ATTR_KEY_HEAD 8u
#define ATTR_KEY_MAX (ATTR_KEY_HEAD + NAME_MAX_BYTES)

struct attr_key {
	uint8_t bytes[ATTR_KEY_MAX];
	size_t len;
};

static int attr_key_set(struct attr_key *key, uint64_t object, const char *name,
			size_t len)
{
	if (len > NAME_MAX_BYTES)
		return -ERANGE;
	key_put64(key->bytes, object);
	if (len > 0)
		memcpy(key->bytes + ATTR_KEY_HEAD, name, len);
	key->len = ATTR_KEY_HEAD + len;
	return 0;
}

int meta_attr_get(struct meta_txn *txn, uint64_t object, const char *name,
		  size_t name_len, const void **ret_value, size_t *ret_len)
{
	struct attr_key key;
	MDB_val value;
	int rc = attr_key_set(&key, object, name, name_len);

	if (rc == 0)
		rc = db_get(txn, txn->meta->home, TABLE_ATTRS, key.bytes,
			    key.len, &value);
	if (rc != 0)
		return rc;
	*ret_value = value.mv_data;
	*ret_len = value.mv_size;
	return 0;
}

int meta_attr_put(struct meta_txn *txn, uint64_t object, const char *name,
		  size_t name_len, const void *bytes, size_t len)
{
	MDB_val value = {.mv_size = len, .mv_data = (void *)(uintptr_t)bytes};
	struct attr_key key;
	int rc = attr_key_set(&key, object, name, name_len);

	if (rc < 0)
		return rc;
	if (len > XATTR_MAX_BYTES)
		return -E2BIG;
	return db_append(txn, txn->meta->home, TABLE_ATTRS, key.bytes, key.len,
			 &value);
}

int meta_attr_del(struct meta_txn *txn, uint64_t object, const char *name,
		  size_t name_len)
{
	struct attr_key key;
	int rc = attr_key_set(&key, object, name, name_len);

	if (rc < 0)
		return rc;
	return db_del(txn, txn->meta->home, TABLE_ATTRS, key.bytes, key.len);
}

struct attr_walk {
	int (*each)(void *arg, const char *name, size_t name_len,
		    const void *value, size_t len);
	void *arg;
};

static int attr_row(void *arg, const MDB_val *key, const MDB_val *value)
{
	const struct attr_walk *walk = arg;

	if (key->mv_size > ATTR_KEY_MAX) {
		db_bad_row(TABLE_ATTRS);
		return 0;
	}
	return walk->each(walk->arg, (const char *)key->mv_data + ATTR_KEY_HEAD,
			  key->mv_size - ATTR_KEY_HEAD, value->mv_data,
			  value->mv_size);
}

int meta_attr_each(struct meta_txn *txn, uint64_t object,
		   int (*each)(void *arg, const char *name, size_t name_len,
			       const void *value, size_t len),
		   void *arg)
{
	struct attr_walk walk = {.each = each, .arg = arg};
	uint8_t from[ATTR_KEY_HEAD];

	key_put64(from, object);
	return db_each(txn, txn->meta->home, TABLE_ATTRS, from, sizeof(from),
		       sizeof(from), attr_row, &walk);
}

/* The first row of the object with a key greater than `after`. */
static int attr_next(struct meta_txn *txn, const struct attr_key *after,
		     struct attr_key *ret_key, MDB_val *ret_value)
{
	enum meta_tier home = txn->meta->home;
	MDB_val key = {.mv_size = after->len,
		       .mv_data = (void *)(uintptr_t)after->bytes};
	MDB_cursor *cursor;
	int rc = db_cursor(txn, home, TABLE_ATTRS, &cursor);

	if (rc == 0)
		rc = db_seek(txn, home, cursor, &key, ret_value, MDB_SET_RANGE);
	if (rc == 0 && key.mv_size == after->len &&
	    memcmp(key.mv_data, after->bytes, after->len) == 0)
		rc = db_seek(txn, home, cursor, &key, ret_value, MDB_NEXT);
	if (rc != 0)
		return rc;
	if (key.mv_size < ATTR_KEY_HEAD || key.mv_size > ATTR_KEY_MAX ||
	    memcmp(key.mv_data, after->bytes, ATTR_KEY_HEAD) != 0)
		return META_ABSENT;
	memcpy(ret_key->bytes, key.mv_data, key.mv_size);
	ret_key->len = key.mv_size;
	return 0;
}

int meta_attr_del_all(struct meta_txn *txn, uint64_t object)
{
	enum meta_tier home = txn->meta->home;
	uint8_t from[ATTR_KEY_HEAD];
	MDB_cursor *cursor;
	int rc = db_cursor(txn, home, TABLE_ATTRS, &cursor);

	if (rc < 0)
		return rc;
	key_put64(from, object);
	for (;;) {
		MDB_val key = {.mv_size = sizeof(from), .mv_data = from};
		MDB_val value;

		rc = db_seek(txn, home, cursor, &key, &value, MDB_SET_RANGE);
		if (rc == META_ABSENT)
			return 0;
		if (rc < 0)
			return rc;
		if (key.mv_size < sizeof(from) ||
		    memcmp(key.mv_data, from, sizeof(from)) != 0)
			return 0;
		rc = db_cursor_del(txn, home, cursor);
		if (rc < 0)
			return rc;
	}
}

/* A put may move the page that the value lies on: so by way of a buffer. */
int meta_attr_copy(struct meta_txn *txn, uint64_t from, uint64_t to)
{
	struct attr_key key;
	MDB_val value;
	char *buffer = malloc(XATTR_MAX_BYTES);
	int rc;

	if (buffer == NULL)
		return -ENOMEM;
	/* A symlink's target first: its key is the bare object. */
	attr_key_set(&key, from, NULL, 0);
	rc = db_get(txn, txn->meta->home, TABLE_ATTRS, key.bytes, key.len,
		    &value);
	if (rc == META_ABSENT)
		rc = attr_next(txn, &key, &key, &value);
	while (rc == 0) {
		if (value.mv_size > XATTR_MAX_BYTES) {
			db_bad_row(TABLE_ATTRS);
		} else {
			memcpy(buffer, value.mv_data, value.mv_size);
			rc = meta_attr_put(
				txn, to,
				(const char *)key.bytes + ATTR_KEY_HEAD,
				key.len - ATTR_KEY_HEAD, buffer, value.mv_size);
		}
		if (rc == 0)
			rc = attr_next(txn, &key, &key, &value);
	}
	free(buffer);
	return rc < 0 ? rc : 0;
}
