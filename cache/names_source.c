/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/names_source.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tools/lib/clock.h"

#define MISSES_MAX 65536u

/* Names that no source had, until they may be asked for again.  What is
 * remembered of a failed get and what of a miss are the same thing: a key and
 * an end. */
struct misses {
	struct negative *memo;
};

int misses_new(struct cache *cache, struct misses **ret)
{
	struct misses *misses = calloc(1, sizeof(*misses));
	uint64_t ttl_ns = cache->config.miss_timeout_ms * CLOCK_NS_PER_MS;
	int error;

	if (!misses)
		return -ENOMEM;
	error = negative_new(ttl_ns, cache->config.source ? MISSES_MAX : 0,
			     &misses->memo);
	if (error) {
		free(misses);
		return error;
	}
	*ret = misses;
	return 0;
}

void misses_free(struct misses *misses)
{
	if (!misses)
		return;
	negative_free(misses->memo);
	free(misses);
}

void misses_forget(struct misses *misses, const struct cache_name *name)
{
	if (negative_enabled(misses->memo))
		negative_remove(misses->memo,
				negative_key(name->dir, name->name, name->len));
}

/* One question.  Held by who waits and by who answers: a late answer finds
 * it, and nobody else. */
struct question {
	pthread_mutex_t lock;
	pthread_cond_t answered;
	_Atomic int references;
	bool done;
	int outcome;
	struct meta_entry entry;
};

static struct question *question_new(void)
{
	struct question *question = calloc(1, sizeof(*question));
	pthread_condattr_t monotonic;

	if (!question)
		return NULL;
	pthread_mutex_init(&question->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&question->answered, &monotonic);
	pthread_condattr_destroy(&monotonic);
	atomic_store(&question->references, 2);
	return question;
}

static void question_put(struct question *question)
{
	if (atomic_fetch_sub(&question->references, 1) > 1)
		return;
	pthread_cond_destroy(&question->answered);
	pthread_mutex_destroy(&question->lock);
	free(question);
}

static void answer(void *arg, int outcome, const struct meta_entry *entry)
{
	struct question *question = arg;

	pthread_mutex_lock(&question->lock);
	question->done = true;
	question->outcome = outcome;
	if (!outcome)
		question->entry = *entry;
	pthread_cond_signal(&question->answered);
	pthread_mutex_unlock(&question->lock);
	question_put(question);
}

/* The answer, or -ETIMEDOUT. */
static int question_wait(struct question *question, uint64_t deadline_ns,
			 struct meta_entry *ret)
{
	struct timespec until = clock_to_timespec(deadline_ns);
	int outcome = 0;

	pthread_mutex_lock(&question->lock);
	while (!question->done && !outcome)
		outcome = pthread_cond_timedwait(&question->answered,
						 &question->lock, &until);
	if (question->done) {
		outcome = question->outcome;
		*ret = question->entry;
	} else {
		outcome = -ETIMEDOUT;
	}
	pthread_mutex_unlock(&question->lock);
	return outcome;
}

static int ask(struct cache *cache, const struct cache_name *name,
	       struct meta_entry *ret)
{
	const struct cache_source *source = cache->config.source;
	uint64_t deadline_ns = clock_monotonic_ns() +
			       cache->config.lookup_wait_ms * CLOCK_NS_PER_MS;
	struct question *question;
	char key[KEY_MAX_BYTES];
	size_t len;
	int outcome = cache_key(cache, name, key, &len);

	if (outcome)
		return outcome;
	question = question_new();
	if (!question)
		return -ENOMEM;
	source->lookup(source->self, key, len, deadline_ns, answer, question);
	outcome = question_wait(question, deadline_ns, ret);
	question_put(question);
	return outcome;
}

int source_lookup(struct cache *cache, const struct cache_name *name,
		  struct cache_found *ret)
{
	struct negative *memo = cache->misses->memo;
	uint64_t miss_ns = cache->config.miss_timeout_ms * CLOCK_NS_PER_MS;
	struct key_id key;
	int outcome;

	/* Here all creations go through the kernel, which drops its negative
	 * entry then, or call `changed`. */
	ret->ttl_ns = UINT64_MAX;
	if (!cache->config.source || cache_name_temporary(cache, name))
		return CACHE_MISS;
	key = negative_key(name->dir, name->name, name->len);
	ret->ttl_ns = negative_left(memo, key, clock_monotonic_ns());
	if (ret->ttl_ns)
		return CACHE_MISS;
	outcome = ask(cache, name, &ret->entry);
	if (outcome == 0) {
		ret->links = 1;
		ret->ttl_ns = miss_ns;
		return 0;
	}
	if (outcome == CACHE_MISS) {
		negative_insert(memo, key, clock_monotonic_ns(), false);
		ret->ttl_ns = miss_ns;
	}
	/* No answer in time, or a failure: ask again next time. */
	return CACHE_MISS;
}
