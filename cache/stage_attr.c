/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/stage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "tools/lib/clock.h"

/*
 * Attributes of a page that has been committed are changed in the index, at
 * once, whoever has it open; those of a page that has not are kept here until
 * its commit.  names_lock is held meanwhile, so that no commit comes between.
 */

#define XATTRS_MAX_BYTES (4 * (size_t)XATTR_MAX_BYTES)

void stage_free_xattrs(struct cache_staging *staging)
{
	for (struct list *node; (node = list_pop_front(&staging->xattrs));) {
		struct stage_xattr *xattr =
			list_entry(node, struct stage_xattr, node);

		free(xattr->name);
		free(xattr->value);
		free(xattr);
	}
}

/* What the page will take, as far as it is known: its own chunks, and what
 * they leave of the version below (exact where that has no holes).  lock. */
static uint64_t stored_bytes(const struct cache_staging *staging)
{
	uint64_t own = 0, under = 0, below = 0;

	for (size_t i = 0; i < staging->chunk_count; i++) {
		const struct stage_chunk *chunk = staging->chunks[i];

		own += stage_chunk_len(chunk);
		under += stage_base_bytes(staging, chunk->index);
	}
	if (staging->has_base) {
		below = staging->base.stored_bytes;
		under += staging->base.size_bytes -
			 stage_min(staging->base_limit,
				   staging->base.size_bytes);
	}
	return own + below - stage_min(under, below);
}

void cache_staging_entry(struct cache_staging *staging, struct meta_entry *ret,
			 uint32_t *ret_links)
{
	struct stagings *stagings = staging->cache->stagings;

	pthread_mutex_lock(&stagings->table_lock);
	*ret_links = staging->name_len ? 1 : 0;
	pthread_mutex_unlock(&stagings->table_lock);
	pthread_mutex_lock(&staging->info_lock);
	*ret = staging->entry;
	pthread_mutex_unlock(&staging->info_lock);
	/* While somebody writes (which may wait for memory and disk) it is as
	 * before. */
	if (pthread_mutex_trylock(&staging->lock) == 0) {
		ret->stored_bytes = stored_bytes(staging);
		pthread_mutex_unlock(&staging->lock);
		pthread_mutex_lock(&staging->info_lock);
		staging->entry.stored_bytes = ret->stored_bytes;
		pthread_mutex_unlock(&staging->info_lock);
	}
}

bool cache_staging_name(struct cache_staging *staging, uint64_t *ret_dir,
			char *ret_name, size_t *ret_len)
{
	struct stagings *stagings = staging->cache->stagings;
	struct cache_name name;
	bool named;

	pthread_mutex_lock(&stagings->table_lock);
	named = stage_name_get(staging, &name);
	*ret_dir = name.dir;
	*ret_len = name.len;
	memcpy(ret_name, name.name, name.len + 1);
	pthread_mutex_unlock(&stagings->table_lock);
	return named;
}

/* A handle that was closed (its RELEASE comes late) counts only while what was
 * written by it is to be committed still.  table_lock. */
static bool counts(const struct cache_staging *staging,
		   const struct cache_writer *writer)
{
	return !writer->flushed || writer->wrote || staging->mapped ||
	       (staging->dirty && !stage_active(staging, NULL));
}

bool cache_staging_has(struct cache_staging *staging, pid_t process)
{
	struct stagings *stagings = staging->cache->stagings;
	bool found = false;

	pthread_mutex_lock(&stagings->table_lock);
	list_for_each (node, &staging->handles) {
		const struct cache_writer *writer =
			list_entry(node, struct cache_writer, node);

		if (!writer->peek && writer->process == process)
			found = found || counts(staging, writer);
	}
	pthread_mutex_unlock(&stagings->table_lock);
	return found;
}

bool cache_staging_clean(struct cache_staging *staging)
{
	return !staging->dirty;
}

bool cache_staging_shows(struct cache_staging *staging, pid_t process)
{
	return staging->cache->config.show_partial ||
	       cache_staging_has(staging, process);
}

/* ---- one at a time with commits ---- */

/* The committed object that the staged page stands over, 0 if none, and its
 * name, which stays as it is until leave(). */
static uint64_t enter(struct cache_staging *staging, struct cache_name *ret)
{
	struct stagings *stagings = staging->cache->stagings;
	uint64_t object;
	bool named;

	pthread_mutex_lock(&stagings->names_lock);
	pthread_mutex_lock(&stagings->table_lock);
	named = stage_name_get(staging, ret);
	pthread_mutex_unlock(&stagings->table_lock);
	pthread_mutex_lock(&staging->info_lock);
	object = staging->committed;
	pthread_mutex_unlock(&staging->info_lock);
	return named ? object : 0;
}

static void leave(struct cache_staging *staging)
{
	pthread_mutex_unlock(&staging->cache->stagings->names_lock);
}

static void apply(struct cache_staging *staging, unsigned which,
		  const struct meta_entry *values)
{
	struct meta_entry *entry = &staging->entry;

	pthread_mutex_lock(&staging->info_lock);
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
	entry->ctime_ns = (int64_t)clock_realtime_ns();
	pthread_mutex_unlock(&staging->info_lock);
}

int cache_stage_set_attributes(struct cache_staging *staging, unsigned which,
			       const struct meta_entry *values)
{
	struct cache_name name;
	struct cache_found found = {.staging = NULL};
	uint64_t object = enter(staging, &name);
	int outcome = 0;

	if (object)
		outcome = cache_set_attributes(staging->cache, &name, object,
					       which, values, &found);
	/* Lost or hidden meanwhile: the next commit brings it back. */
	if (outcome >= 0)
		apply(staging, which, values);
	leave(staging);
	return outcome < 0 ? outcome : 0;
}

/* ---- xattrs ---- */

static struct stage_xattr *find_xattr(const struct cache_staging *staging,
				      const char *name)
{
	list_for_each (node, &staging->xattrs) {
		struct stage_xattr *xattr =
			list_entry(node, struct stage_xattr, node);

		if (strcmp(xattr->name, name) == 0)
			return xattr;
	}
	return NULL;
}

static ssize_t staged_get(struct cache_staging *staging, const char *name,
			  void *ret, size_t size)
{
	const struct stage_xattr *xattr;
	ssize_t len = -ENODATA;

	pthread_mutex_lock(&staging->info_lock);
	xattr = find_xattr(staging, name);
	if (xattr)
		len = (ssize_t)xattr->len;
	if (xattr && size && xattr->len > size)
		len = -ERANGE;
	else if (xattr && size)
		memcpy(ret, xattr->value, xattr->len);
	pthread_mutex_unlock(&staging->info_lock);
	return len;
}

ssize_t cache_stage_xattr_get(struct cache_staging *staging, const char *name,
			      void *ret, size_t size)
{
	struct cache_name ours;
	uint64_t object = enter(staging, &ours);
	ssize_t len = object ? cache_xattr_get(staging->cache, object, name,
					       ret, size)
			     : staged_get(staging, name, ret, size);

	leave(staging);
	return len;
}

static ssize_t staged_list(struct cache_staging *staging, char *ret,
			   size_t size)
{
	size_t used = 0;
	bool small = false;

	pthread_mutex_lock(&staging->info_lock);
	list_for_each (node, &staging->xattrs) {
		const char *name =
			list_entry(node, struct stage_xattr, node)->name;
		size_t len = strlen(name) + 1;

		if (size && used + len > size)
			small = true;
		else if (size)
			memcpy(ret + used, name, len);
		used += len;
	}
	pthread_mutex_unlock(&staging->info_lock);
	return small ? -ERANGE : (ssize_t)used;
}

ssize_t cache_stage_xattr_list(struct cache_staging *staging, char *ret,
			       size_t size)
{
	struct cache_name ours;
	uint64_t object = enter(staging, &ours);
	ssize_t len =
		object ? cache_xattr_list(staging->cache, object, ret, size)
		       : staged_list(staging, ret, size);

	leave(staging);
	return len;
}

static void remove_xattr(struct stage_xattr *xattr)
{
	list_remove(&xattr->node);
	free(xattr->name);
	free(xattr->value);
	free(xattr);
}

static struct stage_xattr *new_xattr(const char *name, const void *value,
				     size_t len)
{
	struct stage_xattr *xattr = calloc(1, sizeof(*xattr));

	if (!xattr)
		return NULL;
	list_init(&xattr->node);
	xattr->name = strdup(name);
	xattr->value = malloc(len ? len : 1);
	xattr->len = len;
	if (!xattr->name || !xattr->value) {
		remove_xattr(xattr);
		return NULL;
	}
	memcpy(xattr->value, value, len);
	return xattr;
}

/* Under info_lock. */
static size_t xattrs_bytes(const struct cache_staging *staging)
{
	size_t bytes = 0;

	list_for_each (node, &staging->xattrs) {
		const struct stage_xattr *xattr =
			list_entry(node, struct stage_xattr, node);

		bytes += xattr->len + strlen(xattr->name);
	}
	return bytes;
}

/* Under info_lock. */
static int staged_set(struct cache_staging *staging, const char *name,
		      const void *value, size_t len, int flags)
{
	struct stage_xattr *old = find_xattr(staging, name), *xattr;

	if (old && flags & XATTR_CREATE)
		return -EEXIST;
	if (!old && (flags & XATTR_REPLACE || !value))
		return -ENODATA;
	if (value) {
		if (xattrs_bytes(staging) + len > XATTRS_MAX_BYTES)
			return -ENOSPC;
		xattr = new_xattr(name, value, len);
		if (!xattr)
			return -ENOMEM;
		list_push_back(&staging->xattrs, &xattr->node);
	}
	if (old)
		remove_xattr(old);
	return 0;
}

int cache_stage_xattr_set(struct cache_staging *staging, const char *name,
			  const void *value, size_t len, int flags)
{
	struct cache_name ours;
	uint64_t object;
	int error;

	if (strlen(name) > NAME_MAX_BYTES || len > XATTR_MAX_BYTES)
		return -ERANGE;
	object = enter(staging, &ours);
	if (object) {
		error = cache_xattr_set(staging->cache, &ours, object, name,
					value, len, flags);
	} else {
		pthread_mutex_lock(&staging->info_lock);
		error = staged_set(staging, name, value, len, flags);
		pthread_mutex_unlock(&staging->info_lock);
	}
	leave(staging);
	return error;
}
