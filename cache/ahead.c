/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/reads.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* Of usual priority: whoever holds the arena's lock must get on. */
struct ahead {
	struct arena *arena;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* Guarded by lock. */
	bool kicked, stop;
};

static bool stopped(struct ahead *ahead)
{
	bool stop;

	pthread_mutex_lock(&ahead->lock);
	stop = ahead->stop;
	pthread_mutex_unlock(&ahead->lock);
	return stop;
}

static bool wait_for_kick(struct ahead *ahead)
{
	bool stop;

	pthread_mutex_lock(&ahead->lock);
	while (!ahead->kicked && !ahead->stop)
		pthread_cond_wait(&ahead->wake, &ahead->lock);
	ahead->kicked = false;
	stop = ahead->stop;
	pthread_mutex_unlock(&ahead->lock);
	return !stop;
}

static void *run(void *arg)
{
	struct ahead *ahead = arg;

	pthread_setname_np(pthread_self(), "pagefs-ahead");
	while (wait_for_kick(ahead)) {
		while (!stopped(ahead) && arena_ahead(ahead->arena))
			;
	}
	return NULL;
}

void ahead_kick(struct ahead *ahead)
{
	pthread_mutex_lock(&ahead->lock);
	if (!ahead->kicked) {
		ahead->kicked = true;
		pthread_cond_signal(&ahead->wake);
	}
	pthread_mutex_unlock(&ahead->lock);
}

int ahead_new(struct cache *cache, struct ahead **ret)
{
	struct ahead *ahead = calloc(1, sizeof(*ahead));
	int rc;

	if (!ahead)
		return -ENOMEM;
	ahead->arena = cache->arena;
	pthread_mutex_init(&ahead->lock, NULL);
	pthread_cond_init(&ahead->wake, NULL);
	rc = pthread_create(&ahead->thread, NULL, run, ahead);
	if (rc) {
		free(ahead);
		return -rc;
	}
	*ret = ahead;
	return 0;
}

void ahead_free(struct ahead *ahead)
{
	if (!ahead)
		return;
	pthread_mutex_lock(&ahead->lock);
	ahead->stop = true;
	pthread_cond_signal(&ahead->wake);
	pthread_mutex_unlock(&ahead->lock);
	pthread_join(ahead->thread, NULL);
	pthread_cond_destroy(&ahead->wake);
	pthread_mutex_destroy(&ahead->lock);
	free(ahead);
}
