/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/rows.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "tools/lib/clock.h"
#include "tools/lib/log.h"

#define REASON_BYTES 512u

void cache_config_defaults(struct cache_config *config)
{
	*config = (struct cache_config){
		.slot_files = true,
		.disk_cap_percent = 90,
		.io_uring = true,
		.io_depth = 64,
		.eviction_high_watermark_ratio = 0.95,
		.eviction_ratio = 0.05,
		.writeback_max_ms = 200,
		.open_fetch_max_bytes = 64u << 20,
		.chunk_shift = CHUNK_SHIFT_MAX,
		.failed_get_ttl_seconds = 1.0,
		.failed_get_cache_max_entries = 65536,
		.lookup_wait_ms = 20,
		.miss_timeout_ms = 1000,
		.temporary_names = "*.tmp:*.tmp.*:.*",
		.stop_timeout_ms = 30000,
	};
}

/* ---- versions ---- */

struct page_version cache_next_version(struct cache *cache)
{
	return hlc_next(&cache->hlc, clock_realtime_ns() / CLOCK_NS_PER_MS);
}

uint64_t cache_next_object(struct cache *cache)
{
	return cache_next_version(cache).clock;
}

int cache_commit(struct cache *cache, struct meta_txn *txn)
{
	/* A clock of its own: "what was true at this transaction" has a name
	 * that no version and no fact has.  The write-behind relies on it. */
	uint64_t clock = cache_next_version(cache).clock;
	int error = meta_value_put(txn, "clock", &clock, sizeof(clock));

	if (!error)
		error = stale_sweep(cache->stale, txn);
	if (error) {
		meta_abort(txn);
		return error;
	}
	return meta_commit(txn);
}

/* With a disk tier the node's number stands beside the buckets, whose records
 * carry it; else in a file beside the arena. */
static int node_read(const char *path, uint64_t *ret)
{
	char text[32] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		return -errno;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len < 16)
		return -EBADMSG;
	*ret = strtoull(text, NULL, 16);
	return *ret ? 0 : -EBADMSG;
}

static int node_make(const char *path, uint64_t *ret)
{
	char temporary[4096 + 32], text[32];
	uint64_t node = 0;
	int fd, len, error = 0;

	while (!node)
		if (getrandom(&node, sizeof(node), 0) != sizeof(node))
			return -EIO;
	snprintf(temporary, sizeof(temporary), "%s.%ld", path, (long)getpid());
	len = snprintf(text, sizeof(text), "%016llx\n",
		       (unsigned long long)node);
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (write(fd, text, (size_t)len) != len || fsync(fd) < 0)
		error = errno ? -errno : -EIO;
	close(fd);
	/* link(): whoever comes first has named the node. */
	if (!error && link(temporary, path) < 0 && errno != EEXIST)
		error = -errno;
	unlink(temporary);
	return error ? error : node_read(path, ret);
}

static int node_get(const char *dir, uint64_t *ret)
{
	char path[4096];
	int error;

	if (snprintf(path, sizeof(path), "%s/node", dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	error = node_read(path, ret);
	if (error == -ENOENT || error == -EBADMSG) {
		if (error == -EBADMSG)
			unlink(path);
		error = node_make(path, ret);
	}
	return error;
}

/* ---- opening ---- */

static int fail(char *reason, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static int fail(char *reason, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(reason, REASON_BYTES, format, arguments);
	va_end(arguments);
	return error;
}

static int open_arena(struct cache *cache, char *reason)
{
	const struct cache_config *config = &cache->config;
	struct arena_config arena = {
		.bytes = config->memory_bytes,
		.dir = config->memory_dir,
		.slot_files = config->slot_files,
	};
	unsigned shift;
	int outcome = arena_open(&arena, &cache->arena);

	if (outcome == -EBUSY)
		return fail(
			reason, outcome,
			"%s: another pagefs uses this memory; unmount it, or "
			"give this one a place of its own",
			arena.dir);
	if (outcome < 0)
		return fail(reason, outcome,
			    "%s: cannot make a memory tier of %llu bytes: %s "
			    "(--memory sets its size)",
			    arena.dir, (unsigned long long)arena.bytes,
			    strerror(-outcome));
	shift = arena_chunk_shift(cache->arena);
	if (cache->config.chunk_shift > shift)
		cache->config.chunk_shift = shift;
	return outcome;
}

static int open_disk(struct cache *cache, char *reason)
{
	const struct cache_config *config = &cache->config;
	struct io_config io = {
		.mode = config->io_uring ? IO_AUTO : IO_URING_OFF,
		.depth = config->io_depth,
	};
	struct buckets_config buckets = {
		.dir = config->disk_dir,
		.cap_bytes = config->disk_cap_bytes,
		.cap_percent = config->disk_cap_percent,
		.reserve_bytes = config->disk_reserve_bytes,
	};
	char why[256] = "";
	int error = io_open(&io, &cache->io);

	if (error)
		return fail(reason, error, "cannot start disk I/O: %s",
			    strerror(-error));
	buckets.io = cache->io;
	error = buckets_open(&buckets, &cache->buckets, why);
	if (error)
		return why[0] ? fail(reason, error, "%s", why)
			      : fail(reason, error, "%s: %s", buckets.dir,
				     strerror(-error));
	cache->hlc.node = buckets_node(cache->buckets);
	return 0;
}

/* The index is opened once the disk directory is locked: it may find the
 * index unfit and empty it. */
static int open_index(struct cache *cache, bool memory_fresh, char *reason)
{
	struct meta_config config = {
		.memory_dir = cache->config.memory_dir,
		.disk_dir = cache->config.disk_dir,
		.memory_fresh = memory_fresh,
	};
	int outcome = meta_open(&config, &cache->meta);

	if (outcome < 0)
		return fail(reason, outcome, "%s: cannot open the index: %s%s",
			    config.disk_dir ? config.disk_dir
					    : config.memory_dir,
			    strerror(-outcome),
			    outcome == -ENOSPC ? "; make some room there" : "");
	return outcome;
}

static int open_clock(struct cache *cache, char *reason)
{
	struct meta_txn *txn;
	uint64_t last = 0;
	int error = meta_begin_read(cache->meta, &txn);

	if (!error) {
		error = meta_value_get(txn, "clock", &last, sizeof(last));
		meta_abort(txn);
	}
	if (error < 0)
		return fail(reason, error, "cannot read the index: %s",
			    strerror(-error));
	hlc_init(&cache->hlc, cache->hlc.node, last);
	return 0;
}

static int open_tiers(struct cache *cache, char *reason)
{
	const struct cache_config *config = &cache->config;
	const char *home =
		config->disk_dir ? config->disk_dir : config->memory_dir;
	int arena_outcome, outcome, error;

	/* The disk first: its lock names the process that has it. */
	if (config->disk_dir)
		error = open_disk(cache, reason);
	else if ((error = node_get(home, &cache->hlc.node)))
		fail(reason, error, "%s/node: %s", home, strerror(-error));
	if (error)
		return error;
	arena_outcome = open_arena(cache, reason);
	if (arena_outcome < 0)
		return arena_outcome;
	outcome = open_index(cache, arena_outcome == ARENA_FRESH, reason);
	if (outcome < 0)
		return outcome;
	error = open_clock(cache, reason);
	if (error)
		return error;
	error = pages_new(cache, &cache->pages);
	if (!error && outcome == META_REBUILD)
		error = cache_rebuild(cache);
	if (!error)
		error = cache_recover(cache, arena_outcome);
	if (error)
		return fail(reason, error, "%s: cannot recover: %s", home,
			    strerror(-error));
	return 0;
}

static int open_parts(struct cache *cache, char *reason)
{
	const struct cache_config *config = &cache->config;
	uint64_t ttl_ns = (uint64_t)(config->failed_get_ttl_seconds * 1e9);
	int error = negative_new(ttl_ns, config->failed_get_cache_max_entries,
				 &cache->negative);

	if (!error)
		error = misses_new(cache, &cache->misses);
	if (!error)
		error = writeback_new(cache, &cache->writeback);
	if (!error)
		error = fetches_new(cache, &cache->fetches);
	if (!error)
		error = evictor_new(cache, &cache->evictor);
	if (!error)
		error = ahead_new(cache, &cache->ahead);
	if (!error)
		error = stagings_new(cache, &cache->stagings);
	return error ? fail(reason, error, "cannot start: %s", strerror(-error))
		     : 0;
}

/* The patterns, each terminated, an empty one at the end. */
static char *split_patterns(const char *patterns)
{
	size_t len = patterns ? strlen(patterns) : 0;
	char *list = calloc(1, len + 2), *to = list;

	for (size_t i = 0; list && i < len; i++) {
		if (patterns[i] != ':')
			*to++ = patterns[i];
		else if (to > list && to[-1])
			to++;
	}
	return list;
}

static void release(struct cache *cache, bool keep_memory)
{
	stagings_free(cache->stagings);
	evictor_free(cache->evictor);
	fetches_free(cache->fetches);
	ahead_free(cache->ahead);
	writeback_free(cache->writeback);
	misses_free(cache->misses);
	pages_free(cache->pages);
	negative_free(cache->negative);
	if (cache->io)
		io_close(cache->io);
	if (cache->buckets)
		buckets_close(cache->buckets);
	if (cache->meta)
		meta_close(cache->meta);
	if (cache->arena)
		arena_close(cache->arena, keep_memory);
	stale_free(cache->stale);
	free(cache->temporary);
	free(cache->counters);
	free(cache);
}

int cache_open(const struct cache_config *config, struct cache **ret,
	       char *ret_reason)
{
	struct cache *cache = calloc(1, sizeof(*cache));
	int error = -ENOMEM;

	ret_reason[0] = 0;
	if (!cache)
		return fail(ret_reason, -ENOMEM, "out of memory");
	cache->config = *config;
	cache->counters = calloc(1, sizeof(*cache->counters));
	cache->temporary = split_patterns(config->temporary_names);
	if (!cache->counters || !cache->temporary ||
	    stale_new(&cache->stale) != 0) {
		fail(ret_reason, error, "out of memory");
		goto err_release;
	}
	error = open_tiers(cache, ret_reason);
	if (error)
		goto err_release;
	error = open_parts(cache, ret_reason);
	if (error)
		goto err_release;
	*ret = cache;
	return 0;

err_release:
	release(cache, true);
	return error;
}

/* ---- stopping ---- */

void cache_shutdown_begin(struct cache *cache)
{
	atomic_store(&cache->stopping, true);
	writeback_kick(cache->writeback, true);
}

void cache_close(struct cache *cache, bool keep_memory)
{
	uint64_t timeout_ns = cache->config.stop_timeout_ms * CLOCK_NS_PER_MS;
	uint64_t left;
	int error;

	cache_shutdown_begin(cache);
	error = writeback_wait(cache->writeback, UINT64_MAX, true,
			       clock_monotonic_ns() + timeout_ns);
	left = atomic_load(&cache->counters->pending_pages);
	if (error && left)
		log_warning("stop: %llu pages (%llu bytes) are not on disk yet "
			    "(%s); %s",
			    (unsigned long long)left,
			    (unsigned long long)atomic_load(
				    &cache->counters->pending_bytes),
			    strerror(-error),
			    keep_memory
				    ? "they stay in memory for the next start"
				    : "they are lost");
	release(cache, keep_memory);
}

/* ---- the parts ---- */

struct arena *cache_arena(struct cache *cache)
{
	return cache->arena;
}

struct buckets *cache_buckets(struct cache *cache)
{
	return cache->buckets;
}

struct io *cache_io(struct cache *cache)
{
	return cache->io;
}

struct meta *cache_meta(struct cache *cache)
{
	return cache->meta;
}

struct negative *cache_negative(struct cache *cache)
{
	return cache->negative;
}

void cache_changed(struct cache *cache, const struct cache_name *name)
{
	/* While the cache is being opened nobody knows of any name yet. */
	if (cache->config.changed && cache->stagings)
		cache->config.changed(cache->config.changed_arg, name);
}

int cache_sync(struct cache *cache)
{
	uint64_t bytes = atomic_load(&cache->counters->pending_bytes);

	return writeback_wait(cache->writeback, UINT64_MAX, true,
			      clock_deadline_ns(bytes));
}
