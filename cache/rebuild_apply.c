/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/facts.h"
#include "cache/rebuild_internal.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The objects table holds directories only meanwhile, so that none is in two
 * places; the names of files count once the tree is complete. */

void rebuild_sum_attr(uint64_t clock, char ret[SUM_ATTR_BYTES])
{
	clock = htobe64(clock);
	ret[0] = FACT_CHUNKS_XATTR[0];
	memcpy(ret + 1, &clock, sizeof(clock));
}

bool rebuild_is_sum_attr(const char *name, size_t len)
{
	return len == SUM_ATTR_BYTES && name[0] == FACT_CHUNKS_XATTR[0];
}

/* ---- removing ---- */

struct child {
	char name[NAME_MAX_BYTES];
	size_t len;
	struct meta_entry entry;
};

static int first_child(void *arg, uint64_t hash, const char *name, size_t len,
		       const struct meta_entry *entry)
{
	struct child *child = arg;

	(void)hash;
	memcpy(child->name, name, len);
	child->len = len;
	child->entry = *entry;
	return 1;
}

static int remove_name(struct meta_txn *txn, const struct cache_name *name,
		       const struct meta_entry *entry)
{
	int error = meta_name_del(txn, name->dir, name->name, name->len);

	if (!error && entry->type == META_DIR)
		error = meta_object_del(txn, entry->object);
	return error < 0 ? error : 0;
}

/* All below a directory goes, deepest first, without recursion: paths may have
 * two thousand components. */
static int remove_below(struct meta_txn *txn, uint64_t top)
{
	uint64_t dir = top;

	for (;;) {
		struct child *child = calloc(1, sizeof(*child));
		struct cache_name name = {dir, NULL, 0};
		struct meta_object row;
		int error;

		if (!child)
			return -ENOMEM;
		error = meta_list(txn, dir, 0, NULL, 0, first_child, child);
		name.name = child->name;
		name.len = child->len;
		if (error >= 0 && child->len &&
		    (child->entry.type != META_DIR ||
		     meta_dir_empty(txn, child->entry.object)))
			error = remove_name(txn, &name, &child->entry);
		else if (error >= 0 && child->len)
			dir = child->entry.object;
		else if (error >= 0 && dir != top) {
			error = meta_object_get(txn, dir, &row);
			dir = row.dir;
		} else {
			free(child);
			return error < 0 ? error : 0;
		}
		free(child);
		if (error)
			return error < 0 ? error : -EBADMSG;
	}
}

static int remove_all(struct meta_txn *txn, const struct cache_name *name,
		      const struct meta_entry *entry)
{
	int error = 0;

	if (entry->type == META_DIR)
		error = remove_below(txn, entry->object);
	return error ? error : remove_name(txn, name, entry);
}

/* ---- keys ---- */

static int put_dir(struct rebuild *rebuild, const struct cache_name *name,
		   struct meta_entry *entry)
{
	struct meta_object row = {name->dir,
				  meta_name_hash(name->name, name->len), 2};
	struct meta_object other;
	int error = meta_object_get(rebuild->txn, entry->object, &other);

	if (error < 0)
		return error;
	/* An object that is a directory elsewhere already gives its number to
	 * one only. */
	if (!error)
		entry->object = cache_next_object(rebuild->cache);
	error = meta_name_put(rebuild->txn, name->dir, name->name, name->len,
			      entry);
	return error ? error
		     : meta_object_put(rebuild->txn, entry->object, &row);
}

/* A directory that nobody mentioned (its bucket is gone), but that has pages
 * below it. */
static int make_implied(struct rebuild *rebuild, const struct cache_name *name,
			struct meta_entry *ret)
{
	struct meta_entry root;
	int error = names_dir_get(rebuild->txn, META_ROOT, &root, NULL, NULL);

	if (error)
		return error < 0 ? error : -EBADMSG;
	*ret = root;
	ret->object = cache_next_object(rebuild->cache);
	ret->version = cache_next_version(rebuild->cache);
	return put_dir(rebuild, name, ret);
}

/* The last component of a key, below its directory: 0; META_ABSENT (and make
 * is false); -EBADMSG: no key. */
static int walk(struct rebuild *rebuild, const char *key, size_t len, bool make,
		struct cache_name *ret)
{
	const char *end = key + len;
	struct cache_name name = {META_ROOT, key, 0};

	for (;;) {
		const char *slash =
			memchr(name.name, '/', (size_t)(end - name.name));
		struct meta_entry entry;
		int error;

		name.len = (size_t)((slash ? slash : end) - name.name);
		if (!name.len || name.len > NAME_MAX_BYTES)
			return -EBADMSG;
		if (!slash)
			break;
		error = meta_name_get(rebuild->txn, name.dir, name.name,
				      name.len, &entry);
		if (!error && entry.type != META_DIR) {
			if (!make)
				return META_ABSENT;
			error = remove_name(rebuild->txn, &name, &entry);
			error = error ? error : META_ABSENT;
		}
		if (error == META_ABSENT && make)
			error = make_implied(rebuild, &name, &entry);
		if (error)
			return error;
		name.dir = entry.object;
		name.name = slash + 1;
	}
	*ret = name;
	return 0;
}

/* ---- SET ---- */

struct attr_names {
	char names[64][NAME_MAX_BYTES];
	size_t lens[64], count;
};

static int old_attr(void *arg, const char *name, size_t len, const void *value,
		    size_t value_len)
{
	struct attr_names *old = arg;

	(void)value;
	(void)value_len;
	if (rebuild_is_sum_attr(name, len) || len > NAME_MAX_BYTES)
		return 0;
	memcpy(old->names[old->count], name, len);
	old->lens[old->count++] = len;
	return old->count == 64;
}

/* What the object had before is replaced, but for the sums. */
static int clear_attrs(struct meta_txn *txn, uint64_t object)
{
	struct attr_names *old = malloc(sizeof(*old));
	int error = old ? 0 : -ENOMEM;

	while (!error) {
		old->count = 0;
		error = meta_attr_each(txn, object, old_attr, old);
		if (error < 0 || !old->count)
			break;
		error = 0;
		for (size_t i = 0; !error && i < old->count; i++)
			error = meta_attr_del(txn, object, old->names[i],
					      old->lens[i]);
	}
	free(old);
	return error < 0 ? error : 0;
}

static int put_attrs(struct meta_txn *txn, const struct meta_fact *fact)
{
	uint64_t object = fact->entry.object;
	struct meta_xattr xattr;
	char sum[SUM_ATTR_BYTES];
	size_t offset = 0;
	int error = clear_attrs(txn, object);

	if (!error && fact->entry.type == META_SYMLINK)
		error = meta_attr_put(txn, object, "", 0, fact->target,
				      fact->target_bytes);
	rebuild_sum_attr(fact->entry.version.clock, sum);
	while (!error && meta_xattr_next(fact->xattrs, fact->xattrs_bytes,
					 &offset, &xattr) > 0) {
		bool is_sum = xattr.name_bytes &&
			      xattr.name[0] == FACT_CHUNKS_XATTR[0];

		error = meta_attr_put(txn, object, is_sum ? sum : xattr.name,
				      is_sum ? sizeof(sum) : xattr.name_bytes,
				      xattr.value, xattr.value_bytes);
	}
	return error;
}

static int set_root(struct rebuild *rebuild, const struct meta_fact *fact)
{
	struct meta_entry entry = fact->entry;

	if (entry.type != META_DIR)
		return 0;
	entry.object = META_ROOT;
	return names_dir_put(rebuild->txn, META_ROOT, &entry);
}

static int set_dir(struct rebuild *rebuild, const struct cache_name *name,
		   const struct meta_fact *fact, const struct meta_entry *old)
{
	struct meta_fact own = *fact;
	int error;

	if (old && old->type == META_DIR) {
		/* What is below it stays. */
		own.entry.object = old->object;
		error = meta_name_put(rebuild->txn, name->dir, name->name,
				      name->len, &own.entry);
	} else {
		error = put_dir(rebuild, name, &own.entry);
	}
	return error ? error : put_attrs(rebuild->txn, &own);
}

static int apply_set(struct rebuild *rebuild, const struct meta_fact *fact)
{
	struct cache_name name;
	struct meta_entry old;
	bool there;
	int error;

	if (!fact->key_bytes)
		return set_root(rebuild, fact);
	error = walk(rebuild, fact->key, fact->key_bytes, true, &name);
	if (error)
		return error;
	error = meta_name_get(rebuild->txn, name.dir, name.name, name.len,
			      &old);
	if (error < 0)
		return error;
	there = error == 0;
	if (there && (old.type == META_DIR) != (fact->entry.type == META_DIR)) {
		error = remove_all(rebuild->txn, &name, &old);
		if (error)
			return error;
		there = false;
	}
	if (fact->entry.type == META_DIR)
		return set_dir(rebuild, &name, fact, there ? &old : NULL);
	error = meta_name_put(rebuild->txn, name.dir, name.name, name.len,
			      &fact->entry);
	return error ? error : put_attrs(rebuild->txn, fact);
}

/* ---- GONE, MOVED ---- */

static int take_off(struct rebuild *rebuild, const char *key, size_t len,
		    struct cache_name *ret, struct meta_entry *ret_entry)
{
	int error = walk(rebuild, key, len, false, ret);

	return error ? error
		     : meta_name_get(rebuild->txn, ret->dir, ret->name,
				     ret->len, ret_entry);
}

static int apply_gone(struct rebuild *rebuild, const char *key, size_t len)
{
	struct cache_name name;
	struct meta_entry entry;
	int error = take_off(rebuild, key, len, &name, &entry);

	if (error)
		return error < 0 ? error : 0;
	return remove_all(rebuild->txn, &name, &entry);
}

static int apply_moved(struct rebuild *rebuild, const struct meta_fact *fact)
{
	struct cache_name from, to;
	struct meta_entry entry;
	struct meta_object row = {.links = 2};
	int error = apply_gone(rebuild, fact->to_key, fact->to_key_bytes);

	if (error)
		return error;
	error = take_off(rebuild, fact->key, fact->key_bytes, &from, &entry);
	if (error)
		return error < 0 ? error : 0;
	error = walk(rebuild, fact->to_key, fact->to_key_bytes, true, &to);
	if (!error)
		error = meta_name_del(rebuild->txn, from.dir, from.name,
				      from.len);
	if (!error)
		error = meta_name_put(rebuild->txn, to.dir, to.name, to.len,
				      &entry);
	if (error || entry.type != META_DIR)
		return error;
	row.dir = to.dir;
	row.hash = meta_name_hash(to.name, to.len);
	return meta_object_put(rebuild->txn, entry.object, &row);
}

int rebuild_apply(struct rebuild *rebuild, const struct meta_fact *fact)
{
	int error = 0;

	switch (fact->kind) {
	case META_FACT_SET:
		error = apply_set(rebuild, fact);
		break;
	case META_FACT_GONE:
		error = apply_gone(rebuild, fact->key, fact->key_bytes);
		break;
	case META_FACT_MOVED:
		/* Written twice (before and after a crash, or out of a bucket
		 * that was dropped), it would find its own result in its
		 * way. */
		if (page_version_compare(&fact->at, &rebuild->moved_at) != 0)
			error = apply_moved(rebuild, fact);
		rebuild->moved_at = fact->at;
		break;
	}
	/* A fact that makes no sense says nothing. */
	if (error == -EBADMSG) {
		rebuild->damaged++;
		error = 0;
	}
	return error;
}
