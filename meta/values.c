/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "tools/lib/endian.h"

/* Names of ours begin with "meta.". */
#define VALUE_TOTALS "meta.totals"
#define VALUE_MAX_BYTES 511u

struct totals_bytes {
	struct le64 pages;
	struct le64 directories;
	struct le64 symlinks;
	struct le64 logical_bytes;
};

static_assert(sizeof(struct totals_bytes) == 32, "format");

int meta_value_get(struct meta_txn *txn, const char *name, void *ret,
		   size_t len)
{
	MDB_val value;
	int rc = db_get(txn, txn->meta->home, TABLE_VALUES, name, strlen(name),
			&value);

	if (rc != 0)
		return rc;
	if (value.mv_size != len) {
		db_bad_row(TABLE_VALUES);
		return META_ABSENT;
	}
	memcpy(ret, value.mv_data, len);
	return 0;
}

int meta_value_put(struct meta_txn *txn, const char *name, const void *bytes,
		   size_t len)
{
	MDB_val value = {.mv_size = len, .mv_data = (void *)(uintptr_t)bytes};

	if (len > VALUE_MAX_BYTES)
		return -EINVAL;
	return db_put(txn, txn->meta->home, TABLE_VALUES, name, strlen(name),
		      &value, 0);
}

/* Counted in the transaction, written once, at its commit. */
void totals_add(struct meta_txn *txn, const struct meta_entry *entry, int sign)
{
	struct meta_totals *change = &txn->change;
	uint64_t one = sign < 0 ? UINT64_MAX : 1;

	if (entry->object == META_ROOT)
		return;
	txn->changed = true;
	switch (entry->type) {
	case META_FILE:
		change->pages += one;
		break;
	case META_DIR:
		change->directories += one;
		break;
	case META_SYMLINK:
		change->symlinks += one;
		break;
	}
	change->logical_bytes += one * entry->stored_bytes;
}

int meta_get_totals(struct meta_txn *txn, struct meta_totals *ret)
{
	struct totals_bytes b = {0};
	int rc = meta_value_get(txn, VALUE_TOTALS, &b, sizeof(b));

	if (rc < 0)
		return rc;
	*ret = (struct meta_totals){
		.pages = le64_get(b.pages) + txn->change.pages,
		.directories =
			le64_get(b.directories) + txn->change.directories,
		.symlinks = le64_get(b.symlinks) + txn->change.symlinks,
		.logical_bytes =
			le64_get(b.logical_bytes) + txn->change.logical_bytes,
	};
	return 0;
}

int totals_store(struct meta_txn *txn)
{
	struct meta_totals totals;
	struct totals_bytes b;
	int rc = meta_get_totals(txn, &totals);

	if (rc < 0)
		return rc;
	b = (struct totals_bytes){
		.pages = le64_put(totals.pages),
		.directories = le64_put(totals.directories),
		.symlinks = le64_put(totals.symlinks),
		.logical_bytes = le64_put(totals.logical_bytes),
	};
	return meta_value_put(txn, VALUE_TOTALS, &b, sizeof(b));
}
