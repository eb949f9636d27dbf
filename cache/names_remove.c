/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/names.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/checksum.h"

/* Other nodes must not bring the key back.  Temporary names are nobody
 * else's. */
static int bury(struct cache *cache, struct meta_txn *txn,
		const struct cache_name *name)
{
	struct page_version version = cache_next_version(cache);
	char key[KEY_MAX_BYTES];
	struct key_id id;
	uint64_t hash[2];
	size_t len;
	int error;

	if (cache_name_temporary(cache, name))
		return 0;
	error = meta_key(txn, name->dir, name->name, name->len, key, &len);
	if (error)
		return error == META_ABSENT ? 0 : error;
	checksum_key(key, len, hash);
	id = (struct key_id){hash[0], hash[1]};
	return meta_tomb_put(txn, &id, &version, names_now_ns());
}

int names_forget(struct cache *cache, struct meta_txn *txn,
		 const struct cache_name *name, const struct meta_entry *entry)
{
	int error = 0;

	/* What no bucket knows of needs no taking back. */
	if (!(entry->flags & META_NAME_NEW))
		error = cache_fact_gone(cache, txn, name);
	if (!error)
		error = bury(cache, txn, name);
	return error;
}

static int unlink_in(struct cache *cache, struct meta_txn *txn,
		     const struct cache_name *name,
		     struct cache_garbage *garbage)
{
	struct meta_entry entry;
	int error =
		meta_name_get(txn, name->dir, name->name, name->len, &entry);

	if (error)
		return error == META_ABSENT ? CACHE_MISS : error;
	if (entry.type == META_DIR)
		return -EISDIR;
	error = names_forget(cache, txn, name, &entry);
	if (!error)
		error = meta_name_del(txn, name->dir, name->name, name->len);
	if (!error)
		error = cache_object_unlink(cache, txn, entry.object, garbage);
	return error ? error : cache_dir_changed(cache, txn, name->dir);
}

int names_unlink(struct cache *cache, const struct cache_name *name)
{
	struct cache_garbage garbage = {0};
	struct meta_txn *txn;
	int error = meta_begin_write(cache->meta, &txn);

	if (error)
		return error;
	error = unlink_in(cache, txn, name, &garbage);
	if (error)
		meta_abort(txn);
	else
		error = cache_commit(cache, txn);
	if (error) {
		cache_garbage_drop(&garbage);
		return error;
	}
	cache_garbage_free(cache, &garbage);
	writeback_kick(cache->writeback, false);
	return 0;
}

int cache_unlink(struct cache *cache, const struct cache_name *name)
{
	if (names_hidden(cache, name))
		return CACHE_MISS;
	return stagings_unlink(cache, name);
}

/* ---- directories ---- */

int names_remove_dir(struct cache *cache, struct meta_txn *txn,
		     const struct cache_name *name, uint64_t dir)
{
	int error;

	if (!meta_dir_empty(txn, dir))
		return -ENOTEMPTY;
	error = cache_fact_gone(cache, txn, name);
	if (!error)
		error = meta_name_del(txn, name->dir, name->name, name->len);
	if (!error)
		error = meta_object_del(txn, dir);
	if (!error)
		error = meta_attr_del_all(txn, dir);
	if (!error)
		error = names_dir_links(txn, name->dir, -1);
	return error ? error : cache_dir_changed(cache, txn, name->dir);
}

static int rmdir_in(struct cache *cache, struct meta_txn *txn,
		    const struct cache_name *name, uint64_t dir)
{
	struct meta_entry entry;
	int error =
		meta_name_get(txn, name->dir, name->name, name->len, &entry);

	if (error || entry.object != dir)
		return error < 0 ? error : CACHE_MISS;
	return names_remove_dir(cache, txn, name, dir);
}

int cache_rmdir(struct cache *cache, const struct cache_name *name)
{
	struct meta_entry entry;
	struct meta_txn *txn;
	int error = names_find(cache, name, &entry);

	if (error)
		return error;
	if (entry.type != META_DIR)
		return -ENOTDIR;
	/* Before the transaction: the stagings' lock is the outer one.  The
	 * kernel lets nobody create in a directory that it removes. */
	if (stagings_in_dir(cache->stagings, entry.object))
		return -ENOTEMPTY;
	error = meta_begin_write(cache->meta, &txn);
	if (error)
		return error;
	error = rmdir_in(cache, txn, name, entry.object);
	if (error) {
		meta_abort(txn);
		return error;
	}
	error = cache_commit(cache, txn);
	if (!error)
		writeback_kick(cache->writeback, false);
	return error;
}
