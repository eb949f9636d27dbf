/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_HOLDERS_H
#define PAGEFS_TOOLS_HOLDERS_H

/*
 * Which processes keep a mount busy, as far as /proc shows them to the caller
 * (root sees all, others their own). It asks no file of the mount, so it does
 * not wait for a daemon. One thread.
 */

#include <sys/types.h>

struct holder {
	pid_t pid;
	const char *program; /* as ps shows it */
	const char *how;     /* "open file", "current directory", ... */
	const char *path;    /* what it holds */
};

/* Calls `each` once for each process, with the first thing found of it; the
 * caller itself is left out. Processes that have files mapped and nothing else
 * are looked for only when there is no other. Returns how many there were. */
unsigned holders_each(const char *mount,
		      void (*each)(void *arg, const struct holder *holder),
		      void *arg);

#endif
