/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/stage.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/clock.h"

/* The version below can't be shared (any more): chunks are copied first. */
#define COMMIT_DETACH 1

/* One commit; everything in it belongs to its thread. */
struct commit {
	struct cache_staging *staging;
	struct cache *cache;
	struct meta_txn *txn;
	struct cache_name name;
	bool there; /* the name leads to `before` */
	struct meta_entry before;
	struct meta_entry entry;
	struct cache_garbage garbage;
};

/* ---- chunk rows ---- */

/* The row of the version below at that index, in whichever tier. */
static bool base_row(struct commit *commit, uint32_t index, uint32_t *ret_len)
{
	const struct cache_staging *staging = commit->staging;
	struct meta_chunk row;

	for (int tier = META_MEMORY; tier <= META_DISK; tier++) {
		if (tier == META_DISK && !commit->cache->buckets)
			break;
		if (meta_chunk_get(commit->txn, (enum meta_tier)tier,
				   staging->base.object, index,
				   staging->base.version.clock, &row) == 0 &&
		    cache_chunk_current(&row, staging->base.version.clock)) {
			*ret_len = row.len_bytes;
			return true;
		}
	}
	return false;
}

/* The row that was counted so far is not the page's any more. */
static void uncount(struct commit *commit, uint32_t index)
{
	uint32_t len;

	if (!commit->staging->has_base ||
	    index >= stage_chunks_of(commit->staging,
				     commit->staging->base.size_bytes) ||
	    !base_row(commit, index, &len))
		return;
	commit->entry.chunks--;
	commit->entry.stored_bytes -= len;
}

static int put_row(struct commit *commit, struct stage_chunk *chunk)
{
	struct meta_chunk row = {
		.id = stage_chunk_id(commit->staging, chunk),
		.len_bytes = stage_chunk_len(chunk),
		.slot = chunk->slot,
		.bucket = chunk->place.bucket,
		.data_block = chunk->place.data_block,
		.checksums = chunk->sums,
	};
	int error;

	assert(row.id.object == commit->entry.object);
	if (chunk->state == STAGE_SPILLED) {
		error = meta_bucket_add(commit->txn, chunk->place.bucket,
					(int64_t)round_up_block(row.len_bytes));
		return error ? error
			     : meta_chunk_put(commit->txn, META_DISK, &row);
	}
	return meta_chunk_put(commit->txn, META_MEMORY, &row);
}

static int put_chunks(struct commit *commit)
{
	struct cache_staging *staging = commit->staging;
	int error = 0;

	for (size_t i = 0; !error && i < staging->chunk_count; i++) {
		struct stage_chunk *chunk = staging->chunks[i];

		uncount(commit, chunk->index);
		commit->entry.chunks++;
		commit->entry.stored_bytes += stage_chunk_len(chunk);
		error = put_row(commit, chunk);
		if (!error && staging->has_base)
			error = cache_chunk_supersede(
				commit->cache, commit->txn,
				staging->entry.object, chunk->index,
				chunk->version.clock, &commit->garbage);
	}
	return error;
}

/* Chunks of the version below that a truncate has cut off. */
static int drop_cut(struct commit *commit)
{
	struct cache_staging *staging = commit->staging;
	struct stage_indexes cut;
	int error;

	if (!staging->has_base)
		return 0;
	error = stage_indexes_of(
		commit->cache, commit->txn, staging->base.object,
		stage_chunks_of(staging, staging->base_limit),
		stage_chunks_of(staging, staging->base.size_bytes), &cut);
	for (size_t i = 0; !error && i < cut.count; i++) {
		if (stage_chunk_find(staging, cut.all[i]))
			continue;
		uncount(commit, cut.all[i]);
		error = cache_chunk_supersede(commit->cache, commit->txn,
					      staging->base.object, cut.all[i],
					      commit->entry.version.clock,
					      &commit->garbage);
	}
	free(cut.all);
	return error;
}

/* ---- the transaction ---- */

/* What the name leads to now, and whether our chunks may stand beside that
 * object's. */
static int look_before(struct commit *commit)
{
	struct cache_staging *staging = commit->staging;
	struct meta_object row;
	int outcome =
		meta_name_get(commit->txn, commit->name.dir, commit->name.name,
			      commit->name.len, &commit->before);

	if (outcome < 0)
		return outcome;
	commit->there = outcome == 0;
	if (commit->there && commit->before.type != META_FILE)
		return -EISDIR;
	if (!staging->has_base)
		return 0;
	if (!commit->there || commit->before.object != staging->base.object)
		return COMMIT_DETACH;
	outcome = meta_object_get(commit->txn, staging->base.object, &row);
	if (outcome < 0)
		return outcome;
	return outcome == 0 && row.links > 1 ? COMMIT_DETACH : 0;
}

static void make_entry(struct commit *commit)
{
	struct cache_staging *staging = commit->staging;
	const struct meta_entry *before = &commit->before;
	uint64_t committed;

	pthread_mutex_lock(&staging->info_lock);
	commit->entry = staging->entry;
	committed = staging->committed;
	pthread_mutex_unlock(&staging->info_lock);
	commit->entry.version = cache_next_version(commit->cache);
	commit->entry.flags = 0;
	commit->entry.chunks = 0;
	commit->entry.stored_bytes = 0;
	if (staging->has_base) {
		commit->entry.chunks = before->chunks;
		commit->entry.stored_bytes = before->stored_bytes;
	}
	/* Attributes of a committed page are changed in its entry. */
	if (commit->there && before->object == committed) {
		commit->entry.mode = before->mode;
		commit->entry.uid = before->uid;
		commit->entry.gid = before->gid;
		commit->entry.atime_ns = before->atime_ns;
	}
	if (!commit->entry.successor)
		commit->entry.successor = stage_successor(
			commit->cache->stagings, staging->creator);
}

static int put_attributes(struct commit *commit)
{
	struct cache_staging *staging = commit->staging;
	uint64_t object = commit->entry.object;
	int error = 0;

	if (commit->there && commit->before.object == staging->committed &&
	    commit->before.object != object)
		error = meta_attr_copy(commit->txn, commit->before.object,
				       object);
	list_for_each (node, &staging->xattrs) {
		const struct stage_xattr *xattr =
			list_entry(node, struct stage_xattr, node);

		if (!error)
			error = meta_attr_put(commit->txn, object, xattr->name,
					      strlen(xattr->name), xattr->value,
					      xattr->len);
	}
	return error;
}

/* Its fact travels with the last chunk that is still to be written; where there
 * is none (all were spilled, or are the version's below), the write-behind puts
 * it into the journal.  Only what has no chunks is never pending. */
static int queue_fact(struct commit *commit)
{
	if (!commit->entry.chunks)
		return cache_fact_set(commit->cache, commit->txn, &commit->name,
				      &commit->entry);
	return cache_pending_page(commit->cache, commit->txn, &commit->entry);
}

static void hold_moves(struct commit *commit, bool forward)
{
	const struct cache_staging *staging = commit->staging;
	uint64_t below = staging->has_base ? staging->base.version.clock : 0;
	uint64_t now = commit->entry.version.clock;

	if (now)
		pages_hold_move(commit->cache->pages, commit->entry.object,
				forward ? below : now, forward ? now : below);
}

static int fill_transaction(struct commit *commit)
{
	int error = look_before(commit);

	if (error)
		return error;
	make_entry(commit);
	hold_moves(commit, true);
	error = put_chunks(commit);
	if (!error)
		error = drop_cut(commit);
	if (!error)
		error = put_attributes(commit);
	if (!error)
		error = cache_name_put(commit->cache, commit->txn,
				       &commit->name, &commit->entry,
				       &commit->garbage);
	return error ? error : queue_fact(commit);
}

/* Memory's environment is committed first: the rows may be there although the
 * transaction failed. */
static void mark_tried(struct cache_staging *staging)
{
	for (size_t i = 0; i < staging->chunk_count; i++)
		staging->chunks[i]->tried = true;
}

static int transact_held(struct commit *commit)
{
	int error = meta_begin_write(commit->cache->meta, &commit->txn);

	if (error)
		return error;
	error = fill_transaction(commit);
	if (error) {
		meta_abort(commit->txn);
	} else {
		error = cache_commit(commit->cache, commit->txn);
		if (error)
			mark_tried(commit->staging);
	}
	if (error)
		hold_moves(commit, false);
	return error;
}

/* Under names_lock, so that the name stays ours. */
static int transact(struct commit *commit)
{
	struct cache_staging *staging = commit->staging;
	struct pages *pages = commit->cache->pages;
	uint64_t object = staging->entry.object;
	int error = 0;

	if (!staging->has_base)
		error = pages_hold(pages, object, 0);
	if (error)
		return error;
	error = transact_held(commit);
	if (error && !staging->has_base)
		pages_release(pages, object, 0);
	return error;
}

/* ---- after it ---- */

/* The chunks are the committed version's now. */
static void let_go(struct commit *commit)
{
	struct cache_staging *staging = commit->staging;

	for (size_t i = 0; i < staging->chunk_count; i++) {
		struct stage_chunk *chunk = staging->chunks[i];

		if (chunk->state == STAGE_SEALED)
			arena_unpin(commit->cache->arena, chunk->slot);
		free(chunk);
	}
	staging->chunk_count = 0;
}

static void after_commit(struct commit *commit)
{
	struct cache_staging *staging = commit->staging;
	struct cache *cache = commit->cache;

	pthread_mutex_lock(&staging->info_lock);
	staging->entry = commit->entry;
	staging->committed = commit->entry.object;
	stage_free_xattrs(staging);
	pthread_mutex_unlock(&staging->info_lock);
	staging->has_base = true;
	staging->base = commit->entry;
	staging->base_limit = commit->entry.size_bytes;
	staging->dirty = false;
	staging->sized = false;
	staging->patched = false;
	stage_hint_set(cache->stagings, staging->home,
		       commit->entry.size_bytes);
	negative_remove(cache->negative,
			negative_key(commit->name.dir, commit->name.name,
				     commit->name.len));
	cache_garbage_free(cache, &commit->garbage);
	CACHE_COUNT(cache, commits, 1);
	CACHE_COUNT(cache, bytes_committed, commit->entry.size_bytes);
}

static void forget_wrote(struct cache_staging *staging)
{
	list_for_each (node, &staging->handles)
		list_entry(node, struct cache_writer, node)->wrote = false;
}

/* One try: 0, COMMIT_DETACH, -errno; *ret_done: a version was made. */
static int try_commit(struct cache_staging *staging, bool *ret_done)
{
	struct stagings *stagings = staging->cache->stagings;
	struct commit commit = {.staging = staging, .cache = staging->cache};
	bool named;
	int error = 0;

	pthread_mutex_lock(&stagings->names_lock);
	pthread_mutex_lock(&stagings->table_lock);
	named = stage_name_get(staging, &commit.name);
	pthread_mutex_unlock(&stagings->table_lock);
	if (named)
		error = transact(&commit);
	if (named && error) {
		cache_garbage_drop(&commit.garbage);
	} else if (named) {
		let_go(&commit);
		after_commit(&commit);
		pthread_mutex_lock(&stagings->table_lock);
		forget_wrote(staging);
		pthread_mutex_unlock(&stagings->table_lock);
		*ret_done = true;
	}
	pthread_mutex_unlock(&stagings->names_lock);
	return error;
}

/* The index finds no room on a disk that others have filled: old pages make
 * room for new ones. */
static int commit_with_room(struct cache_staging *staging, uint64_t deadline_ns,
			    bool *ret_done)
{
	struct cache *cache = staging->cache;
	int error = try_commit(staging, ret_done);

	if (error == -ENOSPC &&
	    !writeback_make_room(cache->writeback, deadline_ns))
		error = try_commit(staging, ret_done);
	if (error == -ENOSPC)
		CACHE_COUNT(cache, no_space, 1);
	return error;
}

void stage_forget_rows(struct cache_staging *staging,
		       const struct stage_chunk *chunk)
{
	struct chunk_id id = stage_chunk_id(staging, chunk);
	struct meta_txn *txn;

	if (meta_begin_write(staging->cache->meta, &txn))
		return;
	if (meta_chunk_del(txn, META_MEMORY, &id) == 0)
		cache_commit(staging->cache, txn);
	else
		meta_abort(txn);
}

static bool has_name(struct cache_staging *staging)
{
	struct stagings *stagings = staging->cache->stagings;
	struct cache_name name;
	bool named;

	pthread_mutex_lock(&stagings->table_lock);
	named = stage_name_get(staging, &name);
	pthread_mutex_unlock(&stagings->table_lock);
	return named;
}

int stage_commit(struct cache_staging *staging, bool *ret_committed)
{
	struct writeback *writeback = staging->cache->writeback;
	uint64_t deadline = clock_deadline_ns(staging->staged_bytes);
	int error;

	*ret_committed = false;
	if (!staging->dirty || staging->broken || !has_name(staging))
		return 0;
	if (staging->failed)
		return staging->failed;
	error = stage_cover_leftovers(staging, deadline);
	if (!error)
		error = stage_seal(staging, deadline);
	if (!error)
		error = commit_with_room(staging, deadline, ret_committed);
	if (error == COMMIT_DETACH) {
		error = stage_recut(staging, staging->entry.chunk_shift,
				    deadline);
		if (!error)
			error = stage_seal(staging, deadline);
		if (!error)
			error = commit_with_room(staging, deadline,
						 ret_committed);
	}
	assert(error <= 0);
	/* A failure, too: what it had counted as pending is counted again. */
	writeback_kick(writeback, false);
	return error;
}
