/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_STORE_IO_H
#define PAGEFS_STORE_IO_H

/*
 * The disk ring: asynchronous reads, writes and syncs, by io_uring where the
 * kernel has it, else by threads with pread and pwrite; the caller can't tell
 * which.  Requests of many threads that wait at the same time leave as one
 * submission.
 *
 * Each request has a deadline.  Past it `done` is called with -ETIMEDOUT, but
 * the kernel may still write to the buffer: `settled` is called when it no
 * longer can.  `done` always comes exactly once and before `settled`, which
 * comes exactly once too.  Both run on the ring's own thread (or the pool's):
 * they must not block and must not submit synchronously; they may io_submit().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct io;
struct io_request;

enum io_operation {
	IO_READ,
	IO_WRITE,
	IO_SYNC
};
enum io_mode {
	IO_AUTO,
	IO_URING_OFF
};

struct io_config {
	enum io_mode mode;
	unsigned depth; /* requests in flight at most; more wait in order */
};

/* Owned by the caller until `settled` has been called. */
struct io_request {
	enum io_operation operation;
	int fd;
	void *data; /* 4 KiB-aligned for O_DIRECT files */
	uint32_t len_bytes;
	uint64_t offset_bytes;
	uint64_t deadline_ns; /* on clock_monotonic_ns(); 0: none */
	/* res: bytes moved (short only at the end of file), or -errno. */
	void (*done)(struct io_request *request, int64_t res);
	void (*settled)(struct io_request *request);
	void *arg;		 /* the caller's */
	struct io_request *next; /* the ring's, while submitted */
	uint64_t opaque[4];	 /* the ring's, while submitted */
};

struct io_stats {
	const char *engine; /* "io_uring" or "threads" */
	const char *why;    /* why not io_uring, or why plain buffers */
	bool fixed_buffers;
	uint64_t reads, writes, syncs, submissions, timeouts;
	uint64_t bytes_read, bytes_written;
	unsigned in_flight;
};

/* 0 or -errno.  Falls back to threads by itself and logs one line why.
 * Starts threads: after the daemon has forked. */
int io_open(const struct io_config *config, struct io **ret);
/* Waits for everything submitted to settle. */
void io_close(struct io *io);

/* Registers address ranges as fixed buffers (up to 1 GiB each is what the
 * kernel takes; longer ones are split).  Requests that lie within one use it,
 * the rest plain buffers.  Failing (EINVAL for ranges of several files on
 * kernels before 6.18, ENOMEM under a small memlock limit) is no error: one
 * warning says the limit, the need and the command that raises it.  Replaces
 * what was registered before.  Returns how many ranges are registered. */
struct io_range {
	void *start;
	size_t len_bytes;
};
unsigned io_register(
	struct io *io, const struct io_range *ranges, unsigned count);

/* Never blocks; the queue is bounded only by what callers submit, each of
 * which bounds its own.  After io_close() has begun: -ESHUTDOWN by `done`. */
void io_submit(struct io *io, struct io_request **requests, unsigned count);

void io_get_stats(struct io *io, struct io_stats *ret);

#endif
