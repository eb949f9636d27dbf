/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_INVAL_H
#define PAGEFS_FS_INVAL_H

/*
 * Tells the kernel that what it remembers is out of date.  Doing so may wait
 * for a directory's lock, which a process holds while its own request waits
 * for us: so it is never done by a thread that serves a request, but by a few
 * threads here.  One of them works on one directory at a time, so that a slow
 * directory holds up only itself.
 *
 * Bounds: INVAL_NAMES_MAX names are queued in all; past that a directory is
 * noted as a whole, and all the names that the kernel knows in it are
 * invalidated.  Names and directories that are queued already are not queued
 * again.
 *
 * Threads: inval_*() from any; only inval_flush() waits.
 */

#include <stddef.h>
#include <stdint.h>

struct inval;
struct nodes;

#define INVAL_NAMES_MAX 65536u
#define INVAL_THREADS 4u

/* How the kernel is told; both take the kernel's number of the directory. */
struct inval_ops {
	void (*entry)(void *arg, uint64_t parent, const char *name, size_t len);
	void (*directory)(void *arg, uint64_t node);
	void *arg;
};

/* Starts the threads.  0 or -errno.  `nodes` translates directories. */
int inval_new(struct nodes *nodes, const struct inval_ops *ops,
	      struct inval **ret);
/* Drops what is queued (callbacks are called nevertheless), ends the
 * threads. */
void inval_free(struct inval *inval);

/* The entry of this name in `dir` (its object), and the directory's own
 * attributes and listing.  done (may be NULL) is called once the kernel knows,
 * from a thread that may not wait. */
void inval_name(struct inval *inval, uint64_t dir, const char *name, size_t len,
		void (*done)(void *arg), void *arg);
/* The attributes and listing of a directory alone. */
void inval_directory(struct inval *inval, uint64_t dir);
/* Waits until the kernel knows all that is queued now, or until deadline_ns:
 * whoever has it locked may be waiting for us.  Holds up the thread that asks;
 * not for requests that come often. */
void inval_flush(struct inval *inval, uint64_t deadline_ns);

struct inval_stats {
	uint64_t names, directories, overflows;
};
void inval_get_stats(struct inval *inval, struct inval_stats *ret);

#endif
