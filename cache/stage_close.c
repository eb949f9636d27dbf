/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/stage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/clock.h"
#include "tools/lib/log.h"

/* Tells the kernel about a new version where nobody else will: at a close its
 * name goes with it.  Under no lock. */
static void announce(struct cache_staging *staging)
{
	struct stagings *stagings = staging->cache->stagings;
	char copy[NAME_MAX_BYTES];
	struct cache_name name;
	bool named;

	pthread_mutex_lock(&stagings->table_lock);
	named = stage_name_get(staging, &name);
	memcpy(copy, staging->name, name.len);
	pthread_mutex_unlock(&stagings->table_lock);
	name.name = copy;
	if (named)
		cache_changed(staging->cache, &name);
}

/* A writer was killed: the page loses its name at once, so that whoever opens
 * it next begins anew, and goes with its last handle.  lock. */
static void break_page(struct cache_staging *staging)
{
	struct stagings *stagings = staging->cache->stagings;

	if (!staging->broken && staging->dirty)
		CACHE_COUNT(staging->cache, aborted_writers, 1);
	staging->broken = true;
	pthread_mutex_lock(&stagings->table_lock);
	stage_name_clear(staging);
	pthread_mutex_unlock(&stagings->table_lock);
}

/* Marks the handle as at rest.  Returns whether others still write. */
static bool others_write(struct cache_writer *writer, bool *ret_mine)
{
	struct cache_staging *staging = writer->staging;
	struct stagings *stagings = staging->cache->stagings;
	bool others;

	pthread_mutex_lock(&stagings->table_lock);
	writer->flushed = true;
	others = stage_active(staging, writer);
	/* A killed process leaves nothing, unless it had written nothing and
	 * others go on. */
	*ret_mine = writer->wrote || staging->writers == 1;
	pthread_mutex_unlock(&stagings->table_lock);
	return others;
}

bool cache_writer_untouched(struct cache_writer *writer)
{
	struct cache_staging *staging = writer->staging;
	bool untouched;

	pthread_mutex_lock(&staging->lock);
	untouched = !writer->peek && !writer->wrote &&
		    staging->entry.size_bytes == 0;
	pthread_mutex_unlock(&staging->lock);
	return untouched;
}

int cache_stage_flush(struct cache_writer *writer, bool killed,
		      bool *ret_committed)
{
	struct cache_staging *staging = writer->staging;
	bool others, mine;
	int error = 0;

	*ret_committed = false;
	if (writer->peek)
		return 0;
	/* Who joins from here on cannot change the page before it has been
	 * committed: else half of what he does (O_TRUNC) would go with it. */
	pthread_mutex_lock(&staging->lock);
	others = others_write(writer, &mine);
	if (killed && mine)
		break_page(staging);
	else if (stage_incomplete(staging))
		staging->mapped = true;
	else if (!others)
		error = stage_commit(staging, ret_committed);
	pthread_mutex_unlock(&staging->lock);
	return error;
}

int cache_stage_sync(struct cache_writer *writer)
{
	struct cache_staging *staging = writer->staging;
	struct cache *cache = staging->cache;
	uint64_t clock = 0, bytes;
	bool committed = false;
	int error = 0;

	if (writer->peek)
		return 0;
	pthread_mutex_lock(&staging->lock);
	bytes = staging->staged_bytes;
	error = stage_commit(staging, &committed);
	staging->checkpointed = staging->checkpointed || committed;
	if (staging->has_base)
		clock = staging->base.version.clock;
	pthread_mutex_unlock(&staging->lock);
	if (committed)
		announce(staging);
	if (error || !clock || !cache->buckets)
		return error;
	error = writeback_wait(cache->writeback, clock, true,
			       clock_deadline_ns(bytes));
	return error == -ETIMEDOUT ? -EIO : error;
}

/* Whoever is the last: what he leaves can't be told to anybody but the log. */
static void commit_at_close(struct cache_staging *staging, bool *ret_committed)
{
	static struct log_limit limit;
	char name[NAME_MAX_BYTES + 1];
	int error = stage_commit(staging, ret_committed);
	uint64_t dir;
	size_t len;

	if (!error)
		return;
	cache_staging_name(staging, &dir, name, &len);
	log_limited(&limit, LOG_LEVEL_WARNING,
		    "page '%s' was written and could not be kept: %s; the "
		    "version before stays",
		    name, strerror(-error));
	CACHE_COUNT(staging->cache, aborted_writers, 1);
}

/* The handle goes.  Returns whether it was the last of all. */
static bool detach(struct cache_writer *writer)
{
	struct cache_staging *staging = writer->staging;
	struct stagings *stagings = staging->cache->stagings;
	bool last;

	pthread_mutex_lock(&stagings->table_lock);
	list_remove(&writer->node);
	if (!writer->peek) {
		staging->writers--;
		atomic_fetch_sub_explicit(
			&staging->cache->counters->open_writers, 1,
			memory_order_relaxed);
	}
	if (staging->writers == 0) {
		stage_name_clear(staging);
		staging->over = true;
	}
	last = list_empty(&staging->handles);
	pthread_mutex_unlock(&stagings->table_lock);
	return last;
}

void cache_stage_close(struct cache_writer *writer, bool *ret_committed)
{
	struct cache_staging *staging = writer->staging;
	bool mine;

	*ret_committed = false;
	pthread_mutex_lock(&staging->lock);
	if (!writer->peek && !others_write(writer, &mine))
		commit_at_close(staging, ret_committed);
	pthread_mutex_unlock(&staging->lock);
	if (*ret_committed)
		announce(staging);
	pthread_mutex_lock(&staging->lock);
	if (detach(writer))
		stage_drop(staging);
	pthread_mutex_unlock(&staging->lock);
	cache_staging_put(staging);
	free(writer);
}
