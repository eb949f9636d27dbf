/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/names.h"
#include "cache/names_source.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "tools/lib/clock.h"

/* ---- one name ---- */

/* *ret_staged: the name is staged, whether or not it shows itself. */
static bool staged_lookup(struct cache *cache, const struct cache_name *name,
			  pid_t process, struct cache_found *ret,
			  bool *ret_staged)
{
	struct cache_staging *staging = stagings_find(cache->stagings, name);

	*ret_staged = staging;
	if (!staging)
		return false;
	if (!cache_staging_shows(staging, process)) {
		cache_staging_put(staging);
		return false;
	}
	cache_staging_entry(staging, &ret->entry, &ret->links);
	ret->staging = staging;
	return true;
}

bool names_hidden(struct cache *cache, const struct cache_name *name)
{
	return negative_enabled(cache->negative) &&
	       negative_left(cache->negative,
			     negative_key(name->dir, name->name, name->len),
			     clock_monotonic_ns());
}

void names_shown(struct cache *cache, const struct cache_name *name)
{
	if (negative_enabled(cache->negative))
		negative_remove(cache->negative,
				negative_key(name->dir, name->name, name->len));
}

int names_find(struct cache *cache, const struct cache_name *name,
	       struct meta_entry *ret)
{
	struct meta_txn *txn;
	int error = meta_begin_read(cache->meta, &txn);

	if (error)
		return error;
	error = meta_name_get(txn, name->dir, name->name, name->len, ret);
	meta_abort(txn);
	return error == META_ABSENT ? CACHE_MISS : error;
}

static uint64_t hidden_left(struct cache *cache, const struct cache_name *name)
{
	struct key_id key;
	uint64_t left;

	if (!negative_enabled(cache->negative))
		return 0;
	key = negative_key(name->dir, name->name, name->len);
	left = negative_left(cache->negative, key, clock_monotonic_ns());
	if (left)
		negative_release(cache->negative, key);
	return left;
}

static int committed_lookup(struct cache *cache, const struct cache_name *name,
			    struct cache_found *ret)
{
	struct meta_object row = {0};
	struct meta_txn *txn;
	int error = meta_begin_read(cache->meta, &txn);

	if (error)
		return error;
	error = meta_name_get(txn, name->dir, name->name, name->len,
			      &ret->entry);
	if (!error)
		error = meta_object_get(txn, ret->entry.object, &row);
	meta_abort(txn);
	if (error < 0)
		return error;
	if (error)
		return CACHE_MISS;
	ret->links = row.links;
	ret->ttl_ns = UINT64_MAX;
	return 0;
}

static int lookup(struct cache *cache, const struct cache_name *name,
		  struct cache_found *ret)
{
	int outcome;

	ret->ttl_ns = hidden_left(cache, name);
	if (ret->ttl_ns)
		return CACHE_HIDDEN;
	outcome = committed_lookup(cache, name, ret);
	if (outcome == CACHE_MISS)
		outcome = source_lookup(cache, name, ret);
	return outcome;
}

int cache_lookup(struct cache *cache, const struct cache_name *name,
		 pid_t process, struct cache_found *ret)
{
	bool staged;
	int outcome;

	*ret = (struct cache_found){0};
	if (name->len > NAME_MAX_BYTES)
		return -ENAMETOOLONG;
	if (staged_lookup(cache, name, process, ret, &staged))
		return CACHE_STAGED;
	outcome = lookup(cache, name, ret);
	if (staged)
		ret->ttl_ns = 0;
	return outcome;
}

int cache_directory(struct cache *cache, uint64_t dir, struct cache_found *ret,
		    uint64_t *ret_parent)
{
	struct meta_txn *txn;
	int error = meta_begin_read(cache->meta, &txn);

	if (error)
		return error;
	*ret = (struct cache_found){.ttl_ns = UINT64_MAX};
	error = names_dir_get(txn, dir, &ret->entry, &ret->links, ret_parent);
	meta_abort(txn);
	return error == META_ABSENT ? CACHE_MISS : error;
}

int cache_readlink(struct cache *cache, uint64_t object, char *ret, size_t size)
{
	struct meta_txn *txn;
	const void *target;
	size_t len;
	int error = meta_begin_read(cache->meta, &txn);

	if (error)
		return error;
	error = meta_attr_get(txn, object, "", 0, &target, &len);
	if (!error && len >= size)
		error = -ENAMETOOLONG;
	if (!error) {
		memcpy(ret, target, len);
		ret[len] = 0;
	}
	meta_abort(txn);
	return error == META_ABSENT ? CACHE_MISS : error;
}

/* ---- listing ---- */

struct listing {
	struct cache *cache;
	uint64_t dir;
	uint64_t now_ns;
	bool hiding;
	int (*each)(void *arg, uint64_t cookie, const char *name, size_t len,
		    const struct meta_entry *entry);
	void *arg;
};

static int list_each(void *arg, uint64_t hash, const char *name, size_t len,
		     const struct meta_entry *entry)
{
	struct listing *listing = arg;

	if (listing->hiding &&
	    negative_left(listing->cache->negative,
			  negative_key(listing->dir, name, len),
			  listing->now_ns))
		return 0;
	return listing->each(listing->arg, hash, name, len, entry);
}

int cache_list(struct cache *cache, uint64_t dir, uint64_t after,
	       const char *after_name, size_t after_len,
	       int (*each)(void *arg, uint64_t cookie, const char *name,
			   size_t len, const struct meta_entry *entry),
	       void *arg)
{
	struct listing listing = {
		.cache = cache,
		.dir = dir,
		.now_ns = clock_monotonic_ns(),
		.hiding = negative_enabled(cache->negative),
		.each = each,
		.arg = arg,
	};
	struct meta_txn *txn;
	int error = meta_begin_read(cache->meta, &txn);

	if (error)
		return error;
	error = meta_list(txn, dir, after, after_name, after_len, list_each,
			  &listing);
	meta_abort(txn);
	return error;
}

/* ---- keys ---- */

int cache_key(struct cache *cache, const struct cache_name *name,
	      char ret[KEY_MAX_BYTES], size_t *ret_len)
{
	struct meta_txn *txn;
	int error = meta_begin_read(cache->meta, &txn);

	if (error)
		return error;
	error = meta_key(txn, name->dir, name->name, name->len, ret, ret_len);
	meta_abort(txn);
	return error == META_ABSENT ? CACHE_MISS : error;
}

static const char *skip_slashes(const char *at, const char *end)
{
	while (at < end && *at == '/')
		at++;
	return at;
}

static int resolve_in(struct meta_txn *txn, const char *at, const char *end,
		      struct cache_name *ret)
{
	struct cache_name name = {META_ROOT, at, 0};
	struct meta_entry entry;

	for (;;) {
		const char *slash = memchr(at, '/', (size_t)(end - at));
		const char *next;
		int error;

		name.name = at;
		name.len = (size_t)((slash ? slash : end) - at);
		if (name.len > NAME_MAX_BYTES)
			return -ENAMETOOLONG;
		next = skip_slashes(at + name.len, end);
		if (next == end)
			break;
		error = meta_name_get(txn, name.dir, at, name.len, &entry);
		if (error)
			return error == META_ABSENT ? CACHE_MISS : error;
		if (entry.type != META_DIR)
			return -ENOTDIR;
		name.dir = entry.object;
		at = next;
	}
	*ret = name;
	return 0;
}

int cache_resolve(struct cache *cache, const char *key, size_t len,
		  struct cache_name *ret)
{
	const char *end = key + len, *at = skip_slashes(key, end);
	struct meta_txn *txn;
	int error;

	if (at == end)
		return -EINVAL;
	if (len > KEY_MAX_BYTES)
		return -ENAMETOOLONG;
	error = meta_begin_read(cache->meta, &txn);
	if (error)
		return error;
	error = resolve_in(txn, at, end, ret);
	meta_abort(txn);
	return error;
}

bool cache_name_temporary(const struct cache *cache,
			  const struct cache_name *name)
{
	char text[NAME_MAX_BYTES + 1];

	if (name->len > NAME_MAX_BYTES)
		return false;
	memcpy(text, name->name, name->len);
	text[name->len] = 0;
	for (const char *pattern = cache->temporary; *pattern;
	     pattern += strlen(pattern) + 1)
		if (fnmatch(pattern, text, 0) == 0)
			return true;
	return false;
}
