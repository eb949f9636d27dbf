/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/inval.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fs/node.h"
#include "tools/lib/clock.h"
#include "tools/lib/list.h"
#include "tools/lib/page.h"

#define BUCKETS 1024u
/* Older names of a directory than this many are not looked through for a
 * double: invalidating twice is cheaper. */
#define LOOK_BACK 16u

struct waiter {
	struct waiter *next;
	void (*done)(void *arg);
	void *arg;
};

struct name {
	struct list place; /* in its directory's names */
	struct waiter *waiters;
	uint8_t len;
	char bytes[];
};

/* A directory with work.  It is in `ready` unless a thread works on it. */
struct directory {
	struct list ready;
	struct directory *next; /* in its bucket */
	uint64_t object;
	struct list names; /* oldest first */
	bool whole;	   /* all names the kernel knows; `late` waits */
	bool again;	   /* it changed since work began */
	struct waiter *late;
};

struct inval {
	struct nodes *nodes;
	struct inval_ops ops;
	pthread_t threads[INVAL_THREADS];
	unsigned running;
	pthread_mutex_t lock;
	pthread_cond_t work;
	/* Guarded by lock. */
	bool stop;
	struct list ready;
	struct directory *buckets[BUCKETS];
	size_t queued; /* names */
	struct inval_stats stats;
};

static struct directory **place(struct inval *inval, uint64_t object)
{
	uint64_t hash = object * 0x9E3779B97F4A7C15ull;
	struct directory **p = &inval->buckets[(hash >> 32) % BUCKETS];

	while (*p && (*p)->object != object)
		p = &(*p)->next;
	return p;
}

/* The directory's queue, made ready if it is new; NULL: no memory. */
static struct directory *directory_get(struct inval *inval, uint64_t object)
{
	struct directory **p = place(inval, object);

	if (*p)
		return *p;

	struct directory *dir = calloc(1, sizeof(*dir));

	if (!dir)
		return NULL;
	dir->object = object;
	list_init(&dir->names);
	*p = dir;
	list_push_back(&inval->ready, &dir->ready);
	pthread_cond_signal(&inval->work);
	return dir;
}

static void call_waiters(struct waiter *waiters)
{
	while (waiters) {
		struct waiter *next = waiters->next;

		waiters->done(waiters->arg);
		free(waiters);
		waiters = next;
	}
}

static void tell_entry(struct inval *inval, uint64_t parent, const char *name,
		       size_t len)
{
	inval->ops.entry(inval->ops.arg, parent, name, len);
}

struct whole {
	struct inval *inval;
	uint64_t parent;
};

static void each_in_whole(void *arg, const char *name, size_t len)
{
	const struct whole *whole = arg;

	tell_entry(whole->inval, whole->parent, name, len);
}

/* Works on one directory's queue as it stands; called and returns locked. */
static void work_on(struct inval *inval, struct directory *dir)
{
	struct list names = LIST_INIT(names);
	struct waiter *late = dir->late;
	bool whole = dir->whole;
	struct list *node;

	list_splice_back(&names, &dir->names);
	dir->whole = false;
	dir->again = false;
	dir->late = NULL;
	pthread_mutex_unlock(&inval->lock);

	uint64_t parent = node_directory(inval->nodes, dir->object);
	size_t count = 0;

	if (parent)
		inval->ops.directory(inval->ops.arg, parent);
	if (parent && whole) {
		struct whole all = {inval, parent};

		nodes_in_dir(inval->nodes, dir->object, each_in_whole, &all);
	}
	while ((node = list_pop_front(&names))) {
		struct name *name = list_entry(node, struct name, place);

		if (parent)
			tell_entry(inval, parent, name->bytes, name->len);
		call_waiters(name->waiters);
		free(name);
		count++;
	}
	call_waiters(late);

	pthread_mutex_lock(&inval->lock);
	inval->queued -= count;
	inval->stats.names += count;
	inval->stats.directories++;
}

static void *thread_main(void *arg)
{
	struct inval *inval = arg;

	pthread_setname_np(pthread_self(), "pagefs-inval");
	pthread_mutex_lock(&inval->lock);
	for (;;) {
		struct list *node = list_pop_front(&inval->ready);

		if (!node && inval->stop)
			break;
		if (!node) {
			pthread_cond_wait(&inval->work, &inval->lock);
			continue;
		}

		struct directory *dir =
			list_entry(node, struct directory, ready);

		work_on(inval, dir);
		if (!list_empty(&dir->names) || dir->whole || dir->again) {
			list_push_back(&inval->ready, &dir->ready);
			continue;
		}
		*place(inval, dir->object) = dir->next;
		free(dir);
	}
	pthread_mutex_unlock(&inval->lock);
	return NULL;
}

int inval_new(struct nodes *nodes, const struct inval_ops *ops,
	      struct inval **ret)
{
	struct inval *inval = calloc(1, sizeof(*inval));

	if (!inval)
		return -ENOMEM;
	inval->nodes = nodes;
	inval->ops = *ops;
	list_init(&inval->ready);
	pthread_mutex_init(&inval->lock, NULL);
	pthread_cond_init(&inval->work, NULL);
	for (; inval->running < INVAL_THREADS; inval->running++) {
		int error = pthread_create(&inval->threads[inval->running],
					   NULL, thread_main, inval);

		if (error) {
			inval_free(inval);
			return -error;
		}
	}
	*ret = inval;
	return 0;
}

void inval_free(struct inval *inval)
{
	if (!inval)
		return;
	pthread_mutex_lock(&inval->lock);
	inval->stop = true;
	pthread_cond_broadcast(&inval->work);
	pthread_mutex_unlock(&inval->lock);
	for (unsigned i = 0; i < inval->running; i++)
		pthread_join(inval->threads[i], NULL);
	pthread_cond_destroy(&inval->work);
	pthread_mutex_destroy(&inval->lock);
	free(inval);
}

static struct name *find_late(struct directory *dir, const char *bytes,
			      size_t len)
{
	unsigned looked = 0;

	for (struct list *node = dir->names.prev;
	     node != &dir->names && looked < LOOK_BACK;
	     node = node->prev, looked++) {
		struct name *name = list_entry(node, struct name, place);

		if (name->len == len && memcmp(name->bytes, bytes, len) == 0)
			return name;
	}
	return NULL;
}

/* Queues the name, or the whole directory where that can't be. */
static struct waiter **add_name(struct inval *inval, struct directory *dir,
				const char *bytes, size_t len)
{
	struct name *name = find_late(dir, bytes, len);

	if (name)
		return &name->waiters;
	if (inval->queued < INVAL_NAMES_MAX)
		name = malloc(sizeof(*name) + len);
	if (!name) {
		dir->whole = true;
		inval->stats.overflows++;
		return &dir->late;
	}
	name->waiters = NULL;
	name->len = (uint8_t)len;
	memcpy(name->bytes, bytes, len);
	list_push_back(&dir->names, &name->place);
	inval->queued++;
	return &name->waiters;
}

void inval_name(struct inval *inval, uint64_t dir_object, const char *name,
		size_t len, void (*done)(void *arg), void *arg)
{
	struct waiter *waiter = done ? malloc(sizeof(*waiter)) : NULL;

	pthread_mutex_lock(&inval->lock);
	struct directory *dir =
		inval->stop ? NULL : directory_get(inval, dir_object);

	if (dir) {
		struct waiter **list = add_name(inval, dir, name, len);

		if (waiter) {
			*waiter = (struct waiter){*list, done, arg};
			*list = waiter;
		}
	}
	pthread_mutex_unlock(&inval->lock);
	/* Without memory (or at the end) the caller isn't left waiting. */
	if (done && (!waiter || !dir)) {
		free(waiter);
		done(arg);
	}
}

void inval_directory(struct inval *inval, uint64_t object)
{
	pthread_mutex_lock(&inval->lock);
	struct directory *dir =
		inval->stop ? NULL : directory_get(inval, object);

	if (dir)
		dir->again = true;
	pthread_mutex_unlock(&inval->lock);
}

/* ---- waiting for it ---- */

struct flush {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Guarded by lock. */
	unsigned left; /* directories */
	bool given_up; /* the last directory frees this */
};

static void flush_free(struct flush *flush)
{
	pthread_cond_destroy(&flush->changed);
	pthread_mutex_destroy(&flush->lock);
	free(flush);
}

static void flush_done(void *arg)
{
	struct flush *flush = arg;
	bool last;

	pthread_mutex_lock(&flush->lock);
	flush->left--;
	last = !flush->left && flush->given_up;
	pthread_cond_signal(&flush->changed);
	pthread_mutex_unlock(&flush->lock);
	if (last)
		flush_free(flush);
}

/* Called locked.  One that is being worked on is worked on once more: what
 * was queued before this is done then. */
static void flush_add(struct flush *flush, struct directory *dir)
{
	struct waiter *waiter = malloc(sizeof(*waiter));

	if (!waiter)
		return;
	*waiter = (struct waiter){dir->late, flush_done, flush};
	dir->late = waiter;
	dir->again = true;
	flush->left++;
}

static struct flush *flush_new(struct inval *inval)
{
	struct flush *flush = calloc(1, sizeof(*flush));
	pthread_condattr_t monotonic;

	if (!flush)
		return NULL;
	pthread_mutex_init(&flush->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&flush->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);

	pthread_mutex_lock(&inval->lock);
	pthread_mutex_lock(&flush->lock);
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct directory *dir = inval->buckets[i]; dir;
		     dir = dir->next)
			flush_add(flush, dir);
	}
	pthread_mutex_unlock(&flush->lock);
	pthread_mutex_unlock(&inval->lock);
	return flush;
}

void inval_flush(struct inval *inval, uint64_t deadline_ns)
{
	struct timespec until = clock_to_timespec(deadline_ns);
	struct flush *flush = flush_new(inval);
	int rc = 0;
	bool left;

	if (!flush)
		return;
	pthread_mutex_lock(&flush->lock);
	while (flush->left && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&flush->changed, &flush->lock,
					    &until);
	left = flush->left;
	flush->given_up = true;
	pthread_mutex_unlock(&flush->lock);
	if (!left)
		flush_free(flush);
}

void inval_get_stats(struct inval *inval, struct inval_stats *ret)
{
	pthread_mutex_lock(&inval->lock);
	*ret = inval->stats;
	pthread_mutex_unlock(&inval->lock);
}
