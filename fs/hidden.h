/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_HIDDEN_H
#define PAGEFS_FS_HIDDEN_H

/*
 * The names that the kernel was told not to be there because the negative
 * cache hides them, until their time is over: the negative cache itself knows
 * hashes only, and `pagefs clear` must show them again at once.  Bounded: when
 * HIDDEN_MAX names are remembered, the kernel is not given more to remember.
 * Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hidden;

#define HIDDEN_MAX 65536u

int hidden_new(struct hidden **ret);
void hidden_free(struct hidden *hidden);
/* The kernel is about to be told.  False: it should not remember it. */
bool hidden_add(struct hidden *hidden, uint64_t dir, const char *name,
		size_t len, uint64_t now_ns, uint64_t ttl_ns);
/* Calls `each` with all names whose time is not over, and forgets them. */
void hidden_take(struct hidden *hidden, uint64_t now_ns,
		 void (*each)(void *arg, uint64_t dir, const char *name,
			      size_t len),
		 void *arg);

#endif
