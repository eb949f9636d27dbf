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
 * comes exactly once too.  Both run on the ring's own thread, one at a time:
 * they must not block; they may io_submit().  Reads that wait for room go
 * before writes and syncs that do.
 *
 * For tests (tools/lib/fault.h): io.read, io.write, io.sync, io.allocate fail a
 * completion; io.read.short, io.write.short cut one in half; io.read.late,
 * io.write.late, io.sync.late hold a request back, as if the disk were slow,
 * for as many milliseconds as the fault's error number says: its bytes move
 * only then. io.ring.init and io.ring.register fail the set-up of the ring,
 * io.ring.several the registration of a range of several files.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/lib/list.h"

struct io;
struct io_request;

enum io_operation {
	IO_READ,
	IO_WRITE,
	IO_WRITE_VECTOR,
	IO_SYNC,
	IO_ALLOCATE, /* room for a write, so that it only moves bytes */
};
#define IO_VECTOR_MAX 1024 /* what the kernel takes */

enum io_mode {
	IO_AUTO,
	IO_URING_OFF
};

struct io_config {
	enum io_mode mode;
	unsigned depth; /* requests in flight at most; more wait in order */
};

/* The ring's notes on a request, while it is submitted. */
struct io_notes {
	struct list deadline;	/* ring's lock; in order of deadline_ns */
	uint64_t held_until_ns; /* ring's thread; not before this time */
	int64_t res;		/* engine's */
	uint32_t moved_bytes; /* ring's thread; of a read or write cut short */
	uint16_t tries;	      /* ring's thread; -EAGAIN so far */
	uint8_t state;	      /* ring's lock */
	bool fixed;	      /* engine's; into a registered buffer */
	bool answered;	      /* ring's thread; `done` has been called */
};

/* Owned by the caller until `settled` has been called; zero what is not set.
 * A vector write takes its pieces from the array of iovecs at `data`, which
 * may be changed while the request is submitted. */
struct io_request {
	enum io_operation operation;
	int fd;
	void *data;	       /* 4 KiB-aligned for O_DIRECT files */
	uint32_t len_bytes;    /* in all */
	uint32_t vector_count; /* iovecs, at most IO_VECTOR_MAX */
	uint64_t offset_bytes;
	uint64_t deadline_ns; /* on clock_monotonic_ns(); 0: none */
	/* res: bytes moved (short only at the end of file), or -errno. */
	void (*done)(struct io_request *request, int64_t res);
	void (*settled)(struct io_request *request);
	void *arg; /* the caller's */
	/* Called just before `settled`; bucket_read() keeps its file with it.
	 */
	void (*release)(void *owner);
	void *owner;
	struct io_request *next; /* the ring's, while submitted */
	struct io_notes notes;	 /* the ring's, while submitted */
};

struct io_stats {
	const char *engine; /* "io_uring" or "threads" */
	const char *why;    /* why not io_uring, or why plain buffers */
	bool fixed_buffers;
	uint64_t reads, writes, syncs, submissions, timeouts;
	uint64_t reads_fixed; /* of the reads: into registered buffers */
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
 * the rest plain buffers.  Where the kernel refuses ranges of several files
 * (EINVAL, before 6.18) each piece of a range is registered by itself, as far
 * as the table of 16,384 goes.  Failing (that, or ENOMEM under a small memlock
 * limit) is no error: one warning says the limit, the need and the command that
 * raises it.  Replaces what was registered before.  Returns how many ranges are
 * registered, or -ESTALE (nothing was changed): io_forget() has been called
 * since io_epoch() said `epoch`, so the ranges may be out of date.  Waits for
 * the ring's thread, which moves nothing while it pins (50 ms a GiB): not from
 * a callback. */
struct io_range {
	void *start;
	size_t len_bytes;
	size_t piece_bytes; /* a file's; 0: the range is of one file */
	bool kept; /* registered by the last call too, and the same memory is
		      mapped there still: it need not be pinned again */
};
int io_register(struct io *io, const struct io_range *ranges, unsigned count,
		uint64_t epoch);
/* Other memory is about to be mapped there, and nothing in flight refers to
 * what there is now: requests submitted from here on use no buffer registered
 * there.  Never blocks; any thread. */
void io_forget(struct io *io, void *start, size_t len_bytes);
uint64_t io_epoch(struct io *io);

/* Never blocks; the queue is bounded only by what callers submit, each of
 * which bounds its own.  After io_close() has begun: -ESHUTDOWN by `done`. */
void io_submit(struct io *io, struct io_request **requests, unsigned count);

void io_get_stats(struct io *io, struct io_stats *ret);

#endif
