/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_STORE_IO_ENGINE_H
#define PAGEFS_STORE_IO_ENGINE_H

/*
 * What moves the bytes for io.c: the kernel's ring, or threads.  Everything
 * here but wake() is called by the ring's thread alone (which also opens and
 * closes the engine: a ring belongs to the thread that made it).  An engine
 * knows nothing of deadlines, order or retries: it moves what it is given once,
 * and says how that went in notes.res.
 */

#include "store/io.h"

struct io_engine {
	const char *name;
	/* -errno: this engine can't be had here. */
	int (*open)(unsigned depth, void **ret);
	/* Everything started has come back before. */
	void (*close)(void *engine);
	/* Takes a request; never fails.  May wait with it until wait(). */
	void (*start)(void *engine, struct io_request *request);
	/* Waits for completions, a wake-up, or the end of the time (negative:
	 * without end), and returns what has come back, linked by `next`. */
	struct io_request *(*wait)(void *engine, int64_t timeout_ns);
	/* Ends a wait, the present or the next one.  Any thread. */
	void (*wake)(void *engine);
	/* As io_register(); NULL where there is nothing to gain. */
	unsigned (*register_ranges)(void *engine, const struct io_range *ranges,
				    unsigned count, const char **ret_why);
	/* As io_forget(); start NULL: all of them. */
	void (*forget)(void *engine, const void *start, size_t len_bytes);
};

extern const struct io_engine io_ring_engine;
extern const struct io_engine io_threads_engine;

/* The part of a request that is still to be moved: all of it, unless it was
 * cut short before.  Whole blocks, so that O_DIRECT takes it. */
static inline uint32_t io_resume_bytes(const struct io_request *request)
{
	return request->notes.moved_bytes & ~(uint32_t)4095;
}

#endif
