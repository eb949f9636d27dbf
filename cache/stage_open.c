/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/stage.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/lib/clock.h"

/* How often a name may change under an open before it gives up. */
#define OPEN_TRIES 32

/* ---- handles ---- */

static struct cache_writer *writer_new(unsigned flags, pid_t process)
{
	struct cache_writer *writer = calloc(1, sizeof(*writer));

	if (!writer)
		return NULL;
	list_init(&writer->node);
	writer->process = process;
	writer->append = flags & CACHE_STAGE_APPEND;
	writer->peek = flags & CACHE_STAGE_PEEK;
	return writer;
}

/* Under table_lock; takes a reference of its own. */
static void attach(struct cache_staging *staging, struct cache_writer *writer)
{
	writer->staging = staging;
	staging->refs++;
	list_push_back(&staging->handles, &writer->node);
	if (writer->peek)
		return;
	staging->writers++;
	CACHE_COUNT(staging->cache, open_writers, 1);
}

static int after_join(struct cache_writer *writer, unsigned flags)
{
	struct cache_staging *staging = writer->staging;
	bool committed;
	int error;

	if (!(flags & CACHE_STAGE_TRUNCATE) || writer->peek)
		return 0;
	error = cache_stage_truncate(staging, 0);
	if (error)
		cache_stage_close(writer, &committed);
	return error;
}

int cache_stage_join(struct cache_staging *staging, unsigned flags,
		     pid_t process, struct cache_writer **ret)
{
	struct stagings *stagings = staging->cache->stagings;
	struct cache_writer *writer = writer_new(flags, process);
	bool over;
	int error;

	if (!writer)
		return -ENOMEM;
	pthread_mutex_lock(&stagings->table_lock);
	over = staging->over;
	if (!over)
		attach(staging, writer);
	pthread_mutex_unlock(&stagings->table_lock);
	if (over) {
		free(writer);
		return CACHE_STALE;
	}
	error = after_join(writer, flags);
	if (!error)
		*ret = writer;
	return error;
}

/* ---- beginning a page ---- */

struct opened {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
	int outcome;
	struct cache_page *page;
};

static void page_opened(void *arg, int outcome, struct cache_page *page)
{
	struct opened *opened = arg;

	pthread_mutex_lock(&opened->lock);
	opened->done = true;
	opened->outcome = outcome;
	opened->page = page;
	pthread_cond_signal(&opened->cond);
	pthread_mutex_unlock(&opened->lock);
}

/* cache_page_open() keeps the deadline; this waits for it. */
static int open_base_page(struct cache *cache, const struct cache_name *name,
			  const struct meta_entry *entry,
			  struct cache_page **ret)
{
	struct opened opened = {
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.cond = PTHREAD_COND_INITIALIZER,
	};

	cache_page_open(cache, name, entry, page_opened, &opened);
	pthread_mutex_lock(&opened.lock);
	while (!opened.done)
		pthread_cond_wait(&opened.cond, &opened.lock);
	pthread_mutex_unlock(&opened.lock);
	pthread_cond_destroy(&opened.cond);
	pthread_mutex_destroy(&opened.lock);
	if (opened.outcome == 0)
		*ret = opened.page;
	return opened.outcome;
}

/* What the name leads to: 0, CACHE_MISS, CACHE_HIDDEN, -EISDIR, -ELOOP,
 * -ENOENT (no such directory). */
static int look(struct cache *cache, const struct cache_name *name,
		struct meta_entry *ret)
{
	struct meta_object row;
	struct meta_txn *txn;
	int error = meta_begin_read(cache->meta, &txn);

	if (error)
		return error;
	error = meta_name_get(txn, name->dir, name->name, name->len, ret);
	if (error == META_ABSENT && name->dir != META_ROOT &&
	    meta_object_get(txn, name->dir, &row) == META_ABSENT)
		error = -ENOENT;
	meta_abort(txn);
	if (error)
		return error == META_ABSENT ? CACHE_MISS : error;
	if (ret->type == META_DIR)
		return -EISDIR;
	if (negative_left(cache->negative,
			  negative_key(name->dir, name->name, name->len),
			  clock_monotonic_ns()))
		return CACHE_HIDDEN;
	return ret->type == META_SYMLINK ? -ELOOP : 0;
}

/* A staging page over the committed one: with its bytes, or (TRUNCATE)
 * without.  Nothing is shared with other threads yet. */
static int begin_over(struct cache *cache, const struct cache_name *name,
		      const struct meta_entry *base, unsigned flags,
		      pid_t process, struct cache_staging *staging)
{
	struct cache_page *page = NULL;
	uint8_t shift = staging->entry.chunk_shift;
	int error;

	staging->entry = *base;
	staging->committed = base->object;
	if (flags & CACHE_STAGE_TRUNCATE) {
		staging->entry.size_bytes = 0;
		staging->entry.chunk_shift = shift;
		staging->entry.object =
			stage_object_take(cache->stagings, process);
		staging->entry.successor = 0;
		staging->dirty = true;
		stage_touch(staging);
		return 0;
	}
	error = pages_hold(cache->pages, base->object, base->version.clock);
	if (error)
		return error;
	staging->has_base = true;
	staging->base = *base;
	staging->base_limit = base->size_bytes;
	if (flags & CACHE_STAGE_READ)
		error = open_base_page(cache, name, base, &page);
	staging->base_page = page;
	return error;
}

static int begin(struct cache *cache, const struct cache_name *name,
		 unsigned flags, const struct cache_creator *creator,
		 pid_t process, struct cache_staging **ret)
{
	struct cache_staging *staging = stage_new(cache, creator);
	struct meta_entry base;
	int outcome;

	if (!staging)
		return -ENOMEM;
	outcome = look(cache, name, &base);
	if (outcome == 0 && flags & CACHE_STAGE_EXCLUSIVE)
		outcome = -EEXIST;
	if (outcome == 0)
		outcome =
			begin_over(cache, name, &base, flags, process, staging);
	if (flags & CACHE_STAGE_CREATE && creator &&
	    (outcome == CACHE_MISS || outcome == CACHE_HIDDEN ||
	     outcome == CACHE_FAILED)) {
		/* What was there can't be had any more: a new page. */
		cache_staging_put(staging);
		staging = stage_new(cache, creator);
		if (!staging)
			return -ENOMEM;
		staging->entry.object =
			stage_object_take(cache->stagings, process);
		staging->dirty = true;
		outcome = 0;
	}
	staging->creator = process;
	staging->home = name->dir;
	if (outcome)
		cache_staging_put(staging);
	else
		*ret = staging;
	return outcome;
}

/* Puts the new page into the table, unless another was quicker. */
static bool publish(struct cache_staging *staging,
		    const struct cache_name *name, struct cache_writer *writer)
{
	struct stagings *stagings = staging->cache->stagings;
	bool first;

	pthread_mutex_lock(&stagings->table_lock);
	first = !stage_find(stagings, name);
	if (first) {
		stage_name_set(staging, name);
		attach(staging, writer);
	}
	pthread_mutex_unlock(&stagings->table_lock);
	return first;
}

/* The base may have been committed over between look() and publish(): from
 * publish() on, only we commit to that name. */
static bool still_current(struct cache_staging *staging,
			  const struct cache_name *name)
{
	struct cache *cache = staging->cache;
	struct meta_entry now;
	struct meta_txn *txn;
	int outcome;

	if (!staging->has_base || meta_begin_read(cache->meta, &txn))
		return true;
	outcome = meta_name_get(txn, name->dir, name->name, name->len, &now);
	meta_abort(txn);
	return outcome == 0 && now.object == staging->base.object &&
	       now.version.clock == staging->base.version.clock;
}

static int open_new(struct cache *cache, const struct cache_name *name,
		    unsigned flags, const struct cache_creator *creator,
		    pid_t process, struct cache_writer **ret)
{
	struct cache_writer *writer = writer_new(flags, process);
	struct cache_staging *staging;
	bool committed;
	int outcome;

	if (!writer)
		return -ENOMEM;
	outcome = begin(cache, name, flags, creator, process, &staging);
	if (outcome) {
		free(writer);
		return outcome;
	}
	if (!publish(staging, name, writer)) {
		free(writer);
		outcome = CACHE_STALE;
	} else if (!still_current(staging, name)) {
		cache_stage_close(writer, &committed);
		outcome = CACHE_STALE;
	} else {
		*ret = writer;
	}
	cache_staging_put(staging);
	return outcome;
}

int cache_stage_open(struct cache *cache, const struct cache_name *name,
		     unsigned flags, const struct cache_creator *creator,
		     pid_t process, struct cache_writer **ret)
{
	int outcome = CACHE_STALE;

	if (name->len == 0 || name->len > NAME_MAX_BYTES)
		return -ENAMETOOLONG;
	for (int i = 0; i < OPEN_TRIES && outcome == CACHE_STALE; i++) {
		struct cache_staging *staging =
			stagings_find(cache->stagings, name);

		if (!staging) {
			outcome = open_new(cache, name, flags, creator, process,
					   ret);
			continue;
		}
		outcome = flags & CACHE_STAGE_EXCLUSIVE
				  ? -EEXIST
				  : cache_stage_join(staging, flags, process,
						     ret);
		cache_staging_put(staging);
	}
	return outcome;
}

int cache_stage_anonymous(struct cache *cache, uint64_t dir,
			  const struct cache_creator *creator, pid_t process,
			  struct cache_writer **ret)
{
	struct cache_staging *staging = stage_new(cache, creator);
	struct cache_writer *writer = writer_new(0, process);

	if (!staging || !writer) {
		if (staging)
			cache_staging_put(staging);
		free(writer);
		return -ENOMEM;
	}
	staging->home = dir;
	staging->creator = process;
	staging->entry.object = stage_object_take(cache->stagings, process);
	staging->dirty = true;
	pthread_mutex_lock(&cache->stagings->table_lock);
	attach(staging, writer);
	pthread_mutex_unlock(&cache->stagings->table_lock);
	cache_staging_put(staging);
	*ret = writer;
	return 0;
}
