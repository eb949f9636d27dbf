/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TESTS_CACHE_RIG_H
#define PAGEFS_TESTS_CACHE_RIG_H

/*
 * A cache with a real arena, index and buckets in temporary directories, and
 * short words for what writers and readers do.  Bytes are a pattern of their
 * offset and a seed, so that a wrong one shows.  One rig a test; its teardown
 * removes every page and demands that no slot is left in use.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cache/internal.h"

#define RIG_MIB (UINT64_C(1) << 20)
#define RIG_PROCESS 4711
#define RIG_STRANGER 815

struct rig {
	char dir[64];	   /* on a tmpfs: arena and memory index */
	char disk_dir[64]; /* on a disk */
	struct cache_config config;
	struct cache *cache;
};

/* 64 MiB of memory, and a disk tier. */
int rig_setup(void **state);
/* 24 MiB. */
int rig_setup_small(void **state);
/* 1 GiB: chunks of 64 MiB. */
int rig_setup_large(void **state);
int rig_setup_memory_only(void **state);
int rig_teardown(void **state);
void rig_open(struct rig *rig);
void rig_close(struct rig *rig, bool keep_memory);
/* Removes all names, and checks that nothing holds memory any more. */
void rig_check_leaks(struct rig *rig);

struct cache_name rig_name(const char *name);
struct cache_writer *rig_writer(struct rig *rig, const char *name,
				unsigned flags);
/* Create or replace. */
struct cache_writer *rig_create(struct rig *rig, const char *name);
void rig_fill(void *data, uint64_t offset, size_t len, unsigned seed);
void rig_write(struct cache_writer *writer, uint64_t offset, size_t len,
	       unsigned seed);
ssize_t rig_try_write(struct cache_writer *writer, uint64_t offset, size_t len,
		      unsigned seed);
/* FLUSH and RELEASE; the flush's outcome. */
int rig_finish(struct cache_writer *writer);
void rig_release(struct cache_writer *writer);
/* A whole page in requests of 1 MiB. */
int rig_put(struct rig *rig, const char *name, size_t len, unsigned seed);

/* The committed page: its outcome and, with 0, malloc'ed bytes. */
int rig_get(struct rig *rig, const char *name, uint8_t **ret, size_t *ret_len);
int rig_lookup(struct rig *rig, const char *name, pid_t process,
	       struct meta_entry *ret);
void rig_assert_page(struct rig *rig, const char *name, size_t len,
		     unsigned seed);
void rig_assert_bytes(const uint8_t *data, uint64_t offset, size_t len,
		      unsigned seed);
void rig_assert_missing(struct rig *rig, const char *name);
/* What a writer reads: malloc'ed. */
ssize_t rig_staged(struct cache_writer *writer, uint64_t offset, size_t len,
		   uint8_t **ret);
uint64_t rig_used(struct rig *rig);
uint64_t rig_rows(struct rig *rig, enum meta_tier tier, uint64_t object);

#endif
