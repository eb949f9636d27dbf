/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TESTS_CACHE_MODEL_H
#define PAGEFS_TESTS_CACHE_MODEL_H

/*
 * A name space in memory, to which the same random changes are made as to a
 * cache, and with which the cache is then compared, name for name and byte for
 * byte.
 */

#include "tests/cache/fixture.h"

#define MODEL_NODES 256
#define MODEL_KEY 128

enum model_type {
	MODEL_NONE,
	MODEL_FILE,
	MODEL_DIR,
	MODEL_SYMLINK
};

struct model_node {
	enum model_type type;
	char key[MODEL_KEY];
	uint64_t seed; /* FILE: bytes; SYMLINK: its target */
	size_t len;
};

struct model {
	struct model_node nodes[MODEL_NODES];
	uint64_t random; /* state */
	uint64_t seeds;
};

void model_init(struct model *model, uint64_t seed);
uint64_t model_random(struct model *model, uint64_t below);
struct model_node *model_find(struct model *model, const char *key);

/* One random change, to both; outcomes must agree. */
void model_step(struct model *model, struct fixture *fixture);
/* The cache has exactly these names, with these bytes. */
void model_compare(struct model *model, struct fixture *fixture);

#endif
