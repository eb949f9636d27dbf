/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/recover.h"
#include "cache/rows.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tools/lib/log.h"

#define ROWS_AT_ONCE 4096u

/* ---- lists ---- */

int object_list_add(struct object_list *list, uint64_t object)
{
	uint64_t *grown;

	if (list->count && list->all[list->count - 1] == object)
		return 0;
	if (list->count == list->room) {
		list->room = list->room ? 2 * list->room : 256;
		grown = realloc(list->all, list->room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		list->all = grown;
	}
	list->all[list->count++] = object;
	return 0;
}

int id_list_add(struct id_list *list, const struct chunk_id *id)
{
	struct chunk_id *grown;

	if (list->count == list->room) {
		list->room = list->room ? 2 * list->room : 256;
		grown = realloc(list->all, list->room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		list->all = grown;
	}
	list->all[list->count++] = *id;
	return 0;
}

int id_list_delete(struct cache *cache, enum meta_tier tier,
		   const struct id_list *list)
{
	for (size_t i = 0; i < list->count;) {
		struct meta_txn *txn;
		int error = meta_begin_write(cache->meta, &txn);

		if (error)
			return error;
		for (size_t n = 0;
		     error >= 0 && n < ROWS_AT_ONCE && i < list->count; n++)
			error = meta_chunk_del(txn, tier, &list->all[i++]);
		if (error < 0) {
			meta_abort(txn);
			return error;
		}
		error = cache_commit(cache, txn);
		if (error)
			return error;
	}
	return 0;
}

/* ---- the memory tier ---- */

struct claiming {
	struct cache *cache;
	struct meta_txn *txn;
	uint64_t object; /* whose versions these are */
	struct versions versions;
	struct id_list bad;
	struct object_list suspects; /* some of their rows led nowhere */
	int error;
};

/* Does a name consist of this row?  A crash between the commits of the two
 * environments leaves rows of versions that never came to be. */
static bool wanted(struct claiming *claiming, const struct meta_chunk *chunk)
{
	struct versions *versions = &claiming->versions;

	if (claiming->object != chunk->id.object) {
		versions->count = 0;
		claiming->object = chunk->id.object;
		claiming->error =
			object_each_name(claiming->txn, claiming->object,
					 versions_add, versions);
	}
	for (size_t i = 0; i < versions->count; i++)
		if (chunk->id.version.clock <= versions->all[i] &&
		    cache_chunk_current(chunk, versions->all[i]))
			return true;
	return false;
}

static int claim(void *arg, const struct meta_chunk *chunk)
{
	struct claiming *claiming = arg;
	struct cache *cache = claiming->cache;
	struct meta_chunk disk;
	bool dirty = true;
	int outcome;

	if (!wanted(claiming, chunk)) {
		if (!claiming->error)
			claiming->error =
				id_list_add(&claiming->bad, &chunk->id);
		return claiming->error;
	}
	if (cache->buckets) {
		outcome = meta_chunk_get(claiming->txn, META_DISK,
					 chunk->id.object, chunk->id.index,
					 chunk->id.version.clock, &disk);
		dirty = outcome || !chunk_id_equal(&disk.id, &chunk->id);
	}
	if (arena_claim(cache->arena, chunk->slot, &chunk->id, chunk->len_bytes,
			dirty) == 0)
		return 0;
	claiming->error = id_list_add(&claiming->bad, &chunk->id);
	if (!claiming->error)
		claiming->error =
			object_list_add(&claiming->suspects, chunk->id.object);
	return claiming->error;
}

static int claim_slots(struct cache *cache, struct object_list *suspects)
{
	struct claiming claiming = {.cache = cache};
	int error = meta_begin_read(cache->meta, &claiming.txn);

	if (error)
		return error;
	error = meta_chunk_each(claiming.txn, META_MEMORY, 0, 0, claim,
				&claiming);
	meta_abort(claiming.txn);
	if (error >= 0)
		error = claiming.error;
	if (!error)
		error = id_list_delete(cache, META_MEMORY, &claiming.bad);
	free(claiming.versions.all);
	free(claiming.bad.all);
	*suspects = claiming.suspects;
	if (!error)
		arena_sweep(cache->arena);
	return error;
}

/* ---- pages ---- */

struct queue {
	struct cache *cache;
	struct meta_txn *txn;
	struct object_list *suspects;
	uint64_t bytes;
	uint64_t pages;
};

static int count_bytes(void *arg, const struct object_name *name)
{
	struct queue *queue = arg;

	queue->bytes += name->entry.stored_bytes;
	return 1;
}

static int count_pending(void *arg, const struct meta_pending *row)
{
	struct queue *queue = arg;
	int error;

	if (row->kind != META_PENDING_PAGE)
		return 0;
	error = object_each_name(queue->txn, row->object, count_bytes, queue);
	if (error < 0)
		return error;
	queue->pages++;
	return object_list_add(queue->suspects, row->object);
}

/* What is to be written must be there still: after a reboot it is not. */
static int look_at_pending(struct cache *cache, struct object_list *suspects)
{
	struct queue queue = {.cache = cache, .suspects = suspects};
	int error = meta_begin_read(cache->meta, &queue.txn);

	if (error)
		return error;
	error = meta_pending_each(queue.txn, 0, count_pending, &queue);
	meta_abort(queue.txn);
	if (error < 0)
		return error;
	atomic_store(&cache->counters->pending_pages, queue.pages);
	atomic_store(&cache->counters->pending_bytes, queue.bytes);
	return 0;
}

static int compare_objects(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int recover_drop_lost(struct cache *cache, struct object_list *suspects)
{
	uint64_t lost = 0;

	if (suspects->count > 1)
		qsort(suspects->all, suspects->count, sizeof(*suspects->all),
		      compare_objects);
	for (size_t i = 0; i < suspects->count; i++) {
		int outcome;

		if (i && suspects->all[i] == suspects->all[i - 1])
			continue;
		outcome = cache_page_lost(cache, suspects->all[i]);
		if (outcome < 0)
			return outcome;
		lost += outcome == 0;
	}
	if (lost)
		log_warning("%llu pages were only partly on disk and are not "
			    "in memory any more: dropped",
			    (unsigned long long)lost);
	return 0;
}

static int add_orphan(void *arg, uint64_t object)
{
	return object_list_add(arg, object);
}

static int sweep_orphans(struct cache *cache)
{
	struct object_list orphans = {0};
	struct meta_txn *txn;
	int error = meta_begin_read(cache->meta, &txn);

	if (error)
		return error;
	error = meta_orphan_each(txn, add_orphan, &orphans);
	meta_abort(txn);
	for (size_t i = 0; error >= 0 && i < orphans.count; i++)
		cache_object_sweep(cache, orphans.all[i]);
	free(orphans.all);
	return error < 0 ? error : 0;
}

static int make_root(struct cache *cache)
{
	struct meta_txn *txn;
	int error = meta_begin_write(cache->meta, &txn);

	if (error)
		return error;
	error = names_root_make(cache, txn);
	if (error) {
		meta_abort(txn);
		return error;
	}
	return cache_commit(cache, txn);
}

int cache_recover(struct cache *cache, int arena_outcome)
{
	struct object_list suspects = {0};
	int error = make_root(cache);

	if (!error)
		error = claim_slots(cache, &suspects);
	if (!error && cache->buckets)
		error = recover_buckets(cache, &suspects);
	if (!error)
		error = sweep_orphans(cache);
	if (!error)
		error = look_at_pending(cache, &suspects);
	if (!error)
		error = recover_drop_lost(cache, &suspects);
	free(suspects.all);
	if (!error && arena_outcome == ARENA_UNVERIFIED)
		log_info("pages in memory are checked again at their first "
			 "use: the last stop was not a clean one");
	return error;
}
