/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/internal.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

#include "meta/keys.h"
#include "meta/row.h"

/* Key: directory, hash, name.  Value: the entry, as in row.h. */
#define NAME_KEY_HEAD 16u
#define NAME_KEY_MAX (NAME_KEY_HEAD + NAME_MAX_BYTES)

/* The kernel's readdir takes small cookies for "." and "..". */
#define HASH_MIN 16u

struct name_key {
	uint8_t bytes[NAME_KEY_MAX];
	size_t len;
};

static uint64_t hash_default(const void *bytes, size_t len)
{
	return XXH3_64bits(bytes, len);
}

uint64_t (*meta_hash_function)(const void *bytes, size_t len) = hash_default;

uint64_t meta_name_hash(const char *name, size_t len)
{
	uint64_t hash = meta_hash_function(name, len) >> 1;

	return hash < HASH_MIN ? hash + HASH_MIN : hash;
}

static void head_set(struct name_key *key, uint64_t dir, uint64_t hash)
{
	key_put64(key->bytes, dir);
	key_put64(key->bytes + 8, hash);
	key->len = NAME_KEY_HEAD;
}

static int name_key_set(struct name_key *key, uint64_t dir, const char *name,
			size_t len)
{
	if (len > NAME_MAX_BYTES)
		return -ENAMETOOLONG;
	head_set(key, dir, meta_name_hash(name, len));
	memcpy(key->bytes + NAME_KEY_HEAD, name, len);
	key->len += len;
	return 0;
}

int meta_name_get(struct meta_txn *txn, uint64_t dir, const char *name,
		  size_t len, struct meta_entry *ret)
{
	struct name_key key;
	MDB_val value;
	int rc = name_key_set(&key, dir, name, len);

	if (rc == 0)
		rc = db_get(txn, txn->meta->home, TABLE_NAMES, key.bytes,
			    key.len, &value);
	if (rc != 0)
		return rc;
	if (entry_row_decode(value.mv_data, value.mv_size, ret) == 0)
		return 0;
	db_bad_row(TABLE_NAMES);
	return META_ABSENT;
}

/* What is in the totals for a row that goes; for a damaged one that can't be
 * told. */
static void row_uncount(struct meta_txn *txn, const MDB_val *value)
{
	struct meta_entry entry;

	if (entry_row_decode(value->mv_data, value->mv_size, &entry) == 0)
		totals_add(txn, &entry, -1);
	else
		db_bad_row(TABLE_NAMES);
}

int meta_name_put(struct meta_txn *txn, uint64_t dir, const char *name,
		  size_t len, const struct meta_entry *entry)
{
	uint8_t bytes[ENTRY_ROW_MAX];
	MDB_val value;
	size_t bytes_len;
	struct name_key key;
	int rc = name_key_set(&key, dir, name, len);

	if (rc < 0)
		return rc;
	bytes_len = entry_row_encode(entry, bytes);
	value = (MDB_val){.mv_size = bytes_len, .mv_data = bytes};
	rc = db_put(txn, txn->meta->home, TABLE_NAMES, key.bytes, key.len,
		    &value, MDB_NOOVERWRITE);
	if (rc == DB_EXISTS) {
		row_uncount(txn, &value);
		value = (MDB_val){.mv_size = bytes_len, .mv_data = bytes};
		rc = db_put(txn, txn->meta->home, TABLE_NAMES, key.bytes,
			    key.len, &value, 0);
	}
	if (rc == 0)
		totals_add(txn, entry, 1);
	return rc;
}

int meta_name_del(struct meta_txn *txn, uint64_t dir, const char *name,
		  size_t len)
{
	enum meta_tier home = txn->meta->home;
	struct name_key key;
	MDB_cursor *cursor;
	MDB_val k, value;
	int rc = name_key_set(&key, dir, name, len);

	if (rc == 0)
		rc = db_cursor(txn, home, TABLE_NAMES, &cursor);
	if (rc < 0)
		return rc;
	k = (MDB_val){.mv_size = key.len, .mv_data = key.bytes};
	rc = db_seek(txn, home, cursor, &k, &value, MDB_SET_KEY);
	if (rc != 0)
		return rc;
	row_uncount(txn, &value);
	return db_cursor_del(txn, home, cursor);
}

bool meta_dir_empty(struct meta_txn *txn, uint64_t dir)
{
	enum meta_tier home = txn->meta->home;
	uint8_t from[8];
	MDB_val key = {.mv_size = sizeof(from), .mv_data = from};
	MDB_val value;
	MDB_cursor *cursor;

	key_put64(from, dir);
	if (db_cursor(txn, home, TABLE_NAMES, &cursor) < 0)
		return false;
	switch (db_seek(txn, home, cursor, &key, &value, MDB_SET_RANGE)) {
	case 0:
		return key.mv_size < sizeof(from) ||
		       memcmp(key.mv_data, from, sizeof(from)) != 0;
	case META_ABSENT:
		return true;
	default:
		return false;
	}
}

struct lister {
	int (*each)(void *arg, uint64_t hash, const char *name, size_t len,
		    const struct meta_entry *entry);
	void *arg;
	const struct name_key *skip; /* listed last time, or NULL */
};

static int list_row(void *arg, const MDB_val *key, const MDB_val *value)
{
	const struct lister *lister = arg;
	const char *bytes = key->mv_data;
	struct meta_entry entry;

	if (lister->skip != NULL && key->mv_size == lister->skip->len &&
	    memcmp(bytes, lister->skip->bytes, key->mv_size) == 0)
		return 0;
	if (key->mv_size < NAME_KEY_HEAD || key->mv_size > NAME_KEY_MAX ||
	    entry_row_decode(value->mv_data, value->mv_size, &entry) < 0) {
		db_bad_row(TABLE_NAMES);
		return 0;
	}
	return lister->each(lister->arg, key_get64(bytes + 8),
			    bytes + NAME_KEY_HEAD, key->mv_size - NAME_KEY_HEAD,
			    &entry);
}

int meta_list(struct meta_txn *txn, uint64_t dir, uint64_t after,
	      const char *after_name, size_t after_name_len,
	      int (*each)(void *arg, uint64_t hash, const char *name,
			  size_t len, const struct meta_entry *entry),
	      void *arg)
{
	struct lister lister = {.each = each, .arg = arg};
	struct name_key from;

	if (after_name == NULL) {
		if (after == UINT64_MAX)
			return 0;
		head_set(&from, dir, after + 1);
	} else {
		if (after_name_len > NAME_MAX_BYTES)
			return -ENAMETOOLONG;
		head_set(&from, dir, after);
		memcpy(from.bytes + from.len, after_name, after_name_len);
		from.len += after_name_len;
		lister.skip = &from;
	}
	return db_each(txn, txn->meta->home, TABLE_NAMES, from.bytes, from.len,
		       sizeof(uint64_t), list_row, &lister);
}

/* ---- from an object to its name ---- */

struct finder {
	uint64_t object;
	bool found;
	char *ret_name;
	size_t *ret_len;
	struct meta_entry *ret_entry;
};

static int find_row(void *arg, const MDB_val *key, const MDB_val *value)
{
	struct finder *finder = arg;
	struct meta_entry entry;
	size_t len = key->mv_size - NAME_KEY_HEAD; /* the prefix matched */

	if (len > NAME_MAX_BYTES ||
	    entry_row_decode(value->mv_data, value->mv_size, &entry) < 0) {
		db_bad_row(TABLE_NAMES);
		return 0;
	}
	if (entry.object != finder->object)
		return 0;
	memcpy(finder->ret_name, (char *)key->mv_data + NAME_KEY_HEAD, len);
	finder->ret_name[len] = '\0';
	*finder->ret_len = len;
	*finder->ret_entry = entry;
	finder->found = true;
	return 1;
}

int meta_object_name(struct meta_txn *txn, uint64_t object, uint64_t *ret_dir,
		     char *ret_name, size_t *ret_len,
		     struct meta_entry *ret_entry)
{
	struct finder finder = {.object = object,
				.ret_name = ret_name,
				.ret_len = ret_len,
				.ret_entry = ret_entry};
	struct meta_object row;
	struct name_key from;
	int rc = meta_object_get(txn, object, &row);

	if (rc != 0)
		return rc;
	head_set(&from, row.dir, row.hash);
	rc = db_each(txn, txn->meta->home, TABLE_NAMES, from.bytes, from.len,
		     from.len, find_row, &finder);
	if (rc < 0)
		return rc;
	if (!finder.found)
		return META_ABSENT;
	*ret_dir = row.dir;
	return 0;
}

int meta_key(struct meta_txn *txn, uint64_t dir, const char *name, size_t len,
	     char *ret_key, size_t *ret_len)
{
	char key[KEY_MAX_BYTES]; /* filled from its end */
	char component[NAME_MAX_BYTES + 1];
	struct meta_entry entry;
	size_t at = sizeof(key);

	for (;;) {
		int rc;

		if (len > at)
			return -ENAMETOOLONG;
		at -= len;
		memcpy(key + at, name, len);
		if (dir == META_ROOT)
			break;
		if (at == 0)
			return -ENAMETOOLONG;
		/* The separator also ends a circle, should damage make one. */
		key[--at] = '/';
		rc = meta_object_name(txn, dir, &dir, component, &len, &entry);
		if (rc != 0)
			return rc;
		name = component;
	}
	*ret_len = sizeof(key) - at;
	memcpy(ret_key, key + at, *ret_len);
	return 0;
}
