/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/names.h"

#include <errno.h>
#include <unistd.h>

#include "tools/lib/clock.h"

int64_t names_now_ns(void)
{
	return (int64_t)clock_realtime_ns();
}

static int root_get(struct meta_txn *txn, struct meta_entry *ret)
{
	uint8_t bytes[META_ENTRY_BYTES];
	int error = meta_value_get(txn, "root", bytes, sizeof(bytes));

	return error ? error : meta_entry_decode(bytes, sizeof(bytes), ret);
}

static int root_put(struct meta_txn *txn, const struct meta_entry *entry)
{
	uint8_t bytes[META_ENTRY_BYTES];

	meta_entry_encode(entry, bytes);
	return meta_value_put(txn, "root", bytes, sizeof(bytes));
}

int names_root_make(struct cache *cache, struct meta_txn *txn)
{
	struct meta_object row = {0, 0, 2};
	struct meta_entry root;
	int error = root_get(txn, &root);

	if (error != META_ABSENT)
		return error;
	root = (struct meta_entry){
		.type = META_DIR,
		.mode = 0755,
		.uid = geteuid(),
		.gid = getegid(),
		.object = META_ROOT,
		.version = cache_next_version(cache),
		.atime_ns = names_now_ns(),
	};
	root.mtime_ns = root.ctime_ns = root.atime_ns;
	error = root_put(txn, &root);
	return error ? error : meta_object_put(txn, META_ROOT, &row);
}

int names_dir_get(struct meta_txn *txn, uint64_t dir, struct meta_entry *ret,
		  uint32_t *ret_links, uint64_t *ret_parent)
{
	char name[NAME_MAX_BYTES + 1];
	struct meta_object row;
	struct meta_entry entry;
	uint64_t parent = META_ROOT;
	size_t len;
	int error = meta_object_get(txn, dir, &row);

	if (error)
		return error;
	if (dir == META_ROOT)
		error = root_get(txn, &entry);
	else
		error = meta_object_name(txn, dir, &parent, name, &len, &entry);
	if (error)
		return error;
	if (entry.type != META_DIR)
		return -ENOTDIR;
	*ret = entry;
	if (ret_links)
		*ret_links = row.links;
	if (ret_parent)
		*ret_parent = parent;
	return 0;
}

int names_dir_put(struct meta_txn *txn, uint64_t dir,
		  const struct meta_entry *entry)
{
	char name[NAME_MAX_BYTES + 1];
	struct meta_entry old;
	uint64_t parent;
	size_t len;
	int error;

	if (dir == META_ROOT)
		return root_put(txn, entry);
	error = meta_object_name(txn, dir, &parent, name, &len, &old);
	return error ? error : meta_name_put(txn, parent, name, len, entry);
}

int names_dir_links(struct meta_txn *txn, uint64_t dir, int change)
{
	struct meta_object row;
	int error = meta_object_get(txn, dir, &row);

	if (error)
		return error < 0 ? error : -ENOENT;
	row.links = (uint32_t)((int64_t)row.links + change);
	return meta_object_put(txn, dir, &row);
}

int cache_dir_changed(struct cache *cache, struct meta_txn *txn, uint64_t dir)
{
	struct meta_entry entry;
	int error = names_dir_get(txn, dir, &entry, NULL, NULL);

	(void)cache;
	if (error)
		return error == META_ABSENT ? -ENOENT : error;
	entry.mtime_ns = entry.ctime_ns = names_now_ns();
	return names_dir_put(txn, dir, &entry);
}

bool names_below(struct meta_txn *txn, uint64_t dir, uint64_t above)
{
	struct meta_object row;

	while (dir != above) {
		if (dir == META_ROOT || meta_object_get(txn, dir, &row) != 0)
			return false;
		dir = row.dir;
	}
	return true;
}

/* ---- a name gets an entry ---- */

/* What was there makes way.  0, and whether there was something, and whether
 * no bucket knows of the name. */
static int make_way(struct cache *cache, struct meta_txn *txn,
		    const struct cache_name *name,
		    const struct meta_entry *entry,
		    struct cache_garbage *garbage, bool *ret_same)
{
	struct meta_entry old;
	int error = meta_name_get(txn, name->dir, name->name, name->len, &old);

	*ret_same = false;
	if (error < 0)
		return error;
	if (error == META_ABSENT)
		return META_NAME_NEW;
	if (old.object == entry->object) {
		*ret_same = true;
		return old.flags & META_NAME_NEW;
	}
	if (old.type == META_DIR)
		return entry->type == META_DIR ? -EEXIST : -EISDIR;
	if (entry->type == META_DIR)
		return -ENOTDIR;
	error = meta_name_del(txn, name->dir, name->name, name->len);
	if (!error)
		error = cache_object_unlink(cache, txn, old.object, garbage);
	return error ? error : (int)(old.flags & META_NAME_NEW);
}

int cache_name_put(struct cache *cache, struct meta_txn *txn,
		   const struct cache_name *name, struct meta_entry *entry,
		   struct cache_garbage *garbage)
{
	bool same, directory = entry->type == META_DIR;
	int error = cache_dir_changed(cache, txn, name->dir);
	int fresh;

	if (error)
		return error;
	fresh = make_way(cache, txn, name, entry, garbage, &same);
	if (fresh < 0)
		return fresh;
	/* Only a page that is written later can say that its name is new:
	 * of all others the journal hears in this transaction. */
	entry->flags &= ~(uint32_t)META_NAME_NEW;
	if (fresh && entry_pending(cache, entry))
		entry->flags |= META_NAME_NEW;
	error = meta_name_put(txn, name->dir, name->name, name->len, entry);
	if (!error && !same)
		error = object_name_add(txn, entry->object, name->dir,
					meta_name_hash(name->name, name->len),
					directory);
	if (!error && directory)
		error = names_dir_links(txn, name->dir, 1);
	if (!error && cache->misses)
		misses_forget(cache->misses, name);
	return error;
}
