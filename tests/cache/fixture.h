/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TESTS_CACHE_FIXTURE_H
#define PAGEFS_TESTS_CACHE_FIXTURE_H

/*
 * A cache on temporary directories, with or without a disk tier, and pages put
 * into it and read back as fs/ would.  One thread, unless a function says
 * otherwise; failures end the test (cmocka).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/cache.h"

struct fixture {
	char dir[64]; /* both directories are below it */
	char memory_dir[80], disk_dir[80];
	struct cache_config config; /* may be changed before a reopen */
	struct cache *cache;
};

/* 64 MiB of memory; a small disk cap. */
void fixture_open(struct fixture *fixture, bool disk);
/* The directories are made, nothing is opened. */
void fixture_prepare(struct fixture *fixture, bool disk);
/* Closes and opens again; keep_memory false: as after a reboot, but clean. */
void fixture_reopen(struct fixture *fixture, bool keep_memory);
/* Opens, and says why if that fails. */
void fixture_start(struct fixture *fixture);
/* Closes (if open) and removes the directories. */
void fixture_close(struct fixture *fixture);
/* Deletes what is in a directory, and it. */
void fixture_remove(const char *dir);
void fixture_copy(const char *from, const char *to);

/* The bytes that belong to (seed, offset): any page's, so that bytes of
 * another page or place never pass. */
void fixture_fill(void *data, size_t len, uint64_t seed, uint64_t offset);

/* A name in the root directory, or by its full key: its directory exists. */
struct cache_name fixture_name(struct fixture *fixture, const char *key);
struct cache_creator fixture_creator(void);

/* As a client would: create (or truncate), write, close.  0 or -errno. */
int fixture_try_put(struct fixture *fixture, const char *key, uint64_t seed,
		    size_t len);
void fixture_put(struct fixture *fixture, const char *key, uint64_t seed,
		 size_t len);
void fixture_mkdir(struct fixture *fixture, const char *key);
int fixture_unlink(struct fixture *fixture, const char *key);
int fixture_rename(struct fixture *fixture, const char *from, const char *to,
		   unsigned flags);

/* Opens and reads the whole page: 0 when its bytes are those of (seed, len); a
 * positive outcome of lookup or open; -EILSEQ for wrong bytes or size. */
int fixture_get(struct fixture *fixture, const char *key, uint64_t seed,
		size_t len);
int fixture_lookup(struct fixture *fixture, const char *key,
		   struct cache_found *ret);

#endif
