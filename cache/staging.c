/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/stage.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/clock.h"

int stagings_new(struct cache *cache, struct stagings **ret)
{
	struct stagings *stagings = calloc(1, sizeof(*stagings));

	if (!stagings)
		return -ENOMEM;
	stagings->cache = cache;
	pthread_mutex_init(&stagings->names_lock, NULL);
	pthread_mutex_init(&stagings->table_lock, NULL);
	for (unsigned i = 0; i < STAGE_TABLE_SIZE; i++)
		list_init(&stagings->table[i]);
	*ret = stagings;
	return 0;
}

void stagings_free(struct stagings *stagings)
{
	if (!stagings)
		return;
	pthread_mutex_destroy(&stagings->table_lock);
	pthread_mutex_destroy(&stagings->names_lock);
	free(stagings);
}

/* ---- the table ---- */

static struct list *table_row(struct stagings *stagings,
			      const struct cache_name *name)
{
	uint64_t hash = meta_name_hash(name->name, name->len);

	hash = (hash ^ name->dir) * UINT64_C(0x9E3779B97F4A7C15);
	return &stagings->table[(hash >> 32) % STAGE_TABLE_SIZE];
}

struct cache_staging *stage_find(struct stagings *stagings,
				 const struct cache_name *name)
{
	struct list *row = table_row(stagings, name);

	list_for_each (node, row) {
		struct cache_staging *staging =
			list_entry(node, struct cache_staging, node);

		if (staging->dir == name->dir &&
		    staging->name_len == name->len &&
		    memcmp(staging->name, name->name, name->len) == 0)
			return staging;
	}
	return NULL;
}

void stage_name_set(struct cache_staging *staging,
		    const struct cache_name *name)
{
	assert(name->len > 0 && name->len <= NAME_MAX_BYTES);
	list_remove(&staging->node);
	staging->dir = name->dir;
	staging->name_len = name->len;
	memmove(staging->name, name->name, name->len);
	staging->name[name->len] = '\0';
	list_push_front(table_row(staging->cache->stagings, name),
			&staging->node);
}

void stage_name_clear(struct cache_staging *staging)
{
	list_remove(&staging->node);
	staging->name_len = 0;
}

bool stage_name_get(const struct cache_staging *staging, struct cache_name *ret)
{
	*ret = (struct cache_name){staging->dir, staging->name,
				   staging->name_len};
	return staging->name_len > 0;
}

bool stage_active(const struct cache_staging *staging,
		  const struct cache_writer *but)
{
	list_for_each (node, &staging->handles) {
		const struct cache_writer *writer =
			list_entry(node, struct cache_writer, node);

		if (writer != but && !writer->peek && !writer->flushed)
			return true;
	}
	return false;
}

struct cache_staging *stagings_find(struct stagings *stagings,
				    const struct cache_name *name)
{
	struct cache_staging *staging;

	pthread_mutex_lock(&stagings->table_lock);
	staging = stage_find(stagings, name);
	if (staging)
		staging->refs++;
	pthread_mutex_unlock(&stagings->table_lock);
	return staging;
}

bool stagings_in_dir(struct stagings *stagings, uint64_t dir)
{
	bool found = false;

	pthread_mutex_lock(&stagings->table_lock);
	for (unsigned i = 0; i < STAGE_TABLE_SIZE && !found; i++) {
		list_for_each (node, &stagings->table[i]) {
			if (list_entry(node, struct cache_staging, node)->dir ==
			    dir)
				found = true;
		}
	}
	pthread_mutex_unlock(&stagings->table_lock);
	return found;
}

/* ---- objects in the order in which a process writes them ---- */

/*
 * A page names its successor, and no row is written twice for it: the object
 * number of the next page is taken ahead, when this one is committed.
 */
uint64_t stage_object_take(struct stagings *stagings, pid_t process)
{
	unsigned i = (unsigned)process % STAGE_CHAINS;
	uint64_t object = 0;

	pthread_mutex_lock(&stagings->table_lock);
	if (stagings->chains[i].process == process) {
		object = stagings->chains[i].object;
		stagings->chains[i].object = 0;
	}
	pthread_mutex_unlock(&stagings->table_lock);
	return object ? object : cache_next_object(stagings->cache);
}

uint64_t stage_successor(struct stagings *stagings, pid_t process)
{
	unsigned i = (unsigned)process % STAGE_CHAINS;
	uint64_t object = cache_next_object(stagings->cache);

	pthread_mutex_lock(&stagings->table_lock);
	stagings->chains[i].process = process;
	stagings->chains[i].object = object;
	pthread_mutex_unlock(&stagings->table_lock);
	return object;
}

static unsigned hint_index(uint64_t dir)
{
	return (unsigned)(dir * UINT64_C(0x9E3779B97F4A7C15) >> 32) %
	       STAGE_HINTS;
}

uint64_t stage_hint_get(struct stagings *stagings, uint64_t dir)
{
	unsigned i = hint_index(dir);

	/* The two may belong to different directories for a moment: it is a
	 * guess either way. */
	if (atomic_load_explicit(&stagings->hints[i].dir,
				 memory_order_relaxed) != dir)
		return atomic_load_explicit(&stagings->last_size_bytes,
					    memory_order_relaxed);
	return atomic_load_explicit(&stagings->hints[i].size_bytes,
				    memory_order_relaxed);
}

void stage_hint_set(struct stagings *stagings, uint64_t dir,
		    uint64_t size_bytes)
{
	unsigned i = hint_index(dir);

	/* What comes in one request needs no guess, and would spoil that for
	 * the pages beside it: some engines keep small files with them. */
	if (size_bytes < STAGE_REQUEST_BYTES)
		return;
	atomic_store_explicit(&stagings->hints[i].dir, dir,
			      memory_order_relaxed);
	atomic_store_explicit(&stagings->hints[i].size_bytes, size_bytes,
			      memory_order_relaxed);
	atomic_store_explicit(&stagings->last_size_bytes, size_bytes,
			      memory_order_relaxed);
}

/* ---- one staging page ---- */

unsigned stage_chunk_shift(const struct cache *cache)
{
	unsigned shift = arena_chunk_shift(cache->arena);

	return shift < cache->config.chunk_shift ? shift
						 : cache->config.chunk_shift;
}

struct cache_staging *stage_new(struct cache *cache,
				const struct cache_creator *creator)
{
	struct cache_staging *staging = calloc(1, sizeof(*staging));

	if (!staging)
		return NULL;
	staging->cache = cache;
	staging->refs = 1;
	list_init(&staging->node);
	list_init(&staging->handles);
	list_init(&staging->xattrs);
	pthread_mutex_init(&staging->lock, NULL);
	pthread_mutex_init(&staging->info_lock, NULL);
	staging->entry.type = META_FILE;
	staging->entry.chunk_shift = (uint8_t)stage_chunk_shift(cache);
	if (creator) {
		staging->entry.uid = creator->uid;
		staging->entry.gid = creator->gid;
		staging->entry.mode = creator->mode;
	}
	stage_touch(staging);
	staging->entry.atime_ns = staging->entry.mtime_ns;
	return staging;
}

static void staging_free(struct cache_staging *staging)
{
	assert(list_empty(&staging->node) && list_empty(&staging->handles));
	stage_drop(staging);
	stage_free_xattrs(staging);
	free(staging->chunks);
	pthread_mutex_destroy(&staging->info_lock);
	pthread_mutex_destroy(&staging->lock);
	free(staging);
}

struct cache_staging *cache_writer_staging(struct cache_writer *writer)
{
	return writer->staging;
}

void cache_staging_ref(struct cache_staging *staging)
{
	struct stagings *stagings = staging->cache->stagings;

	pthread_mutex_lock(&stagings->table_lock);
	staging->refs++;
	pthread_mutex_unlock(&stagings->table_lock);
}

void cache_staging_put(struct cache_staging *staging)
{
	struct stagings *stagings = staging->cache->stagings;
	bool last;

	pthread_mutex_lock(&stagings->table_lock);
	assert(staging->refs > 0);
	last = --staging->refs == 0;
	pthread_mutex_unlock(&stagings->table_lock);
	if (last)
		staging_free(staging);
}

void stage_drop(struct cache_staging *staging)
{
	while (staging->chunk_count)
		stage_chunk_free(staging,
				 staging->chunks[staging->chunk_count - 1]);
	stage_dirty(staging);
	staging->dirty = false;
	if (staging->has_base)
		pages_release(staging->cache->pages, staging->base.object,
			      staging->base.version.clock);
	staging->has_base = false;
	staging->base_limit = 0;
}

void stage_dirty(struct cache_staging *staging)
{
	staging->dirty = true;
	if (staging->base_page)
		cache_page_close(staging->base_page);
	staging->base_page = NULL;
}

struct slot_class stage_class(struct cache_staging *staging, uint64_t len_bytes)
{
	struct meta_entry entry;

	pthread_mutex_lock(&staging->info_lock);
	entry = staging->entry;
	pthread_mutex_unlock(&staging->info_lock);
	return cache_class(staging->cache, len_bytes, &entry);
}

uint64_t stage_size(struct cache_staging *staging)
{
	uint64_t size;

	pthread_mutex_lock(&staging->info_lock);
	size = staging->entry.size_bytes;
	pthread_mutex_unlock(&staging->info_lock);
	return size;
}

void stage_set_size(struct cache_staging *staging, uint64_t size_bytes)
{
	pthread_mutex_lock(&staging->info_lock);
	staging->entry.size_bytes = size_bytes;
	pthread_mutex_unlock(&staging->info_lock);
}

void stage_set_shape(struct cache_staging *staging, unsigned shift,
		     uint64_t object)
{
	pthread_mutex_lock(&staging->info_lock);
	staging->entry.chunk_shift = (uint8_t)shift;
	staging->entry.object = object;
	pthread_mutex_unlock(&staging->info_lock);
}

void stage_touch(struct cache_staging *staging)
{
	int64_t now = (int64_t)clock_realtime_ns();

	pthread_mutex_lock(&staging->info_lock);
	staging->entry.mtime_ns = now;
	staging->entry.ctime_ns = now;
	pthread_mutex_unlock(&staging->info_lock);
}
