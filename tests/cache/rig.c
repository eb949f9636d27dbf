/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/lib/clock.h"

static void remove_tree(const char *dir)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	if (system(command))
		fail_msg("%s stays", dir);
}

void rig_open(struct rig *rig)
{
	char reason[512] = "";
	int error = cache_open(&rig->config, &rig->cache, reason);

	if (error)
		fail_msg("cache_open: %d: %s", error, reason);
}

void rig_close(struct rig *rig, bool keep_memory)
{
	cache_close(rig->cache, keep_memory);
	rig->cache = NULL;
}

static int setup(void **state, bool disk, uint64_t memory_bytes)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	snprintf(rig->dir, sizeof(rig->dir), "/dev/shm/pagefs-rig-XXXXXX");
	snprintf(rig->disk_dir, sizeof(rig->disk_dir),
		 "/tmp/pagefs-rig-XXXXXX");
	if (!mkdtemp(rig->dir) || !mkdtemp(rig->disk_dir))
		return -1;
	cache_config_defaults(&rig->config);
	rig->config.memory_bytes = memory_bytes;
	rig->config.memory_dir = rig->dir;
	rig->config.disk_dir = disk ? rig->disk_dir : NULL;
	rig->config.disk_cap_bytes = 4096 * RIG_MIB;
	rig_open(rig);
	*state = rig;
	return 0;
}

int rig_setup(void **state)
{
	return setup(state, true, 64 * RIG_MIB);
}

int rig_setup_small(void **state)
{
	return setup(state, true, 24 * RIG_MIB);
}

int rig_setup_large(void **state)
{
	return setup(state, true, 1024 * RIG_MIB);
}

int rig_setup_memory_only(void **state)
{
	return setup(state, false, 64 * RIG_MIB);
}

int rig_teardown(void **state)
{
	struct rig *rig = *state;

	rig_check_leaks(rig);
	rig_close(rig, false);
	remove_tree(rig->dir);
	remove_tree(rig->disk_dir);
	free(rig);
	return 0;
}

/* ---- leaks ---- */

struct names {
	char names[64][NAME_MAX_BYTES + 1];
	size_t count;
};

static int collect(void *arg, uint64_t cookie, const char *name, size_t len,
		   const struct meta_entry *entry)
{
	struct names *names = arg;

	(void)cookie;
	if (entry->type == META_DIR)
		return 0;
	memcpy(names->names[names->count], name, len);
	names->names[names->count++][len] = 0;
	return names->count == 64;
}

void rig_check_leaks(struct rig *rig)
{
	struct names *names = calloc(1, sizeof(*names));
	struct arena_stats stats;

	do {
		names->count = 0;
		assert_int_equal(cache_list(rig->cache, META_ROOT, 0, NULL, 0,
					    collect, names) < 0,
				 0);
		for (size_t i = 0; i < names->count; i++) {
			struct cache_name name = rig_name(names->names[i]);

			assert_int_equal(cache_unlink(rig->cache, &name), 0);
		}
	} while (names->count);
	free(names);
	cache_sync(rig->cache);
	/* What was open when its name went is swept by a thread. */
	for (int tries = 0; tries < 200 && rig_used(rig); tries++)
		usleep(10000);
	arena_get_stats(rig->cache->arena, &stats);
	assert_int_equal(stats.pinned_bytes, 0);
	assert_int_equal(stats.used_bytes, 0);
	assert_int_equal(atomic_load(&rig->cache->counters->open_writers), 0);
}

/* ---- writers ---- */

struct cache_name rig_name(const char *name)
{
	return (struct cache_name){META_ROOT, name, strlen(name)};
}

struct cache_writer *rig_writer(struct rig *rig, const char *name,
				unsigned flags)
{
	struct cache_creator creator = {.uid = 1000, .gid = 1000, .mode = 0644};
	struct cache_name place = rig_name(name);
	struct cache_writer *writer = NULL;
	int outcome = cache_stage_open(rig->cache, &place, flags, &creator,
				       RIG_PROCESS, &writer);

	if (outcome)
		fail_msg("open %s: %d", name, outcome);
	return writer;
}

struct cache_writer *rig_create(struct rig *rig, const char *name)
{
	return rig_writer(rig, name, CACHE_STAGE_CREATE | CACHE_STAGE_TRUNCATE);
}

static uint64_t pattern(uint64_t word, unsigned seed)
{
	uint64_t x = (word + 1) * UINT64_C(0x9E3779B97F4A7C15) +
		     seed * UINT64_C(0xC2B2AE3D27D4EB4F);

	return x ^ x >> 29;
}

void rig_fill(void *data, uint64_t offset, size_t len, unsigned seed)
{
	uint8_t *to = data;

	for (size_t i = 0; i < len; i++) {
		uint64_t at = offset + i;

		if (at % 8 == 0 && len - i >= 8) {
			uint64_t word = pattern(at / 8, seed);

			memcpy(to + i, &word, 8);
			i += 7;
			continue;
		}
		to[i] = (uint8_t)(pattern(at / 8, seed) >> at % 8 * 8);
	}
}

ssize_t rig_try_write(struct cache_writer *writer, uint64_t offset, size_t len,
		      unsigned seed)
{
	uint8_t *data = malloc(len ? len : 1);
	ssize_t done;

	rig_fill(data, offset, len, seed);
	done = cache_stage_write(writer, data, len, &offset);
	free(data);
	return done;
}

void rig_write(struct cache_writer *writer, uint64_t offset, size_t len,
	       unsigned seed)
{
	assert_int_equal(rig_try_write(writer, offset, len, seed), len);
}

void rig_release(struct cache_writer *writer)
{
	bool committed;

	cache_stage_close(writer, &committed);
}

int rig_finish(struct cache_writer *writer)
{
	bool committed;
	int error = cache_stage_flush(writer, false, &committed);

	rig_release(writer);
	return error;
}

int rig_put(struct rig *rig, const char *name, size_t len, unsigned seed)
{
	struct cache_writer *writer = rig_create(rig, name);
	ssize_t done = 0;

	for (size_t at = 0; at < len && done >= 0; at += RIG_MIB)
		done = rig_try_write(writer, at,
				     len - at < RIG_MIB ? len - at : RIG_MIB,
				     seed);
	if (done >= 0)
		return rig_finish(writer);
	rig_finish(writer);
	return (int)done;
}

/* ---- readers ---- */

struct waiting {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
	int outcome;
	struct cache_page *page;
	uint8_t *data;
	ssize_t result;
};

static void opened(void *arg, int outcome, struct cache_page *page)
{
	struct waiting *waiting = arg;

	pthread_mutex_lock(&waiting->lock);
	waiting->outcome = outcome;
	waiting->page = page;
	waiting->done = true;
	pthread_cond_signal(&waiting->cond);
	pthread_mutex_unlock(&waiting->lock);
}

static void was_read(void *arg, ssize_t result, const struct iovec *iov,
		     int count)
{
	struct waiting *waiting = arg;
	size_t at = 0;

	pthread_mutex_lock(&waiting->lock);
	for (int i = 0; i < count; i++) {
		memcpy(waiting->data + at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	waiting->result = result;
	waiting->done = true;
	pthread_cond_signal(&waiting->cond);
	pthread_mutex_unlock(&waiting->lock);
}

static void wait_done(struct waiting *waiting)
{
	pthread_mutex_lock(&waiting->lock);
	while (!waiting->done)
		pthread_cond_wait(&waiting->cond, &waiting->lock);
	waiting->done = false;
	pthread_mutex_unlock(&waiting->lock);
}

#define WAITING                                                                \
	{                                                                      \
		.lock = PTHREAD_MUTEX_INITIALIZER,                             \
		.cond = PTHREAD_COND_INITIALIZER                               \
	}

int rig_lookup(struct rig *rig, const char *name, pid_t process,
	       struct meta_entry *ret)
{
	struct cache_name place = rig_name(name);
	struct cache_found found = {.staging = NULL};
	int outcome = cache_lookup(rig->cache, &place, process, &found);

	if (outcome == 0 || outcome == CACHE_STAGED)
		*ret = found.entry;
	if (found.staging)
		cache_staging_put(found.staging);
	return outcome;
}

int rig_get(struct rig *rig, const char *name, uint8_t **ret, size_t *ret_len)
{
	struct waiting waiting = WAITING;
	struct cache_name place = rig_name(name);
	struct meta_entry entry;
	int outcome = rig_lookup(rig, name, 0, &entry);
	ssize_t done = 0;

	if (outcome)
		return outcome;
	cache_page_open(rig->cache, &place, &entry, opened, &waiting);
	wait_done(&waiting);
	if (waiting.outcome)
		return waiting.outcome;
	*ret = malloc(entry.size_bytes + 1);
	*ret_len = entry.size_bytes;
	for (uint64_t at = 0; at < entry.size_bytes; at += RIG_MIB) {
		waiting.data = *ret + at;
		cache_page_read(waiting.page, at, RIG_MIB, was_read, &waiting);
		wait_done(&waiting);
		assert_true(waiting.result >= 0);
		done += waiting.result;
	}
	assert_int_equal(done, entry.size_bytes);
	cache_page_close(waiting.page);
	return 0;
}

void rig_assert_bytes(const uint8_t *data, uint64_t offset, size_t len,
		      unsigned seed)
{
	uint8_t *expected = malloc(len + 1);

	rig_fill(expected, offset, len, seed);
	if (memcmp(data, expected, len) != 0)
		for (size_t i = 0; i < len; i++)
			if (data[i] != expected[i])
				fail_msg("byte %zu is wrong",
					 (size_t)offset + i);
	free(expected);
}

void rig_assert_page(struct rig *rig, const char *name, size_t len,
		     unsigned seed)
{
	uint8_t *data;
	size_t found;
	int outcome = rig_get(rig, name, &data, &found);

	if (outcome)
		fail_msg("%s: %d", name, outcome);
	assert_int_equal(found, len);
	rig_assert_bytes(data, 0, len, seed);
	free(data);
}

void rig_assert_missing(struct rig *rig, const char *name)
{
	struct meta_entry entry;

	assert_int_equal(rig_lookup(rig, name, 0, &entry), CACHE_MISS);
}

ssize_t rig_staged(struct cache_writer *writer, uint64_t offset, size_t len,
		   uint8_t **ret)
{
	struct waiting waiting = WAITING;

	waiting.data = malloc(len + 1);
	cache_stage_read(writer, offset, len, was_read, &waiting);
	wait_done(&waiting);
	*ret = waiting.data;
	return waiting.result;
}

/* ---- what is there ---- */

uint64_t rig_used(struct rig *rig)
{
	struct arena_stats stats;

	arena_get_stats(rig->cache->arena, &stats);
	return stats.used_bytes;
}

static int count_row(void *arg, const struct meta_chunk *chunk)
{
	(void)chunk;
	++*(uint64_t *)arg;
	return 0;
}

uint64_t rig_rows(struct rig *rig, enum meta_tier tier, uint64_t object)
{
	struct meta_txn *txn;
	uint64_t count = 0;

	assert_int_equal(meta_begin_read(rig->cache->meta, &txn), 0);
	meta_chunk_each(txn, tier, object, 0, count_row, &count);
	meta_abort(txn);
	return count;
}
