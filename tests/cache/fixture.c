/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cache/fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/lib/clock.h"

#define PROCESS 4242

/* ---- directories ---- */

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *walk)
{
	(void)st;
	(void)type;
	(void)walk;
	return remove(path);
}

void fixture_remove(const char *dir)
{
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void fixture_copy(const char *from, const char *to)
{
	char command[512];

	snprintf(command, sizeof(command), "cp -a '%s' '%s'", from, to);
	assert_int_equal(system(command), 0);
}

void fixture_prepare(struct fixture *fixture, bool disk)
{
	const char *base = getenv("TMPDIR");

	memset(fixture, 0, sizeof(*fixture));
	snprintf(fixture->dir, sizeof(fixture->dir), "%s/pagefs-cache.XXXXXX",
		 base && strlen(base) < 32 ? base : "/tmp");
	assert_non_null(mkdtemp(fixture->dir));
	snprintf(fixture->memory_dir, sizeof(fixture->memory_dir), "%s/memory",
		 fixture->dir);
	snprintf(fixture->disk_dir, sizeof(fixture->disk_dir), "%s/disk",
		 fixture->dir);
	assert_int_equal(mkdir(fixture->memory_dir, 0700), 0);
	cache_config_defaults(&fixture->config);
	fixture->config.memory_bytes = 64u << 20;
	fixture->config.memory_dir = fixture->memory_dir;
	fixture->config.slot_files = false;
	fixture->config.disk_dir = disk ? fixture->disk_dir : NULL;
	fixture->config.disk_cap_bytes = 2048ull << 20;
}

void fixture_start(struct fixture *fixture)
{
	char reason[512];

	if (cache_open(&fixture->config, &fixture->cache, reason) != 0)
		fail_msg("cache_open: %s", reason);
}

void fixture_open(struct fixture *fixture, bool disk)
{
	fixture_prepare(fixture, disk);
	fixture_start(fixture);
}

void fixture_reopen(struct fixture *fixture, bool keep_memory)
{
	cache_close(fixture->cache, keep_memory);
	fixture->cache = NULL;
	fixture_start(fixture);
}

void fixture_close(struct fixture *fixture)
{
	if (fixture->cache)
		cache_close(fixture->cache, false);
	fixture->cache = NULL;
	fixture_remove(fixture->dir);
}

/* ---- bytes ---- */

void fixture_fill(void *data, size_t len, uint64_t seed, uint64_t offset)
{
	uint8_t *at = data;

	for (size_t i = 0; i < len; i++) {
		uint64_t word = (offset + i) / 8 + seed * 0x9E3779B97F4A7C15ull;

		word *= 0xC2B2AE3D27D4EB4Full;
		at[i] = (uint8_t)(word >> (8 * ((offset + i) % 8)));
	}
}

/* ---- names ---- */

struct cache_name fixture_name(struct fixture *fixture, const char *key)
{
	struct cache_name name;
	int outcome = cache_resolve(fixture->cache, key, strlen(key), &name);

	if (outcome)
		fail_msg("%s: cannot be resolved (%d)", key, outcome);
	return name;
}

struct cache_creator fixture_creator(void)
{
	return (struct cache_creator){getuid(), getgid(), 0644};
}

int fixture_try_put(struct fixture *fixture, const char *key, uint64_t seed,
		    size_t len)
{
	struct cache_name name = fixture_name(fixture, key);
	struct cache_creator creator = fixture_creator();
	struct cache_writer *writer;
	size_t step = 1u << 20;
	uint8_t *data = malloc(step);
	bool committed;
	int error = cache_stage_open(fixture->cache, &name,
				     CACHE_STAGE_CREATE | CACHE_STAGE_TRUNCATE,
				     &creator, PROCESS, &writer);

	assert_non_null(data);
	if (error) {
		free(data);
		return error;
	}
	for (uint64_t at = 0; !error && at < len;) {
		size_t n = len - at < step ? len - at : step;
		uint64_t offset = at;
		ssize_t done;

		fixture_fill(data, n, seed, at);
		done = cache_stage_write(writer, data, n, &offset);
		if (done < 0)
			error = (int)done;
		at += n;
	}
	free(data);
	if (!error)
		error = cache_stage_flush(writer, false, &committed);
	else
		cache_stage_flush(writer, true, &committed);
	cache_stage_close(writer, &committed);
	return error;
}

void fixture_put(struct fixture *fixture, const char *key, uint64_t seed,
		 size_t len)
{
	int error = fixture_try_put(fixture, key, seed, len);

	if (error)
		fail_msg("put %s: %s", key, strerror(-error));
}

void fixture_mkdir(struct fixture *fixture, const char *key)
{
	struct cache_name name = fixture_name(fixture, key);
	struct cache_creator creator = fixture_creator();
	struct cache_found found;

	creator.mode = 0755;
	assert_int_equal(cache_mkdir(fixture->cache, &name, &creator, &found),
			 0);
}

int fixture_unlink(struct fixture *fixture, const char *key)
{
	struct cache_name name = fixture_name(fixture, key);

	return cache_unlink(fixture->cache, &name);
}

int fixture_rename(struct fixture *fixture, const char *from, const char *to,
		   unsigned flags)
{
	struct cache_name a = fixture_name(fixture, from);
	struct cache_name b = fixture_name(fixture, to);

	return cache_rename(fixture->cache, &a, &b, flags);
}

/* ---- reading ---- */

struct answer {
	pthread_mutex_t lock;
	pthread_cond_t there;
	bool done;
	int outcome;
	struct cache_page *page;
	/* Of a read: */
	uint64_t seed, offset;
	ssize_t result;
	bool right;
};

static void answer_init(struct answer *answer)
{
	memset(answer, 0, sizeof(*answer));
	pthread_mutex_init(&answer->lock, NULL);
	pthread_cond_init(&answer->there, NULL);
}

static void answer_give(struct answer *answer)
{
	pthread_mutex_lock(&answer->lock);
	answer->done = true;
	pthread_cond_signal(&answer->there);
	pthread_mutex_unlock(&answer->lock);
}

static void answer_wait(struct answer *answer)
{
	pthread_mutex_lock(&answer->lock);
	while (!answer->done)
		pthread_cond_wait(&answer->there, &answer->lock);
	pthread_mutex_unlock(&answer->lock);
	pthread_cond_destroy(&answer->there);
	pthread_mutex_destroy(&answer->lock);
}

static void opened(void *arg, int outcome, struct cache_page *page)
{
	struct answer *answer = arg;

	answer->outcome = outcome;
	answer->page = page;
	answer_give(answer);
}

static void have_read(void *arg, ssize_t result, const struct iovec *iov,
		      int count)
{
	struct answer *answer = arg;
	uint64_t at = answer->offset;

	answer->result = result;
	answer->right = result >= 0;
	for (int i = 0; result >= 0 && i < count; i++) {
		uint8_t *expected = malloc(iov[i].iov_len + 1);

		fixture_fill(expected, iov[i].iov_len, answer->seed, at);
		if (memcmp(expected, iov[i].iov_base, iov[i].iov_len) != 0)
			answer->right = false;
		at += iov[i].iov_len;
		free(expected);
	}
	if (at != answer->offset + (uint64_t)(result > 0 ? result : 0))
		answer->right = false;
	answer_give(answer);
}

static int read_all(struct cache_page *page, uint64_t seed, size_t len)
{
	struct answer answer;
	size_t at = 0;

	if (cache_page_entry(page)->size_bytes != len)
		return -EILSEQ;
	while (at < len) {
		answer_init(&answer);
		answer.seed = seed;
		answer.offset = at;
		cache_page_read(page, at, 1u << 20, have_read, &answer);
		answer_wait(&answer);
		if (answer.result < 0)
			return (int)answer.result;
		if (!answer.right || !answer.result)
			return -EILSEQ;
		at += (size_t)answer.result;
	}
	return 0;
}

int fixture_lookup(struct fixture *fixture, const char *key,
		   struct cache_found *ret)
{
	struct cache_name name;
	int outcome = cache_resolve(fixture->cache, key, strlen(key), &name);

	return outcome ? outcome : cache_lookup(fixture->cache, &name, 1, ret);
}

int fixture_get(struct fixture *fixture, const char *key, uint64_t seed,
		size_t len)
{
	struct cache_name name;
	struct cache_found found;
	struct answer answer;
	int outcome = cache_resolve(fixture->cache, key, strlen(key), &name);

	if (!outcome)
		outcome = cache_lookup(fixture->cache, &name, 1, &found);
	if (outcome)
		return outcome;
	if (found.entry.type != META_FILE)
		return -EISDIR;
	answer_init(&answer);
	cache_page_open(fixture->cache, &name, &found.entry, opened, &answer);
	answer_wait(&answer);
	if (answer.outcome)
		return answer.outcome;
	outcome = read_all(answer.page, seed, len);
	cache_page_close(answer.page);
	return outcome;
}
