/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/names.h"

#include <errno.h>
#include <string.h>
#include <sys/xattr.h>

/* All xattrs of a page together: they travel in one record. */
#define XATTRS_MAX_BYTES (256u << 10)

/* The entry at a name, or the root's, if it still leads to that object. */
static int entry_get(struct meta_txn *txn, const struct cache_name *name,
		     uint64_t object, struct meta_entry *ret)
{
	int error;

	if (object == META_ROOT)
		error = names_dir_get(txn, META_ROOT, ret, NULL, NULL);
	else
		error = meta_name_get(txn, name->dir, name->name, name->len,
				      ret);
	if (error)
		return error == META_ABSENT ? CACHE_MISS : error;
	return ret->object == object ? 0 : CACHE_MISS;
}

/* Puts the changed entry back; the journal hears of it, unless that goes out
 * with the page's chunks anyway. */
static int entry_put(struct cache *cache, struct meta_txn *txn,
		     const struct cache_name *name,
		     const struct meta_entry *entry, bool tell)
{
	struct cache_name root = {0, "", 0};
	int error;

	if (entry->object == META_ROOT) {
		error = names_dir_put(txn, META_ROOT, entry);
		name = &root;
	} else {
		error = meta_name_put(txn, name->dir, name->name, name->len,
				      entry);
	}
	if (!error && tell && !entry_pending(cache, entry))
		error = cache_fact_set(cache, txn, name, entry);
	return error;
}

static void apply(struct meta_entry *entry, unsigned which,
		  const struct meta_entry *values)
{
	if (which & CACHE_SET_MODE)
		entry->mode = values->mode;
	if (which & CACHE_SET_UID)
		entry->uid = values->uid;
	if (which & CACHE_SET_GID)
		entry->gid = values->gid;
	if (which & CACHE_SET_ATIME)
		entry->atime_ns = values->atime_ns;
	if (which & CACHE_SET_MTIME)
		entry->mtime_ns = values->mtime_ns;
	entry->ctime_ns = names_now_ns();
}

int cache_set_attributes(struct cache *cache, const struct cache_name *name,
			 uint64_t object, unsigned which,
			 const struct meta_entry *values,
			 struct cache_found *ret)
{
	/* An atime is worth no record: it comes with each hit. */
	bool tell = which & ~(unsigned)CACHE_SET_ATIME;
	struct meta_object row = {0};
	struct meta_txn *txn;
	int error = meta_begin_write(cache->meta, &txn);

	if (error)
		return error;
	*ret = (struct cache_found){.ttl_ns = UINT64_MAX};
	error = entry_get(txn, name, object, &ret->entry);
	if (!error) {
		apply(&ret->entry, which, values);
		error = entry_put(cache, txn, name, &ret->entry, tell);
	}
	if (!error)
		error = meta_object_get(txn, object, &row);
	if (error) {
		meta_abort(txn);
		return error;
	}
	ret->links = row.links;
	error = cache_commit(cache, txn);
	if (!error && tell)
		writeback_kick(cache->writeback, false);
	return error;
}

/* ---- xattrs ---- */

static ssize_t copy_out(const void *value, size_t len, void *ret, size_t size)
{
	if (size && len > size)
		return -ERANGE;
	if (size && len)
		memcpy(ret, value, len);
	return (ssize_t)len;
}

ssize_t cache_xattr_get(struct cache *cache, uint64_t object, const char *name,
			void *ret, size_t size)
{
	struct meta_txn *txn;
	const void *value;
	size_t len;
	ssize_t result = meta_begin_read(cache->meta, &txn);

	if (result)
		return result;
	result = meta_attr_get(txn, object, name, strlen(name), &value, &len);
	if (!result)
		result = copy_out(value, len, ret, size);
	else if (result == META_ABSENT)
		result = -ENODATA;
	meta_abort(txn);
	return result;
}

struct xattr_names {
	char *ret;
	size_t size, len;
};

static int xattr_name(void *arg, const char *name, size_t len,
		      const void *value, size_t value_len)
{
	struct xattr_names *names = arg;

	(void)value;
	(void)value_len;
	if (!len || object_is_link_row(name, len))
		return 0;
	if (names->size) {
		if (names->len + len + 1 > names->size)
			return -ERANGE;
		memcpy(names->ret + names->len, name, len);
		names->ret[names->len + len] = 0;
	}
	names->len += len + 1;
	return 0;
}

ssize_t cache_xattr_list(struct cache *cache, uint64_t object, char *ret,
			 size_t size)
{
	struct xattr_names names = {ret, size, 0};
	struct meta_txn *txn;
	int error = meta_begin_read(cache->meta, &txn);

	if (error)
		return error;
	error = meta_attr_each(txn, object, xattr_name, &names);
	meta_abort(txn);
	return error < 0 ? error : (ssize_t)names.len;
}

static int xattr_size(void *arg, const char *name, size_t name_len,
		      const void *value, size_t len)
{
	size_t *total = arg;

	(void)name;
	(void)value;
	*total += name_len + len;
	return 0;
}

static int xattr_put(struct meta_txn *txn, uint64_t object, const char *xattr,
		     const void *value, size_t len, int flags)
{
	size_t name_len = strlen(xattr), total = name_len + len, old_len = 0;
	const void *old;
	int error = meta_attr_get(txn, object, xattr, name_len, &old, &old_len);

	if (error < 0)
		return error;
	if (error == META_ABSENT && (flags & XATTR_REPLACE || !value))
		return -ENODATA;
	if (!error && flags & XATTR_CREATE)
		return -EEXIST;
	if (!value) {
		error = meta_attr_del(txn, object, xattr, name_len);
		return error < 0 ? error : 0;
	}
	error = meta_attr_each(txn, object, xattr_size, &total);
	if (error < 0)
		return error;
	if (total - old_len > XATTRS_MAX_BYTES)
		return -ENOSPC;
	return meta_attr_put(txn, object, xattr, name_len, value, len);
}

int cache_xattr_set(struct cache *cache, const struct cache_name *name,
		    uint64_t object, const char *xattr, const void *value,
		    size_t len, int flags)
{
	struct meta_entry entry;
	struct meta_txn *txn;
	int error;

	if (len > XATTR_MAX_BYTES)
		return -E2BIG;
	error = meta_begin_write(cache->meta, &txn);
	if (error)
		return error;
	error = entry_get(txn, name, object, &entry);
	if (!error)
		error = xattr_put(txn, object, xattr, value, len, flags);
	if (!error) {
		entry.ctime_ns = names_now_ns();
		error = entry_put(cache, txn, name, &entry, true);
	}
	if (error) {
		meta_abort(txn);
		return error;
	}
	error = cache_commit(cache, txn);
	if (!error)
		writeback_kick(cache->writeback, false);
	return error;
}
