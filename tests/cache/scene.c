/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cache/scene.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/reads.h"
#include "tools/lib/checksum.h"
#include "tools/lib/clock.h"

#define LIMIT_NS (20 * CLOCK_NS_PER_SECOND)

static void count_change(void *arg, const struct cache_name *name)
{
	struct scene *scene = arg;

	(void)name;
	atomic_fetch_add(&scene->changed, 1);
}

void scene_prepare(struct scene *scene, uint64_t memory_bytes, unsigned flags)
{
	*scene = (struct scene){
		.memory_dir = "/dev/shm/pagefs-test-XXXXXX",
		.disk_dir = "/tmp/pagefs-test-XXXXXX",
	};
	assert_non_null(mkdtemp(scene->memory_dir));
	assert_non_null(mkdtemp(scene->disk_dir));
	cache_config_defaults(&scene->config);
	scene->config.memory_bytes = memory_bytes;
	scene->config.memory_dir = scene->memory_dir;
	scene->config.disk_dir = flags & SCENE_DISK ? scene->disk_dir : NULL;
	scene->config.io_uring = !(flags & SCENE_THREADS);
	scene->config.changed = count_change;
	scene->config.changed_arg = scene;
}

void scene_init(struct scene *scene, uint64_t memory_bytes, unsigned flags)
{
	scene_prepare(scene, memory_bytes, flags);
	scene_open(scene);
}

void scene_open(struct scene *scene)
{
	char reason[512] = "";
	int error = cache_open(&scene->config, &scene->cache, reason);

	if (error)
		fail_msg("cache_open: %d %s", error, reason);
}

static int remove_one(const char *path, const struct stat *st, int flag,
		      struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

void scene_release(struct scene *scene)
{
	if (scene->cache)
		cache_close(scene->cache, false);
	nftw(scene->memory_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	nftw(scene->disk_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- bytes ---- */

static uint64_t word_at(uint64_t seed, uint64_t index)
{
	uint64_t x = (seed ^ index) * 0x9E3779B97F4A7C15ull;

	return x ^ (x >> 29);
}

void scene_bytes(const char *name, uint64_t offset, void *ret, size_t len)
{
	uint64_t seed = checksum_bytes(name, strlen(name), 0);
	char *at = ret;

	while (len) {
		uint64_t word = word_at(seed, offset / 8);
		size_t skip = offset % 8;
		size_t n = 8 - skip < len ? 8 - skip : len;

		memcpy(at, (char *)&word + skip, n);
		at += n;
		offset += n;
		len -= n;
	}
}

struct cache_name scene_name(const char *name)
{
	return (struct cache_name){META_ROOT, name, strlen(name)};
}

/* ---- putting ---- */

struct put {
	struct scene *scene;
	const char *name;
	unsigned where;
	struct meta_entry entry;
	struct meta_txn *txn;
};

static slot_t put_slot(struct put *put, uint32_t len)
{
	struct cache *cache = put->scene->cache;
	struct slot_class class = cache_class(cache, len, &put->entry);
	slot_t slot;

	assert_int_equal(0, cache_room(cache, &class,
				       clock_monotonic_ns() + LIMIT_NS, true,
				       &slot));
	return slot;
}

static void put_on_disk(struct put *put, struct meta_chunk *row,
			const void *data)
{
	struct cache *cache = put->scene->cache;
	struct bucket_record record = {
		.kind = BUCKET_CHUNK,
		.id = row->id,
		.key = put->name,
		.key_bytes = strlen(put->name),
		.checksums = row->checksums,
		.data = data,
		.len_bytes = row->len_bytes,
	};

	assert_int_equal(0, bucket_append(cache->buckets, &record, 1,
					  clock_monotonic_ns() + LIMIT_NS));
	row->bucket = record.place.bucket;
	row->data_block = record.place.data_block;
}

/* Rows are written outside of the transaction of names: the page's name comes
 * last. */
static void put_rows(struct put *put, struct meta_chunk *row)
{
	struct cache *cache = put->scene->cache;
	struct meta_txn *txn;

	assert_int_equal(0, meta_begin_write(cache->meta, &txn));
	if (put->where & SCENE_IN_MEMORY)
		assert_int_equal(0, meta_chunk_put(txn, META_MEMORY, row));
	if (put->where & SCENE_ON_DISK) {
		assert_int_equal(0, meta_chunk_put(txn, META_DISK, row));
		assert_int_equal(0, meta_bucket_add(txn, row->bucket,
						    (int64_t)round_up_block(
							    row->len_bytes)));
	}
	assert_int_equal(0, cache_commit(cache, txn));
}

static void put_chunk(struct put *put, uint32_t index, uint32_t len)
{
	struct cache *cache = put->scene->cache;
	uint64_t *sums = calloc(checksum_block_count(len) + 1, sizeof(*sums));
	slot_t slot = put_slot(put, len);
	char *data = arena_data(cache->arena, slot);
	struct meta_chunk row = {
		.id = {put->entry.object, index, put->entry.version},
		.len_bytes = len,
		.slot = slot,
		.checksums = sums,
	};

	scene_bytes(put->name, (uint64_t)index << put->entry.chunk_shift, data,
		    len);
	memset(data + len, 0, round_up_block(len) - len);
	checksum_blocks(data, len, chunk_seed(&row.id), sums);
	if (put->where & SCENE_ON_DISK)
		put_on_disk(put, &row, data);
	arena_commit(cache->arena, slot, &row.id, len,
		     !(put->where & SCENE_ON_DISK));
	put_rows(put, &row);
	if (!(put->where & SCENE_IN_MEMORY))
		arena_free(cache->arena, slot);
	arena_unpin(cache->arena, slot);
	free(sums);
	put->entry.chunks++;
	put->entry.stored_bytes += len;
}

static void put_name(struct put *put)
{
	struct cache *cache = put->scene->cache;
	struct cache_garbage garbage = {0};
	struct cache_name name = scene_name(put->name);
	struct meta_txn *txn;

	assert_int_equal(0, meta_begin_write(cache->meta, &txn));
	assert_int_equal(
		0, cache_name_put(cache, txn, &name, &put->entry, &garbage));
	assert_int_equal(0, cache_commit(cache, txn));
	cache_garbage_free(cache, &garbage);
}

struct meta_entry scene_put_sparse(struct scene *scene, const char *name,
				   uint64_t size, unsigned shift,
				   unsigned every, unsigned where)
{
	struct put put = {.scene = scene, .name = name, .where = where};
	uint64_t chunk = 1ull << shift;

	put.entry = (struct meta_entry){
		.type = META_FILE,
		.mode = 0644,
		.object = cache_next_object(scene->cache),
		.version = cache_next_version(scene->cache),
		.size_bytes = size,
		.chunk_shift = (uint8_t)shift,
		.flags = where & SCENE_ON_DISK ? META_ON_DISK : 0,
	};
	for (uint64_t i = 0; i * chunk < size; i += every) {
		uint64_t left = size - i * chunk;

		put_chunk(&put, (uint32_t)i,
			  (uint32_t)(left < chunk ? left : chunk));
	}
	put_name(&put);
	return put.entry;
}

struct meta_entry scene_put(struct scene *scene, const char *name,
			    uint64_t size, unsigned where)
{
	return scene_put_sparse(scene, name, size,
				arena_chunk_shift(scene->cache->arena), 1,
				where);
}

/* ---- reading ---- */

struct answer {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool there;
	int outcome;
	struct cache_page *page;
	ssize_t result;
	char *bytes;
};

#define ANSWER                                                                 \
	{                                                                      \
		.lock = PTHREAD_MUTEX_INITIALIZER,                             \
		.wake = PTHREAD_COND_INITIALIZER                               \
	}

static void answer(struct answer *answer)
{
	pthread_mutex_lock(&answer->lock);
	answer->there = true;
	pthread_cond_signal(&answer->wake);
	pthread_mutex_unlock(&answer->lock);
}

static void wait_for(struct answer *answer)
{
	pthread_mutex_lock(&answer->lock);
	while (!answer->there)
		pthread_cond_wait(&answer->wake, &answer->lock);
	pthread_mutex_unlock(&answer->lock);
}

static void opened(void *arg, int outcome, struct cache_page *page)
{
	struct answer *to = arg;

	to->outcome = outcome;
	to->page = page;
	answer(to);
}

int scene_page(struct scene *scene, const char *text, struct cache_page **ret)
{
	struct cache_name name = scene_name(text);
	struct answer to = ANSWER;
	struct cache_found found;
	int outcome = cache_lookup(scene->cache, &name, 0, &found);

	if (outcome)
		return outcome;
	cache_page_open(scene->cache, &name, &found.entry, opened, &to);
	wait_for(&to);
	*ret = to.page;
	return to.outcome;
}

static void read_done(void *arg, ssize_t result, const struct iovec *iov,
		      int count)
{
	struct answer *to = arg;
	char *at = to->bytes;

	for (int i = 0; i < count; i++) {
		memcpy(at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	to->result = result;
	if (result >= 0 && at - to->bytes != result)
		to->result = -EPROTO;
	answer(to);
}

ssize_t scene_read(struct cache_page *page, uint64_t offset, void *ret,
		   size_t len)
{
	struct answer to = ANSWER;

	to.bytes = ret;
	cache_page_read(page, offset, len, read_done, &to);
	wait_for(&to);
	return to.result;
}

int scene_check_page(struct cache_page *page, const char *name, size_t piece)
{
	const struct meta_entry *entry = cache_page_entry(page);
	char *got = malloc(piece), *want = malloc(piece);
	uint64_t offset = 0;
	int wrong = 0;

	while (offset < entry->size_bytes && !wrong) {
		uint64_t left = entry->size_bytes - offset;
		size_t len = left < piece ? left : piece;
		ssize_t result = scene_read(page, offset, got, piece);

		if (result < 0) {
			wrong = (int)result;
			break;
		}
		scene_bytes(name, offset, want, len);
		if ((size_t)result != len || memcmp(got, want, len) != 0)
			wrong = -EILSEQ;
		offset += len;
	}
	free(got);
	free(want);
	return wrong;
}

int scene_check(struct scene *scene, const char *name, size_t piece)
{
	struct cache_page *page;
	int outcome = scene_page(scene, name, &page);

	if (outcome)
		return outcome;
	outcome = scene_check_page(page, name, piece);
	cache_page_close(page);
	return outcome;
}

void scene_keep(void *arg, int outcome, struct cache_page *page)
{
	(void)outcome;
	*(struct cache_page **)arg = page;
}

void scene_lose(struct scene *scene, const struct meta_entry *entry,
		uint32_t index)
{
	struct cache *cache = scene->cache;
	struct chunk_id id = {entry->object, index, entry->version};
	struct cache_garbage garbage = {0};
	struct meta_txn *txn;

	assert_int_equal(0, meta_begin_write(cache->meta, &txn));
	assert_int_equal(0, chunk_lose(cache, txn, &id, &garbage));
	assert_int_equal(0, cache_commit(cache, txn));
	cache_garbage_free(cache, &garbage);
}

struct bucket_place scene_place(struct scene *scene, const struct chunk_id *id)
{
	struct bucket_place place = {0};
	struct chunk_rows rows;
	struct meta_txn *txn;

	assert_int_equal(0, meta_begin_read(scene->cache->meta, &txn));
	assert_int_equal(0, chunk_rows(scene->cache, txn, id, &rows));
	if (rows.on_disk)
		place = (struct bucket_place){rows.disk.bucket,
					      rows.disk.data_block,
					      rows.disk.len_bytes};
	meta_abort(txn);
	return place;
}

void scene_bucket_path(struct scene *scene, char ret[256])
{
	char dir[128];
	struct dirent *entry;
	char last[128] = "";
	DIR *listing;

	snprintf(dir, sizeof(dir), "%s/buckets", scene->disk_dir);
	listing = opendir(dir);
	assert_non_null(listing);
	while ((entry = readdir(listing)) != NULL)
		if (entry->d_name[0] != '.' && strlen(entry->d_name) < 100 &&
		    strcmp(entry->d_name, last) > 0)
			strcpy(last, entry->d_name);
	closedir(listing);
	assert_true(last[0]);
	snprintf(ret, 256, "%s/%s", dir, last);
}
