/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TESTS_CRASH_MODEL_H
#define PAGEFS_TESTS_CRASH_MODEL_H

/*
 * What a key may hold.  Each write has a generation, a number of its own, from
 * which its bytes follow; so bytes of another page, version or place never
 * pass.  A key's history goes from the last state that is sure to be on disk to
 * the last that was tried.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PAGE_MAX (2560u << 10)
#define HISTORY 48u

struct page_state {
	uint64_t generation; /* 0: the key is not there */
	uint32_t len;
	uint32_t kept;		   /* bytes of the generation; zeroes follow */
	uint64_t patch_generation; /* of what was written over it, or 0 */
	uint32_t patch_at, patch_len;
	bool durable; /* its bytes were once confirmed, under some name */
};

struct key_history {
	struct page_state states[HISTORY];
	size_t count;
	bool trying; /* the last one was not acknowledged */
};

uint64_t random_next(uint64_t *state);

/* A page of some size that follows from its generation. */
struct page_state page_of(uint64_t generation);
/* The bytes of the state: len of them. */
void page_fill(const struct page_state *state, uint8_t *ret);
/* found: what was read, len bytes; -1: no such file.  scratch: PAGE_MAX. */
bool page_is(const struct page_state *state, const uint8_t *found, ssize_t len,
	     uint8_t *scratch);
/* The whole file: its length, -1 when there is none (errno ENOENT), or -2 and
 * another errno.  ret has room for PAGE_MAX + 1. */
ssize_t page_read(const char *path, uint8_t *ret);

struct page_state *history_last(struct key_history *history);
/* One more is being tried. */
void history_try(struct key_history *history, const struct page_state *state);
/* The last state is on disk for good. */
void history_confirm(struct key_history *history);
/* Which state is it?  memory_is_gone: any of them may be; and none (-2 is
 * returned), where a version was in memory alone.  -1: it is none of them. */
int history_find(const struct key_history *history, bool memory_is_gone,
		 const uint8_t *found, ssize_t len, uint8_t *scratch);
/* What was found is what it holds now. */
void history_settle(struct key_history *history, int found);

#endif
