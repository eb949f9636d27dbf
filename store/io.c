/* SPDX-License-Identifier: Apache-2.0 */
#include "store/io.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "store/io_engine.h"
#include "tools/lib/clock.h"
#include "tools/lib/fault.h"
#include "tools/lib/log.h"

/*
 * A request's way:
 *
 *	submit -> WAITING -> STARTED -> (settled)
 *	             |        ^   |
 *	             v        |   v
 *	         (settled)    HELD       cut short or refused for a moment:
 *again
 *
 * WAITING requests that pass their deadline settle at once; the others are only
 * answered, and settle when the engine gives them back.  Submitters only add to
 * the queues and wake the ring's thread when it sleeps, so all that gathers
 * while it works leaves as one submission.
 */
enum state {
	WAITING = 1,
	STARTED
};

/* A write goes before reads when so many have gone before it. */
#define PASSED_OVER_MAX 64

/* A request that the kernel has no memory for is tried again each millisecond,
 * so often. */
#define TRIES_MAX 5000

struct queue {
	struct io_request *first, **last;
};

struct registration {
	const struct io_range *ranges;
	unsigned count;
	uint64_t epoch;
	int result;
	bool done;
};

/* Memory that is to be taken out of the registered buffers before the next
 * request starts; past so many, all of them. */
#define FORGOTTEN_MAX 32u

struct forgotten {
	struct {
		void *start;
		size_t len_bytes;
	} ranges[FORGOTTEN_MAX];
	unsigned count; /* FORGOTTEN_MAX + 1: all */
};

struct io {
	const struct io_engine *engine; /* fixed once io_open has returned */
	void *engine_state;
	enum io_mode mode;
	unsigned depth;
	unsigned write_depth; /* of these, so that a read finds room */
	pthread_t thread;

	/* Owned by the ring's thread. */
	struct queue held;

	/* Shared, guarded by `lock`. */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* opened, or a registration is done */
	struct queue reads, writes, rejected;
	struct list deadlines; /* of all that are not answered, soonest first */
	unsigned in_flight, writes_in_flight;
	unsigned passed_over; /* reads started since a write last was */
	uint64_t sleep_until_ns;
	bool asleep;
	bool closing;
	bool stopped; /* the ring's thread takes nothing any more */
	bool opened;
	int open_error;
	struct registration *registration;
	struct forgotten forgotten;
	uint64_t epoch; /* calls of io_forget() */
	struct io_stats stats;
};

static void queue_init(struct queue *queue)
{
	queue->first = NULL;
	queue->last = &queue->first;
}

static void queue_push(struct queue *queue, struct io_request *request)
{
	request->next = NULL;
	*queue->last = request;
	queue->last = &request->next;
}

static struct io_request *queue_pop(struct queue *queue)
{
	struct io_request *request = queue->first;

	if (!request)
		return NULL;
	queue->first = request->next;
	if (!queue->first)
		queue->last = &queue->first;
	return request;
}

static bool queue_remove(struct queue *queue, struct io_request *request)
{
	for (struct io_request **at = &queue->first; *at; at = &(*at)->next) {
		if (*at != request)
			continue;
		*at = request->next;
		if (queue->last == &request->next)
			queue->last = at;
		return true;
	}
	return false;
}

static bool is_write(const struct io_request *request)
{
	return request->operation != IO_READ;
}

/* Deadlines come nearly in order, each later than the last by what the sizes
 * differ, so the place is found from the end. */
static void add_deadline(struct io *io, struct io_request *request)
{
	struct list *place = io->deadlines.prev;

	list_init(&request->notes.deadline);
	if (request->deadline_ns == 0)
		return;
	while (place != &io->deadlines &&
	       list_entry(place, struct io_request, notes.deadline)
			       ->deadline_ns > request->deadline_ns)
		place = place->prev;
	list_insert_after(place, &request->notes.deadline);
}

static uint64_t next_deadline_ns(const struct io *io)
{
	if (list_empty(&io->deadlines))
		return UINT64_MAX;
	return list_first(&io->deadlines, struct io_request, notes.deadline)
		->deadline_ns;
}

static void settle(struct io_request *request)
{
	if (request->release)
		request->release(request->owner);
	request->settled(request);
}

static void answer(struct io_request *request, int64_t res)
{
	if (request->notes.answered)
		return;
	request->notes.answered = true;
	request->done(request, res);
}

/* ---- the ring's thread ---- */

static void finish(struct io *io, struct io_request *request, int64_t res)
{
	pthread_mutex_lock(&io->lock);
	list_remove(&request->notes.deadline);
	io->in_flight--;
	if (is_write(request))
		io->writes_in_flight--;
	switch (request->operation) {
	case IO_READ:
		io->stats.reads++;
		io->stats.reads_fixed += request->notes.fixed;
		io->stats.bytes_read += res > 0 ? (uint64_t)res : 0;
		break;
	case IO_WRITE:
	case IO_WRITE_VECTOR:
		io->stats.writes++;
		io->stats.bytes_written += res > 0 ? (uint64_t)res : 0;
		break;
	case IO_SYNC:
		io->stats.syncs++;
		break;
	case IO_ALLOCATE:
		break;
	}
	pthread_mutex_unlock(&io->lock);
	answer(request, res);
	settle(request);
}

static void hold(struct io *io, struct io_request *request, uint64_t until_ns)
{
	request->notes.held_until_ns = until_ns;
	queue_push(&io->held, request);
}

/* Drops the first len_bytes of a vector write. */
static void advance_vector(struct io_request *request, size_t len_bytes)
{
	struct iovec *vector = request->data;

	while (request->vector_count > 1 && len_bytes >= vector->iov_len) {
		len_bytes -= vector->iov_len;
		vector++;
		request->vector_count--;
	}
	vector->iov_base = (char *)vector->iov_base + len_bytes;
	vector->iov_len -= len_bytes;
	request->data = vector;
}

/* What a test wants to happen to a request that has moved `res` bytes. */
static int64_t inject(const struct io_request *request, int64_t res)
{
	int error = 0;

	switch (request->operation) {
	case IO_READ:
		error = fault_point("io.read");
		if (res > 1 && fault_point("io.read.short"))
			res /= 2;
		break;
	case IO_WRITE:
	case IO_WRITE_VECTOR:
		error = fault_point("io.write");
		if (res > 1 && fault_point("io.write.short"))
			res /= 2;
		break;
	case IO_SYNC:
		error = fault_point("io.sync");
		break;
	case IO_ALLOCATE:
		error = fault_point("io.allocate");
		break;
	}
	return error ? error : res;
}

static uint64_t injected_delay_ns(const struct io_request *request)
{
	const char *name = "io.write.late";

	if (request->operation == IO_READ)
		name = "io.read.late";
	else if (request->operation == IO_SYNC)
		name = "io.sync.late";
	else if (request->operation == IO_ALLOCATE)
		return 0;
	return (uint64_t)-fault_point(name) * CLOCK_NS_PER_MS;
}

/* Resumes a request cut short at the last whole block, so that O_DIRECT takes
 * it; where that brings nothing more, the file ends there. */
static void complete_part(struct io *io, struct io_request *request,
			  int64_t res)
{
	uint32_t resumed = io_resume_bytes(request);
	uint32_t before = request->notes.moved_bytes;
	uint32_t moved = resumed + (uint32_t)res;

	if (moved >= request->len_bytes || request->notes.answered) {
		finish(io, request, moved);
		return;
	}
	if (moved <= before) {
		finish(io, request,
		       is_write(request) ? (int64_t)-EIO : (int64_t)before);
		return;
	}
	request->notes.moved_bytes = moved;
	if (request->operation == IO_WRITE_VECTOR)
		advance_vector(request, io_resume_bytes(request) - resumed);
	hold(io, request, 0);
}

static void complete(struct io *io, struct io_request *request)
{
	int64_t res = inject(request, request->notes.res);

	if (res == -EINTR ||
	    (res == -EAGAIN && request->notes.tries < TRIES_MAX)) {
		if (res == -EAGAIN)
			request->notes.tries++;
		if (!request->notes.answered) {
			hold(io, request,
			     res == -EINTR
				     ? 0
				     : clock_monotonic_ns() + CLOCK_NS_PER_MS);
			return;
		}
	}
	if (res < 0 || request->operation == IO_SYNC ||
	    request->operation == IO_ALLOCATE)
		finish(io, request, res);
	else
		complete_part(io, request, res);
}

/* Answers whoever has waited too long.  `done` runs without the lock. */
static void answer_late(struct io *io, uint64_t now_ns)
{
	pthread_mutex_lock(&io->lock);
	while (next_deadline_ns(io) <= now_ns) {
		struct io_request *request = list_first(
			&io->deadlines, struct io_request, notes.deadline);
		bool waiting = request->notes.state == WAITING;

		list_remove(&request->notes.deadline);
		io->stats.timeouts++;
		if (waiting)
			queue_remove(is_write(request) ? &io->writes
						       : &io->reads,
				     request);
		pthread_mutex_unlock(&io->lock);
		answer(request, -ETIMEDOUT);
		if (waiting)
			settle(request);
		pthread_mutex_lock(&io->lock);
	}
	pthread_mutex_unlock(&io->lock);
}

/* Gives those that were held back and are due to the engine; returns when the
 * next one is.  One that was answered meanwhile moves nothing any more, unless
 * a test wants a disk that is slow. */
static uint64_t start_held(struct io *io, uint64_t now_ns)
{
	struct queue held = io->held;
	struct io_request *request;
	uint64_t next_ns = UINT64_MAX;

	if (!held.first)
		return next_ns;
	queue_init(&io->held);
	while ((request = queue_pop(&held))) {
		if (request->notes.held_until_ns <= now_ns) {
			io->engine->start(io->engine_state, request);
			continue;
		}
		if (request->notes.held_until_ns < next_ns)
			next_ns = request->notes.held_until_ns;
		queue_push(&io->held, request);
	}
	return next_ns;
}

/* The next request that may start, or NULL.  Called with the lock held. */
static struct io_request *take_next(struct io *io)
{
	bool write_may =
		io->writes.first && io->writes_in_flight < io->write_depth;
	struct io_request *request;

	if (io->in_flight >= io->depth)
		return NULL;
	if (io->reads.first &&
	    !(write_may && io->passed_over >= PASSED_OVER_MAX)) {
		request = queue_pop(&io->reads);
		if (io->writes.first)
			io->passed_over++;
	} else if (write_may) {
		request = queue_pop(&io->writes);
		io->writes_in_flight++;
		io->passed_over = 0;
	} else {
		return NULL;
	}
	io->in_flight++;
	request->notes.state = STARTED;
	return request;
}

/* Could take_next take one of this kind?  Called with the lock held. */
static bool has_room(const struct io *io, const struct io_request *request)
{
	return io->in_flight < io->depth &&
	       (!is_write(request) || io->writes_in_flight < io->write_depth);
}

static void forget(struct io *io, const struct forgotten *forgotten)
{
	if (!forgotten->count || !io->engine->forget)
		return;
	if (forgotten->count > FORGOTTEN_MAX) {
		io->engine->forget(io->engine_state, NULL, 0);
		return;
	}
	for (unsigned i = 0; i < forgotten->count; i++)
		io->engine->forget(io->engine_state, forgotten->ranges[i].start,
				   forgotten->ranges[i].len_bytes);
}

/* A request for memory that has taken the place of what is forgotten came
 * after that, so whoever sees the one sees the other. */
static void start_waiting(struct io *io, uint64_t now_ns)
{
	struct forgotten forgotten;
	struct io_request *request;
	struct queue taken;

	queue_init(&taken);
	pthread_mutex_lock(&io->lock);
	while ((request = take_next(io)))
		queue_push(&taken, request);
	if (taken.first)
		io->stats.submissions++;
	forgotten.count = io->forgotten.count;
	if (forgotten.count)
		forgotten = io->forgotten;
	io->forgotten.count = 0;
	pthread_mutex_unlock(&io->lock);
	forget(io, &forgotten);

	while ((request = queue_pop(&taken))) {
		uint64_t delay_ns = injected_delay_ns(request);

		if (delay_ns > 0)
			hold(io, request, now_ns + delay_ns);
		else
			io->engine->start(io->engine_state, request);
	}
}

static void reject(struct io *io)
{
	struct io_request *request;

	for (;;) {
		pthread_mutex_lock(&io->lock);
		request = queue_pop(&io->rejected);
		pthread_mutex_unlock(&io->lock);
		if (!request)
			return;
		answer(request, -ESHUTDOWN);
		settle(request);
	}
}

static void register_ranges(struct io *io)
{
	struct registration *registration;
	const char *why = NULL;

	bool stale;

	pthread_mutex_lock(&io->lock);
	registration = io->registration;
	stale = registration && registration->epoch != io->epoch;
	pthread_mutex_unlock(&io->lock);
	if (!registration)
		return;
	/* What is forgotten from here on is taken out again before anything
	 * uses it. */
	if (stale)
		registration->result = -ESTALE;
	else if (io->engine->register_ranges)
		registration->result = (int)io->engine->register_ranges(
			io->engine_state, registration->ranges,
			registration->count, &why);
	pthread_mutex_lock(&io->lock);
	if (!stale)
		io->stats.fixed_buffers = registration->result > 0;
	if (!stale && (why || io->engine->register_ranges))
		io->stats.why = why;
	io->registration = NULL;
	registration->done = true;
	pthread_cond_broadcast(&io->changed);
	pthread_mutex_unlock(&io->lock);
}

/* Whether the ring's thread may end; if not, it is asleep from now on. */
static bool fall_asleep(struct io *io, uint64_t *until_ns)
{
	bool end, work;

	pthread_mutex_lock(&io->lock);
	if (next_deadline_ns(io) < *until_ns)
		*until_ns = next_deadline_ns(io);
	work = io->rejected.first || io->registration || io->forgotten.count ||
	       (io->reads.first && has_room(io, io->reads.first)) ||
	       (io->writes.first && has_room(io, io->writes.first));
	end = io->closing && io->in_flight == 0 && !io->reads.first &&
	      !io->writes.first && !work;
	if (work)
		*until_ns = 0;
	io->stopped = end;
	io->asleep = !end;
	io->sleep_until_ns = *until_ns;
	pthread_mutex_unlock(&io->lock);
	return end;
}

static int64_t timeout_ns(uint64_t until_ns)
{
	uint64_t now_ns;

	if (until_ns == UINT64_MAX)
		return -1;
	now_ns = clock_monotonic_ns();
	if (until_ns <= now_ns)
		return 0;
	if (until_ns - now_ns > INT64_MAX)
		return INT64_MAX;
	return (int64_t)(until_ns - now_ns);
}

static bool step(struct io *io)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct io_request *finished;
	uint64_t until_ns;

	answer_late(io, now_ns);
	reject(io);
	register_ranges(io);
	start_waiting(io, now_ns);
	until_ns = start_held(io, now_ns);
	if (fall_asleep(io, &until_ns))
		return false;
	finished = io->engine->wait(io->engine_state, timeout_ns(until_ns));

	pthread_mutex_lock(&io->lock);
	io->asleep = false;
	pthread_mutex_unlock(&io->lock);
	while (finished) {
		struct io_request *request = finished;

		finished = request->next;
		complete(io, request);
	}
	return true;
}

static const char *why_no_ring(int error)
{
	switch (error) {
	case -ENOSYS:
		return "this kernel has no io_uring (or a seccomp filter hides "
		       "it)";
	case -EPERM:
		return "io_uring is forbidden by kernel.io_uring_disabled or a "
		       "seccomp filter";
	case -ENOMEM:
		return "io_uring has no memory: on this kernel it counts "
		       "against memlock; raise it with `ulimit -l unlimited` "
		       "or LimitMEMLOCK=infinity";
	case -EMFILE:
	case -ENFILE:
		return "io_uring gets no file descriptor; raise `ulimit -n`";
	case -EOPNOTSUPP:
		return "this kernel's io_uring is too old (5.11 is needed)";
	default:
		return "io_uring can't be set up";
	}
}

static int open_engine(struct io *io)
{
	int error = 0;

	io->stats.why = "turned off";
	if (io->mode == IO_AUTO) {
		io->engine = &io_ring_engine;
		error = io->engine->open(io->depth, &io->engine_state);
		if (!error) {
			io->stats.why = NULL;
			return 0;
		}
		io->stats.why = why_no_ring(error);
	}
	if (error)
		log_warning("disk: requests go through threads with pread and "
			    "pwrite: %s (%s)",
			    io->stats.why, strerror(-error));
	else
		log_info("disk: requests go through threads with pread and "
			 "pwrite: io_uring is turned off");
	io->engine = &io_threads_engine;
	return io->engine->open(io->depth, &io->engine_state);
}

static void *run(void *arg)
{
	struct io *io = arg;
	int error = open_engine(io);

	pthread_setname_np(pthread_self(), "pagefs-io");
	pthread_mutex_lock(&io->lock);
	io->stats.engine = io->engine->name;
	io->open_error = error;
	io->opened = true;
	pthread_cond_broadcast(&io->changed);
	pthread_mutex_unlock(&io->lock);
	if (error)
		return NULL;
	while (step(io))
		;
	io->engine->close(io->engine_state);
	return NULL;
}

/* ---- any thread ---- */

static void io_free(struct io *io)
{
	pthread_cond_destroy(&io->changed);
	pthread_mutex_destroy(&io->lock);
	free(io);
}

int io_open(const struct io_config *config, struct io **ret)
{
	struct io *io = calloc(1, sizeof(*io));
	int error;

	if (!io)
		return -ENOMEM;
	io->mode = config->mode;
	io->depth = config->depth ? config->depth : 32;
	io->write_depth = io->depth / 4 ? io->depth / 4 : 1;
	queue_init(&io->held);
	queue_init(&io->reads);
	queue_init(&io->writes);
	queue_init(&io->rejected);
	list_init(&io->deadlines);
	pthread_mutex_init(&io->lock, NULL);
	pthread_cond_init(&io->changed, NULL);
	error = pthread_create(&io->thread, NULL, run, io);
	if (error) {
		io_free(io);
		return -error;
	}
	pthread_mutex_lock(&io->lock);
	while (!io->opened)
		pthread_cond_wait(&io->changed, &io->lock);
	error = io->open_error;
	pthread_mutex_unlock(&io->lock);
	if (error) {
		pthread_join(io->thread, NULL);
		io_free(io);
		return error;
	}
	*ret = io;
	return 0;
}

void io_close(struct io *io)
{
	if (!io)
		return;
	pthread_mutex_lock(&io->lock);
	io->closing = true;
	/* With the lock: once it is free, the engine may go. */
	io->engine->wake(io->engine_state);
	pthread_mutex_unlock(&io->lock);
	pthread_join(io->thread, NULL);
	io_free(io);
}

int io_register(struct io *io, const struct io_range *ranges, unsigned count,
		uint64_t epoch)
{
	struct registration registration = {
		.ranges = ranges, .count = count, .epoch = epoch};

	assert(!pthread_equal(pthread_self(), io->thread));
	pthread_mutex_lock(&io->lock);
	while (io->registration && !io->closing)
		pthread_cond_wait(&io->changed, &io->lock);
	if (io->closing) {
		pthread_mutex_unlock(&io->lock);
		return 0;
	}
	io->registration = &registration;
	io->engine->wake(io->engine_state);
	while (!registration.done)
		pthread_cond_wait(&io->changed, &io->lock);
	pthread_mutex_unlock(&io->lock);
	return registration.result;
}

void io_forget(struct io *io, void *start, size_t len_bytes)
{
	struct forgotten *forgotten = &io->forgotten;

	pthread_mutex_lock(&io->lock);
	io->epoch++;
	if (forgotten->count < FORGOTTEN_MAX) {
		forgotten->ranges[forgotten->count].start = start;
		forgotten->ranges[forgotten->count].len_bytes = len_bytes;
	}
	if (forgotten->count <= FORGOTTEN_MAX)
		forgotten->count++;
	/* Until the kernel has let go of the old memory, it is used twice. */
	if (io->asleep && io->stats.fixed_buffers) {
		io->asleep = false;
		io->engine->wake(io->engine_state);
	}
	pthread_mutex_unlock(&io->lock);
}

uint64_t io_epoch(struct io *io)
{
	uint64_t epoch;

	pthread_mutex_lock(&io->lock);
	epoch = io->epoch;
	pthread_mutex_unlock(&io->lock);
	return epoch;
}

void io_submit(struct io *io, struct io_request **requests, unsigned count)
{
	bool wake = false, stopped;

	pthread_mutex_lock(&io->lock);
	stopped = io->stopped;
	for (unsigned i = 0; i < count && !stopped; i++) {
		struct io_request *request = requests[i];

		request->notes = (struct io_notes){.state = WAITING};
		list_init(&request->notes.deadline);
		if (io->closing) {
			queue_push(&io->rejected, request);
			wake = true;
			continue;
		}
		add_deadline(io, request);
		queue_push(is_write(request) ? &io->writes : &io->reads,
			   request);
		wake |= has_room(io, request);
	}
	wake |= next_deadline_ns(io) < io->sleep_until_ns;
	if (wake && io->asleep) {
		io->asleep = false;
		io->engine->wake(io->engine_state);
	}
	pthread_mutex_unlock(&io->lock);

	for (unsigned i = 0; i < count && stopped; i++) {
		requests[i]->notes = (struct io_notes){.state = WAITING};
		answer(requests[i], -ESHUTDOWN);
		settle(requests[i]);
	}
}

void io_get_stats(struct io *io, struct io_stats *ret)
{
	pthread_mutex_lock(&io->lock);
	*ret = io->stats;
	ret->in_flight = io->in_flight;
	pthread_mutex_unlock(&io->lock);
}
