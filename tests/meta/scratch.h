/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TESTS_META_SCRATCH_H
#define PAGEFS_TESTS_META_SCRATCH_H

/*
 * Two empty directories for an index, and short ways to fill it.  Everything
 * asserts through cmocka, so only a test's own thread may call it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "meta/meta.h"

#define SCRATCH_PATH 256

struct scratch {
	char root[64];
	char memory[SCRATCH_PATH];
	char disk[SCRATCH_PATH];
	struct meta *meta; /* NULL while closed */
};

/* cmocka's setup and teardown: *state is a struct scratch, not open. */
int scratch_setup(void **state);
int scratch_teardown(void **state);

/* Opens the index, and takes what comes (REBUILD is answered). */
int scratch_open(struct scratch *s);
/* The same without a disk tier. */
int scratch_open_memory(struct scratch *s);
void scratch_close(struct scratch *s);

struct meta_txn *scratch_read(struct scratch *s);
struct meta_txn *scratch_write(struct scratch *s);
void scratch_commit(struct meta_txn *txn);

/* A plausible entry of a file. */
struct meta_entry scratch_entry(uint64_t object, uint64_t clock);
/* A page as a put leaves it: name, object, chunk in memory. */
void scratch_put(struct meta_txn *txn, uint64_t dir, const char *name,
		 uint64_t object, uint64_t clock);

/* Files of the index. */
void scratch_path(struct scratch *s, bool disk, const char *name, char *ret);
uint64_t scratch_file_bytes(const char *path);
void scratch_file_write(const char *path, uint64_t offset, const void *bytes,
			size_t len);

/* splitmix64: the same numbers each time. */
uint64_t scratch_random(uint64_t *state);

#endif
