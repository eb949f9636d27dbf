/* SPDX-License-Identifier: Apache-2.0 */
#include "store/io_engine.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <liburing.h>

#include "tools/lib/fault.h"
#include "tools/lib/log.h"

#define FIXED_MAX 16384			  /* the kernel's limit */
#define FIXED_BYTES_MAX ((size_t)1 << 30) /* the kernel's, for one buffer */

#ifndef IORING_SETUP_COOP_TASKRUN
#define IORING_SETUP_COOP_TASKRUN (1U << 8)
#endif
#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif

/* A registered buffer; `index` is the kernel's. */
struct fixed {
	char *start;
	size_t len_bytes;
	size_t piece_bytes; /* as io_range's */
	unsigned index;
	bool kept;
};

/* Owned by the ring's thread; only event_fd is anybody's. */
struct ring {
	struct io_uring uring;
	int event_fd; /* others write to it to end a wait */
	bool event_armed;
	uint64_t event_value; /* the kernel reads event_fd into it */
	bool table_made;      /* the table of FIXED_MAX buffers */
	struct fixed *fixed;  /* in order of address */
	unsigned fixed_count;
	bool one_file; /* the kernel takes no buffer of several files */
	bool warned;
};

/* The best way the kernel has: completions are then worked off when the ring's
 * thread waits (6.1), or at its next system call (5.19), and not by an
 * interrupt of whatever it does. */
static int init_queue(unsigned entries, struct io_uring *ret)
{
	static const unsigned flags[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
		IORING_SETUP_COOP_TASKRUN,
		0,
	};
	int error = fault_point("io.ring.init");

	if (error)
		return error;
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		error = io_uring_queue_init(entries, ret, flags[i]);
		if (error != -EINVAL)
			break;
	}
	return error;
}

static void ring_close(void *engine)
{
	struct ring *ring = engine;

	io_uring_queue_exit(&ring->uring);
	close(ring->event_fd);
	free(ring->fixed);
	free(ring);
}

static int ring_open(unsigned depth, void **ret)
{
	struct ring *ring = calloc(1, sizeof(*ring));
	int error = -ENOMEM;

	if (!ring)
		return error;
	ring->event_fd = eventfd(0, EFD_CLOEXEC);
	if (ring->event_fd < 0) {
		error = -errno;
		goto err_free;
	}
	error = init_queue(depth + 1, &ring->uring);
	if (error)
		goto err_close_event;
	if (!(ring->uring.features & IORING_FEAT_EXT_ARG)) {
		error = -EOPNOTSUPP; /* before 5.11: waits take no time limit */
		goto err_exit_queue;
	}
	*ret = ring;
	return 0;

err_exit_queue:
	io_uring_queue_exit(&ring->uring);
err_close_event:
	close(ring->event_fd);
err_free:
	free(ring);
	return error;
}

/* The registered buffer that these bytes lie in, or NULL. */
static const struct fixed *find_fixed(const struct ring *ring, const char *data,
				      size_t len_bytes)
{
	unsigned low = 0, high = ring->fixed_count;
	const struct fixed *fixed;

	while (low < high) {
		unsigned middle = low + (high - low) / 2;

		if (ring->fixed[middle].start <= data)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return NULL;
	fixed = &ring->fixed[low - 1];
	if ((size_t)(data - fixed->start) > fixed->len_bytes ||
	    len_bytes > fixed->len_bytes - (size_t)(data - fixed->start))
		return NULL;
	return fixed;
}

static struct io_uring_sqe *get_entry(struct ring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);

	/* io.c never starts more than `depth`, and there is one more for the
	 * event. */
	assert(sqe);
	return sqe;
}

static void ring_start(void *engine, struct io_request *request)
{
	struct ring *ring = engine;
	struct io_uring_sqe *sqe = get_entry(ring);
	uint32_t resume = io_resume_bytes(request);
	uint64_t offset = request->offset_bytes + resume;
	char *data = (char *)request->data + resume;
	unsigned len = request->len_bytes - resume;
	const struct fixed *fixed = find_fixed(ring, data, len);

	request->notes.fixed = fixed;
	switch (request->operation) {
	case IO_READ:
		if (fixed)
			io_uring_prep_read_fixed(sqe, request->fd, data, len,
						 offset, (int)fixed->index);
		else
			io_uring_prep_read(sqe, request->fd, data, len, offset);
		break;
	case IO_WRITE:
		if (fixed)
			io_uring_prep_write_fixed(sqe, request->fd, data, len,
						  offset, (int)fixed->index);
		else
			io_uring_prep_write(sqe, request->fd, data, len,
					    offset);
		break;
	case IO_WRITE_VECTOR:
		io_uring_prep_writev(sqe, request->fd, request->data,
				     request->vector_count, offset);
		break;
	case IO_SYNC:
		io_uring_prep_fsync(sqe, request->fd, IORING_FSYNC_DATASYNC);
		break;
	case IO_ALLOCATE:
		io_uring_prep_fallocate(sqe, request->fd, 0, (off_t)offset,
					(off_t)len);
		break;
	}
	io_uring_sqe_set_data(sqe, request);
}

static void arm_event(struct ring *ring)
{
	struct io_uring_sqe *sqe;

	if (ring->event_armed)
		return;
	sqe = get_entry(ring);
	io_uring_prep_read(sqe, ring->event_fd, &ring->event_value,
			   sizeof(ring->event_value), 0);
	io_uring_sqe_set_data(sqe, NULL);
	ring->event_armed = true;
}

static struct io_request *take_completions(struct ring *ring)
{
	struct io_request *finished = NULL, **last = &finished;
	struct io_uring_cqe *cqe;
	unsigned head, count = 0;

	io_uring_for_each_cqe(&ring->uring, head, cqe)
	{
		struct io_request *request = io_uring_cqe_get_data(cqe);

		count++;
		if (!request) {
			ring->event_armed = false;
			continue;
		}
		request->notes.res = cqe->res;
		request->next = NULL;
		*last = request;
		last = &request->next;
	}
	io_uring_cq_advance(&ring->uring, count);
	return finished;
}

static struct io_request *ring_wait(void *engine, int64_t timeout_ns)
{
	static struct log_limit limit;
	struct ring *ring = engine;
	struct __kernel_timespec time = {
		.tv_sec = timeout_ns / 1000000000,
		.tv_nsec = timeout_ns % 1000000000,
	};
	struct io_uring_cqe *cqe;
	int error;

	arm_event(ring);
	error = io_uring_submit_and_wait_timeout(
		&ring->uring, &cqe, 1, timeout_ns < 0 ? NULL : &time, NULL);
	if (error < 0 && error != -ETIME && error != -EINTR) {
		/* Short of memory (-EAGAIN, -EBUSY): what was not taken stays
		 * in the ring, and goes with the next call. */
		log_limited(&limit, LOG_LEVEL_WARNING,
			    "io_uring_enter: %s; trying again",
			    strerror(-error));
		usleep(1000);
	}
	return take_completions(ring);
}

static void ring_wake(void *engine)
{
	struct ring *ring = engine;
	uint64_t one = 1;
	/* Fails only when 2^64 wake-ups are waiting. */
	ssize_t n = write(ring->event_fd, &one, sizeof(one));

	(void)n;
}

/* -errno.  Before 5.13 there are no tables that can be changed in part. */
static int make_table(struct ring *ring)
{
	struct iovec *empty;
	int error;

	if (ring->table_made)
		return 0;
	empty = calloc(FIXED_MAX, sizeof(*empty));
	if (!empty)
		return -ENOMEM;
	error = io_uring_register_buffers(&ring->uring, empty, FIXED_MAX);
	free(empty);
	if (error)
		return error;
	ring->table_made = true;
	return 0;
}

static int set_buffer(struct ring *ring, const struct fixed *fixed, bool on)
{
	struct iovec iov = {0};
	int n = on ? fault_point("io.ring.register") : 0;

	if (n)
		return n;
	if (on && fixed->piece_bytes && fixed->len_bytes > fixed->piece_bytes)
		n = fault_point("io.ring.several");
	if (n)
		return n;
	if (on)
		iov = (struct iovec){fixed->start, fixed->len_bytes};
	n = io_uring_register_buffers_update_tag(&ring->uring, fixed->index,
						 &iov, NULL, 1);
	return n < 0 ? n : 0;
}

static int compare_fixed(const void *a, const void *b)
{
	const struct fixed *left = a, *right = b;

	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	return 0;
}

/* Whole files, where a range is of several. */
static size_t buffer_bytes(const struct ring *ring,
			   const struct io_range *range)
{
	size_t piece = range->piece_bytes;

	if (!piece || piece > FIXED_BYTES_MAX)
		return FIXED_BYTES_MAX;
	return ring->one_file ? piece : FIXED_BYTES_MAX / piece * piece;
}

/* The ranges as buffers the kernel takes, in order. */
static struct fixed *split(const struct ring *ring,
			   const struct io_range *ranges, unsigned count,
			   size_t *ret_count)
{
	struct fixed *pieces;
	size_t n = 0;

	for (unsigned i = 0; i < count; i++)
		n += ranges[i].len_bytes / buffer_bytes(ring, &ranges[i]) + 1;
	pieces = calloc(n + 1, sizeof(*pieces));
	if (!pieces)
		return NULL;
	n = 0;
	for (unsigned i = 0; i < count; i++) {
		size_t done = 0, left = ranges[i].len_bytes;
		size_t most = buffer_bytes(ring, &ranges[i]);

		for (; left > 0; done += pieces[n - 1].len_bytes) {
			pieces[n].start = (char *)ranges[i].start + done;
			pieces[n].len_bytes = left < most ? left : most;
			pieces[n].piece_bytes = ranges[i].piece_bytes;
			pieces[n].kept = ranges[i].kept;
			left -= pieces[n++].len_bytes;
		}
	}
	qsort(pieces, n, sizeof(*pieces), compare_fixed);
	*ret_count = n;
	return pieces;
}

/* Gives pieces that were registered before and need not be again their index
 * (the others get FIXED_MAX), takes all others out of the kernel's table, and
 * marks in `used` the indexes that stay. */
static void keep_or_drop(struct ring *ring, struct fixed *pieces, size_t count,
			 bool *used)
{
	size_t at = 0;

	for (size_t i = 0; i < count; i++)
		pieces[i].index = FIXED_MAX;
	for (unsigned i = 0; i < ring->fixed_count; i++) {
		const struct fixed *old = &ring->fixed[i];

		while (at < count && pieces[at].start < old->start)
			at++;
		if (at < count && pieces[at].kept &&
		    pieces[at].start == old->start &&
		    pieces[at].len_bytes == old->len_bytes) {
			pieces[at].index = old->index;
			used[old->index] = true;
		} else {
			(void)set_buffer(ring, old, false);
		}
	}
}

static void warn_plain(int error, size_t need_bytes)
{
	struct rlimit limit = {0};
	char text[32] = "unlimited";

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (limit.rlim_cur != RLIM_INFINITY)
		snprintf(text, sizeof(text), "%" PRIu64 " KiB",
			 (uint64_t)limit.rlim_cur >> 10);
	if (error == -ENOMEM)
		log_warning("io_uring: cannot register the arena as fixed "
			    "buffers: %s; memlock is limited to %s, needed are "
			    "%zu KiB. Disk reads use plain buffers, which "
			    "costs a few %% of CPU. To raise the limit: "
			    "`ulimit -l unlimited` in the shell that mounts, "
			    "LimitMEMLOCK=infinity in a systemd unit",
			    strerror(-error), text, need_bytes >> 10);
	else
		log_warning("io_uring: cannot register the arena as fixed "
			    "buffers: %s; memlock is limited to "
			    "%s, needed are %zu KiB. Disk reads use plain "
			    "buffers, which costs a few %% of CPU",
			    strerror(-error), text, need_bytes >> 10);
}

/* Registers what is not registered yet; pieces that the kernel refuses are
 * left out.  Returns the first refusal, or 0.  Past a memlock limit the rest
 * would fail too, one slow call each. */
static int add_buffers(struct ring *ring, struct fixed *pieces, size_t *count,
		       const bool *used)
{
	unsigned free_index = 0;
	size_t kept = 0;
	int first = 0;

	for (size_t i = 0; i < *count; i++) {
		struct fixed piece = pieces[i];
		int error = 0;

		if (piece.index == FIXED_MAX) {
			while (free_index < FIXED_MAX && used[free_index])
				free_index++;
			piece.index = free_index;
			if (first == -ENOMEM)
				error = first;
			else if (free_index == FIXED_MAX)
				error = -E2BIG;
			else
				error = set_buffer(ring, &piece, true);
			if (!error)
				free_index++;
		}
		if (!first)
			first = error;
		if (!error)
			pieces[kept++] = piece;
	}
	*count = kept;
	return first;
}

/* How many of the ranges are registered from end to end. */
static unsigned count_whole(const struct ring *ring,
			    const struct io_range *ranges, unsigned count)
{
	unsigned whole = 0;

	for (unsigned i = 0; i < count; i++) {
		char *at = ranges[i].start, *end = at + ranges[i].len_bytes;
		const struct fixed *fixed;

		while (at < end && (fixed = find_fixed(ring, at, 1)) != NULL)
			at = fixed->start + fixed->len_bytes;
		whole += at == end;
	}
	return whole;
}

static bool several_files(const struct io_range *ranges, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (ranges[i].piece_bytes &&
		    ranges[i].len_bytes > ranges[i].piece_bytes)
			return true;
	return false;
}

/* 0, or the first refusal. */
static int change_table(struct ring *ring, const struct io_range *ranges,
			unsigned count)
{
	bool *used = calloc(FIXED_MAX, sizeof(*used));
	size_t pieces_count = 0;
	struct fixed *pieces = split(ring, ranges, count, &pieces_count);
	int error = -ENOMEM;

	if (used && pieces)
		error = make_table(ring);
	if (error) {
		free(pieces);
		pieces = NULL;
		pieces_count = 0;
	} else {
		keep_or_drop(ring, pieces, pieces_count, used);
		error = add_buffers(ring, pieces, &pieces_count, used);
	}
	free(ring->fixed);
	free(used);
	ring->fixed = pieces;
	ring->fixed_count = (unsigned)pieces_count;
	return error;
}

static const char *why_plain(int error)
{
	switch (error) {
	case -ENOMEM:
		return "memlock is limited";
	case -E2BIG:
		return "there are more buffers than the kernel takes";
	default:
		return "the kernel refused the range";
	}
}

static unsigned ring_register(void *engine, const struct io_range *ranges,
			      unsigned count, const char **ret_why)
{
	struct ring *ring = engine;
	size_t need = 0;
	int error;

	for (unsigned i = 0; i < count; i++)
		need += ranges[i].len_bytes;
	/* What refers to the old table has to be in the kernel before. */
	io_uring_submit(&ring->uring);
	error = change_table(ring, ranges, count);
	if (error == -EINVAL && !ring->one_file &&
	    several_files(ranges, count)) {
		ring->one_file = true;
		error = change_table(ring, ranges, count);
	}
	if (error) {
		*ret_why = why_plain(error);
		if (!ring->warned)
			warn_plain(error, need);
		ring->warned = true;
	}
	return count_whole(ring, ranges, count);
}

static void ring_forget(void *engine, const void *start, size_t len_bytes)
{
	struct ring *ring = engine;
	const char *from = start, *to = from + len_bytes;
	unsigned kept = 0;

	for (unsigned i = 0; i < ring->fixed_count; i++) {
		struct fixed *fixed = &ring->fixed[i];

		if (start && (fixed->start >= to ||
			      fixed->start + fixed->len_bytes <= from))
			ring->fixed[kept++] = *fixed;
		else
			(void)set_buffer(ring, fixed, false);
	}
	ring->fixed_count = kept;
}

const struct io_engine io_ring_engine = {
	.name = "io_uring",
	.open = ring_open,
	.close = ring_close,
	.start = ring_start,
	.wait = ring_wait,
	.wake = ring_wake,
	.register_ranges = ring_register,
	.forget = ring_forget,
};
