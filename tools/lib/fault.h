/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_LIB_FAULT_H
#define PAGEFS_TOOLS_LIB_FAULT_H

/*
 * Places where a test may make an operation fail. The code asks
 *
 *	int error = fault_point("store.pwrite");
 *	if (error)
 *		return error;
 *
 * Always compiled in: where nothing is armed this is one relaxed load. Points
 * are named <folder>.<what>. Any thread may call anything here.
 *
 * The daemon's are armed by the environment variable PAGEFS_FAULTS, which is
 * read once, at the first fault_point or by fault_load: a list of
 *
 *	name:nth:error	the nth call fails, counted from 1
 *	name:every:error	each call fails
 *	name:every/N:error	each Nth call fails
 *
 * separated by commas; the error is a name (EIO) or a number, EIO if left out.
 */

#include <stddef.h>
#include <stdint.h>

/* For `nth`: every call. */
#define FAULT_EVERY 0

/* The longest name, and how many points can be armed at once. */
#define FAULT_NAME_MAX 63
#define FAULT_POINTS_MAX 64

/* 0, or the -Exxx that a test wants here. */
int fault_point(const char *name);

/* The nth call of fault_point(name) from now, counted from 1 (FAULT_EVERY:
 * each), returns -error; `error` is a positive errno. -ENOSPC: too many
 * points; -ENAMETOOLONG; -EINVAL. Arming a name again starts its count anew. */
int fault_arm(const char *name, uint64_t nth, int error);

/* Each call whose count is a multiple of `period` fails. */
int fault_arm_periodic(const char *name, uint64_t period, int error);

/* Disarms the point, or all of them; their counts are gone then. */
void fault_disarm(const char *name);
void fault_disarm_all(void);

/* How often an armed point was passed, and how often it failed. */
uint64_t fault_calls(const char *name);
uint64_t fault_hits(const char *name);

/* Arms from a list in the form above. -EINVAL: it could not be read; what came
 * before the mistake is armed. */
int fault_load(const char *list);

#endif
