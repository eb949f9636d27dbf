/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/loop.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "fs/fuse.h"
#include "tools/lib/log.h"

#define STACK_BYTES (256u << 10)

/* One a process: loop_stop() takes no argument. */
static struct {
	struct fuse_session *session;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	/* Guarded by lock. */
	unsigned threads;
	unsigned waiting; /* for a request */
	pthread_t ids[LOOP_THREADS_MAX];
	bool used[LOOP_THREADS_MAX];
	/* Set once, read by all. */
	_Atomic bool stop;
} loop = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.ended = PTHREAD_COND_INITIALIZER,
};

static void *thread_main(void *arg);

/* Called locked.  0 or -errno. */
static int start_thread(void)
{
	unsigned place = 0;
	pthread_attr_t attributes;
	int error;

	while (loop.used[place])
		place++;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	error = pthread_create(&loop.ids[place], &attributes, thread_main,
			       &loop.used[place]);
	pthread_attr_destroy(&attributes);
	if (error)
		return -error;
	loop.used[place] = true;
	loop.threads++;
	loop.waiting++;
	return 0;
}

/* A request has come: somebody else must wait for the next one. */
static void got_request(void)
{
	static struct log_limit limit;

	pthread_mutex_lock(&loop.lock);
	loop.waiting--;
	if (!loop.waiting && loop.threads < LOOP_THREADS_MAX && !loop.stop &&
	    start_thread())
		log_limited(&limit, LOG_LEVEL_WARNING,
			    "no more threads for requests than %u: the limit "
			    "on processes (ulimit -u) or memory is reached",
			    loop.threads);
	pthread_mutex_unlock(&loop.lock);
}

/* False: there are enough that wait. */
static bool wait_again(void)
{
	pthread_mutex_lock(&loop.lock);
	bool again = loop.waiting < LOOP_THREADS_IDLE && !loop.stop;

	if (again)
		loop.waiting++;
	pthread_mutex_unlock(&loop.lock);
	return again;
}

static void thread_end(bool *used, bool was_waiting)
{
	pthread_mutex_lock(&loop.lock);
	*used = false;
	loop.threads--;
	if (was_waiting)
		loop.waiting--;
	pthread_cond_signal(&loop.ended);
	pthread_mutex_unlock(&loop.lock);
}

static void *thread_main(void *arg)
{
	bool *used = arg;
	struct fuse_buf buf = {0};

	pthread_setname_np(pthread_self(), "pagefs-fuse");
	for (;;) {
		int n = fuse_session_receive_buf(loop.session, &buf);

		if (loop.stop || (n <= 0 && n != -EINTR && n != -EAGAIN)) {
			if (n < 0 && n != -ENODEV && !loop.stop)
				log_error("reading from /dev/fuse: error %d",
					  -n);
			loop.stop = true;
			thread_end(used, true);
			break;
		}
		if (n <= 0)
			continue;
		got_request();
		fuse_session_process_buf(loop.session, &buf);
		if (!wait_again()) {
			thread_end(used, false);
			break;
		}
	}
	free(buf.mem);
	return NULL;
}

static void on_wake(int signal_number)
{
	(void)signal_number;
}

/* A thread may look at `stop`, and then begin to wait: so they are woken
 * until all have ended. */
static void end_threads(void)
{
	struct timespec until;

	while (loop.threads > 0) {
		for (unsigned i = 0; i < LOOP_THREADS_MAX; i++) {
			if (loop.used[i])
				pthread_kill(loop.ids[i], SIGUSR2);
		}
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 10000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		pthread_cond_timedwait(&loop.ended, &loop.lock, &until);
	}
}

int loop_run(struct fuse_session *session)
{
	struct sigaction action = {.sa_handler = on_wake};

	sigaction(SIGUSR2, &action, NULL);
	pthread_mutex_lock(&loop.lock);
	loop.session = session;

	int error = start_thread();

	while (!error && !loop.stop)
		pthread_cond_wait(&loop.ended, &loop.lock);
	end_threads();
	pthread_mutex_unlock(&loop.lock);
	return error;
}

void loop_stop(void)
{
	pthread_mutex_lock(&loop.lock);
	loop.stop = true;
	pthread_cond_signal(&loop.ended);
	pthread_mutex_unlock(&loop.lock);
}
