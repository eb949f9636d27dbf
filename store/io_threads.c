/* SPDX-License-Identifier: Apache-2.0 */
#include "store/io_engine.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 16

struct threads {
	pthread_mutex_t lock;		  /* guards all below */
	pthread_cond_t work;		  /* something to do, or stop */
	pthread_cond_t back;		  /* something came back, or wake */
	struct io_request *first, **last; /* started */
	struct io_request *finished;
	pthread_t ids[THREADS_MAX];
	unsigned count;
	unsigned idle;
	unsigned queued;
	bool woken;
	bool stop;
};

static int64_t move(const struct io_request *request)
{
	uint32_t resume = io_resume_bytes(request);
	off_t offset = (off_t)(request->offset_bytes + resume);
	char *data = (char *)request->data + resume;
	size_t len = request->len_bytes - resume;
	ssize_t n = -1;

	switch (request->operation) {
	case IO_READ:
		n = pread(request->fd, data, len, offset);
		break;
	case IO_WRITE:
		n = pwrite(request->fd, data, len, offset);
		break;
	case IO_WRITE_VECTOR:
		n = pwritev(request->fd, request->data,
			    (int)request->vector_count, offset);
		break;
	case IO_SYNC:
		n = fdatasync(request->fd);
		break;
	case IO_ALLOCATE:
		n = fallocate(request->fd, 0, offset, (off_t)len);
		break;
	}
	return n < 0 ? -errno : n;
}

static void *work(void *arg)
{
	struct threads *threads = arg;
	struct io_request *request;

	pthread_setname_np(pthread_self(), "pagefs-io-pool");
	pthread_mutex_lock(&threads->lock);
	for (;;) {
		while (!threads->first && !threads->stop) {
			threads->idle++;
			pthread_cond_wait(&threads->work, &threads->lock);
			threads->idle--;
		}
		request = threads->first;
		if (!request)
			break;
		threads->first = request->next;
		if (!threads->first)
			threads->last = &threads->first;
		threads->queued--;
		pthread_mutex_unlock(&threads->lock);

		request->notes.res = move(request);

		pthread_mutex_lock(&threads->lock);
		request->next = threads->finished;
		threads->finished = request;
		pthread_cond_signal(&threads->back);
	}
	pthread_mutex_unlock(&threads->lock);
	return NULL;
}

/* Called with the lock held. */
static int add_thread(struct threads *threads)
{
	int error = pthread_create(&threads->ids[threads->count], NULL, work,
				   threads);

	if (!error)
		threads->count++;
	return -error;
}

static void threads_close(void *engine)
{
	struct threads *threads = engine;

	pthread_mutex_lock(&threads->lock);
	assert(!threads->first && !threads->finished);
	threads->stop = true;
	pthread_cond_broadcast(&threads->work);
	pthread_mutex_unlock(&threads->lock);
	for (unsigned i = 0; i < threads->count; i++)
		pthread_join(threads->ids[i], NULL);
	pthread_cond_destroy(&threads->back);
	pthread_cond_destroy(&threads->work);
	pthread_mutex_destroy(&threads->lock);
	free(threads);
}

static int threads_open(unsigned depth, void **ret)
{
	struct threads *threads = calloc(1, sizeof(*threads));
	pthread_condattr_t monotonic;
	int error;

	(void)depth;
	if (!threads)
		return -ENOMEM;
	threads->last = &threads->first;
	pthread_mutex_init(&threads->lock, NULL);
	pthread_cond_init(&threads->work, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&threads->back, &monotonic);
	pthread_condattr_destroy(&monotonic);
	/* The first one now: those that can't be had later do not matter. */
	pthread_mutex_lock(&threads->lock);
	error = add_thread(threads);
	pthread_mutex_unlock(&threads->lock);
	if (error) {
		threads_close(threads);
		return error;
	}
	*ret = threads;
	return 0;
}

static void threads_start(void *engine, struct io_request *request)
{
	struct threads *threads = engine;

	request->next = NULL;
	pthread_mutex_lock(&threads->lock);
	*threads->last = request;
	threads->last = &request->next;
	threads->queued++;
	if (threads->queued > threads->idle && threads->count < THREADS_MAX)
		(void)add_thread(threads);
	pthread_cond_signal(&threads->work);
	pthread_mutex_unlock(&threads->lock);
}

static struct timespec time_after(int64_t timeout_ns)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += timeout_ns / 1000000000;
	end.tv_nsec += timeout_ns % 1000000000;
	if (end.tv_nsec >= 1000000000) {
		end.tv_nsec -= 1000000000;
		end.tv_sec++;
	}
	return end;
}

static struct io_request *threads_wait(void *engine, int64_t timeout_ns)
{
	struct threads *threads = engine;
	struct timespec end = time_after(timeout_ns < 0 ? 0 : timeout_ns);
	struct io_request *finished;
	int error = 0;

	pthread_mutex_lock(&threads->lock);
	while (!threads->finished && !threads->woken && error != ETIMEDOUT) {
		if (timeout_ns < 0)
			pthread_cond_wait(&threads->back, &threads->lock);
		else
			error = pthread_cond_timedwait(&threads->back,
						       &threads->lock, &end);
	}
	threads->woken = false;
	finished = threads->finished;
	threads->finished = NULL;
	pthread_mutex_unlock(&threads->lock);
	return finished;
}

static void threads_wake(void *engine)
{
	struct threads *threads = engine;

	pthread_mutex_lock(&threads->lock);
	threads->woken = true;
	pthread_cond_signal(&threads->back);
	pthread_mutex_unlock(&threads->lock);
}

const struct io_engine io_threads_engine = {
	.name = "threads",
	.open = threads_open,
	.close = threads_close,
	.start = threads_start,
	.wait = threads_wait,
	.wake = threads_wake,
};
