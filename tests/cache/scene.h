/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TESTS_CACHE_SCENE_H
#define PAGEFS_TESTS_CACHE_SCENE_H

/*
 * A cache with pages of known bytes, for the tests of what reads: real arena,
 * index, disk ring and buckets in directories of their own. Pages are put
 * straight into the tiers, so that a test says where the copies are.
 */

#include "cache/cache.h"
#include "cache/internal.h"

struct scene {
	char memory_dir[64];
	char disk_dir[64];
	struct cache_config config;
	struct cache *cache;
	_Atomic unsigned changed; /* calls */
};

enum scene_flags {
	SCENE_DISK = 1 << 0,
	SCENE_THREADS = 1 << 1, /* no io_uring */
};

/* Both in one, or the configuration first, to be changed. */
void scene_init(struct scene *scene, uint64_t memory_bytes, unsigned flags);
void scene_prepare(struct scene *scene, uint64_t memory_bytes, unsigned flags);
void scene_open(struct scene *scene);
void scene_release(struct scene *scene);

enum scene_where {
	SCENE_IN_MEMORY = 1 << 0,
	SCENE_ON_DISK = 1 << 1,
};

/* A page below the root, of one version; its bytes are those of `name`. A
 * chunk whose index is not a multiple of `every` is a hole. */
struct meta_entry scene_put(struct scene *scene, const char *name,
			    uint64_t size, unsigned where);
struct meta_entry scene_put_sparse(struct scene *scene, const char *name,
				   uint64_t size, unsigned shift,
				   unsigned every, unsigned where);

/* Looks the name up and opens it: cache_lookup()'s outcome or that of
 * cache_page_open(), waited for. */
int scene_page(struct scene *scene, const char *name, struct cache_page **ret);
/* Reads [offset, offset + len): the result; the bytes in `ret`. */
ssize_t scene_read(struct cache_page *page, uint64_t offset, void *ret,
		   size_t len);
/* Opens, reads it all in pieces, compares, closes: 0, or the outcome of the
 * open; -errno of a read; -EILSEQ: wrong bytes. */
int scene_check(struct scene *scene, const char *name, size_t piece);
int scene_check_page(struct cache_page *page, const char *name, size_t piece);
struct cache_name scene_name(const char *name);
/* What scene_put() wrote at that offset. */
void scene_bytes(const char *name, uint64_t offset, void *ret, size_t len);

/* A cache_opened_fn: *arg, a struct cache_page *, is the page. */
void scene_keep(void *arg, int outcome, struct cache_page *page);
/* Deletes the chunk's rows as the last copy's. */
void scene_lose(struct scene *scene, const struct meta_entry *entry,
		uint32_t index);

/* Where the chunk is on disk; len_bytes 0: nowhere. */
struct bucket_place scene_place(struct scene *scene, const struct chunk_id *id);
/* Path of a bucket's file, the newest there is. */
void scene_bucket_path(struct scene *scene, char ret[256]);

#endif
