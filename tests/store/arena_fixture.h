/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TESTS_STORE_ARENA_FIXTURE_H
#define PAGEFS_TESTS_STORE_ARENA_FIXTURE_H

/*
 * An arena in a directory of its own on shared memory, and pages whose bytes
 * follow from their ids.
 */

#include "store/arena.h"

#define KIB(n) ((n)*1024u)
#define MIB(n) ((n)*1024u * 1024u)

struct arena_fixture {
	char dir[64];
	struct arena_config config;
	struct arena *arena;
};

/* Makes the directory and opens the arena; for cmocka's setup. */
int arena_fixture_setup(void **state);
int arena_fixture_teardown(void **state);
/* Without an arena: the test opens it. */
int arena_fixture_setup_closed(void **state);
/* Closes and opens again; what arena_open() said. */
int arena_fixture_reopen(struct arena_fixture *fixture, bool keep);
unsigned arena_fixture_files(const struct arena_fixture *fixture);

struct chunk_id chunk_of(uint64_t object);
void chunk_fill(void *data, uint32_t len_bytes, const struct chunk_id *id);
bool chunk_check(const void *data, uint32_t len_bytes,
		 const struct chunk_id *id);

/* Allocates (evicting where it must), fills, commits and unpins; what
 * arena_alloc() said. */
int chunk_put(struct arena *arena, const struct slot_class *class,
	      uint64_t object, slot_t *ret);
/* Frees victims for one slot of this class; how many there were. */
size_t chunk_evict(struct arena *arena, const struct slot_class *class);

#endif
