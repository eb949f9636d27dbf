/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/rebuild.h"
#include "cache/rebuild_internal.h"
#include "cache/recover.h"
#include "cache/rows.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/lib/clock.h"

#define PROGRESS_NS (CLOCK_NS_PER_SECOND / 2)

struct fsck {
	const struct cache_fsck_config *config;
	struct cache_fsck_report *report;
	struct cache *cache;
	struct meta_txn *txn;
	char memory_dir[64]; /* the index wants one; it stays empty */
	uint64_t *good;	     /* places of records that are as written */
	size_t good_count, good_room;
	int error;
};

static void found(struct fsck *fsck, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void found(struct fsck *fsck, const char *format, ...)
{
	char line[KEY_MAX_BYTES + 256];
	va_list arguments;

	if (!fsck->config->found)
		return;
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	fsck->config->found(fsck->config->arg, line);
}

/* ---- records ---- */

static uint64_t place_number(uint32_t bucket, uint32_t block)
{
	return (uint64_t)bucket << 32 | block;
}

static int good_record(void *arg, const struct bucket_record *record)
{
	struct fsck *fsck = arg;
	uint64_t *grown;

	fsck->report->records++;
	if (record->kind != BUCKET_CHUNK)
		return 0;
	fsck->report->chunks++;
	fsck->report->chunk_bytes += record->len_bytes;
	if (fsck->good_count == fsck->good_room) {
		fsck->good_room = fsck->good_room ? 2 * fsck->good_room : 1024;
		grown = realloc(fsck->good, fsck->good_room * sizeof(*grown));
		if (!grown)
			return fsck->error = -ENOMEM;
		fsck->good = grown;
	}
	fsck->good[fsck->good_count++] =
		place_number(record->place.bucket, record->place.data_block);
	return 0;
}

static int compare_places(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int scan_one(struct fsck *fsck, uint32_t id)
{
	uint64_t damaged = 0;
	bool verify = fsck->config->mode == CACHE_FSCK_VERIFY;
	int error = bucket_scan(fsck->cache->buckets, id, verify, good_record,
				fsck, &damaged);

	if (fsck->error)
		return fsck->error;
	fsck->report->buckets++;
	fsck->report->damaged += damaged;
	if (error < 0)
		found(fsck, "bucket %u: cannot be read: %s", (unsigned)id,
		      strerror(-error));
	else if (damaged)
		found(fsck, "bucket %u: %llu damaged records", (unsigned)id,
		      (unsigned long long)damaged);
	return 0;
}

static int scan_all(struct fsck *fsck)
{
	const struct cache_fsck_config *config = fsck->config;
	uint64_t next_ns = 0;
	uint32_t *ids;
	size_t count;
	int error = bucket_list(fsck->cache->buckets, &ids, &count);

	if (error)
		return error;
	for (size_t i = 0; !error && i < count; i++) {
		error = scan_one(fsck, ids[i]);
		if (!config->progress || clock_monotonic_ns() < next_ns)
			continue;
		next_ns = clock_monotonic_ns() + PROGRESS_NS;
		config->progress(config->arg, i + 1, count);
	}
	free(ids);
	if (fsck->good_count > 1)
		qsort(fsck->good, fsck->good_count, sizeof(*fsck->good),
		      compare_places);
	return error;
}

/* ---- the index against them ---- */

struct whole {
	struct fsck *fsck;
	const struct meta_entry *entry;
	struct meta_chunk newest; /* of the index at hand */
	bool has_newest;
	uint32_t count;
};

static void count_newest(struct whole *whole)
{
	const struct fsck *fsck = whole->fsck;
	uint64_t place =
		place_number(whole->newest.bucket, whole->newest.data_block);

	if (whole->has_newest && fsck->good_count &&
	    bsearch(&place, fsck->good, fsck->good_count, sizeof(place),
		    compare_places))
		whole->count++;
	whole->has_newest = false;
}

static int whole_row(void *arg, const struct meta_chunk *row)
{
	struct whole *whole = arg;
	uint64_t clock = whole->entry->version.clock;

	if (whole->has_newest && whole->newest.id.index != row->id.index)
		count_newest(whole);
	if (row->id.version.clock <= clock && cache_chunk_current(row, clock)) {
		whole->newest = *row;
		whole->has_newest = true;
	}
	return 0;
}

static void check_page(struct fsck *fsck, const struct cache_name *name,
		       const struct meta_entry *entry)
{
	struct whole whole = {.fsck = fsck, .entry = entry};
	char key[KEY_MAX_BYTES];
	size_t len = 0;

	fsck->report->pages++;
	meta_chunk_each(fsck->txn, META_DISK, entry->object, 0, whole_row,
			&whole);
	count_newest(&whole);
	if (whole.count == entry->chunks)
		return;
	if (!(entry->flags & META_ON_DISK)) {
		fsck->report->pending++;
		return;
	}
	fsck->report->incomplete++;
	if (meta_key(fsck->txn, name->dir, name->name, name->len, key, &len))
		len = 0;
	found(fsck, "%.*s: %u of its %u chunks are lost", (int)len, key,
	      entry->chunks - whole.count, entry->chunks);
}

struct walking {
	struct fsck *fsck;
	uint64_t dir;
	struct object_list *dirs;
};

static int check_name(void *arg, uint64_t hash, const char *name, size_t len,
		      const struct meta_entry *entry)
{
	struct walking *walking = arg;
	struct fsck *fsck = walking->fsck;
	struct cache_name at = {walking->dir, name, len};

	(void)hash;
	fsck->report->names++;
	if (entry->type == META_DIR)
		fsck->error = object_list_add(walking->dirs, entry->object);
	else if (entry->chunks)
		check_page(fsck, &at, entry);
	return fsck->error;
}

static int check_names(struct fsck *fsck)
{
	struct object_list dirs = {0};
	int error = meta_begin_read(fsck->cache->meta, &fsck->txn);

	if (error)
		return error;
	error = object_list_add(&dirs, META_ROOT);
	while (!error && dirs.count) {
		struct walking walking = {fsck, dirs.all[--dirs.count], &dirs};

		error = meta_list(fsck->txn, walking.dir, 0, NULL, 0,
				  check_name, &walking);
		error = error < 0 ? error : fsck->error;
	}
	meta_abort(fsck->txn);
	free(dirs.all);
	return error;
}

/* ---- rebuild ---- */

static int empty_index(struct fsck *fsck)
{
	char path[4096];
	struct dirent *entry;
	DIR *dir;
	int error = 0;

	if (snprintf(path, sizeof(path), "%s/index", fsck->config->dir) >=
	    (int)sizeof(path))
		return -ENAMETOOLONG;
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while (!error && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' &&
		    unlinkat(dirfd(dir), entry->d_name, 0) < 0)
			error = -errno;
	closedir(dir);
	return error;
}

static int rebuild(struct fsck *fsck)
{
	struct cache_fsck_report *report = fsck->report;
	struct rebuild rebuilt;
	int error = cache_rebuild_count(fsck->cache, &rebuilt);

	report->records = rebuilt.records;
	report->damaged = rebuilt.damaged;
	report->names = rebuilt.names - rebuilt.lost;
	report->incomplete = rebuilt.lost;
	return error;
}

/* ---- opening and closing ---- */

/* Opening makes what is not there: a directory that holds no store must not
 * become one.  Where the superblock is lost, the buckets still say whose it
 * is. */
static int look(const char *dir_path)
{
	DIR *dir = opendir(dir_path), *buckets;
	struct dirent *entry;
	int fd, error = -ENOTDIR;

	if (!dir)
		return -errno;
	if (!faccessat(dirfd(dir), "pagefs", F_OK, AT_SYMLINK_NOFOLLOW))
		error = 0;
	fd = openat(dirfd(dir), "buckets", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	buckets = fd < 0 ? NULL : fdopendir(fd);
	while (error && buckets && (entry = readdir(buckets)))
		if (strstr(entry->d_name, ".bucket"))
			error = 0;
	if (buckets)
		closedir(buckets);
	closedir(dir);
	return error;
}

static int refuse(const char *dir, int error, char *why, char *reason)
{
	if (error == -EWOULDBLOCK) {
		/* What follows is advice for those who mount. */
		why[strcspn(why, ";")] = '\0';
		snprintf(reason, 512, "%s; unmount it first", why);
	} else if (why[0]) {
		snprintf(reason, 512, "%s", why);
	} else {
		snprintf(reason, 512, "%s: %s", dir,
			 error == -ENOTDIR ? "not a pagefs disk directory"
					   : strerror(-error));
	}
	return error;
}

static int open_buckets(struct fsck *fsck, char *reason)
{
	struct cache *cache = fsck->cache;
	struct io_config io = {.mode = IO_AUTO, .depth = 64};
	struct buckets_config buckets = {.dir = fsck->config->dir};
	char why[256] = "";
	int error = look(fsck->config->dir);

	if (!error)
		error = io_open(&io, &cache->io);
	if (!error) {
		buckets.io = cache->io;
		error = buckets_open(&buckets, &cache->buckets, why);
	}
	if (error)
		return refuse(fsck->config->dir, error, why, reason);
	cache->hlc.node = buckets_node(cache->buckets);
	return 0;
}

static int open_index(struct fsck *fsck, char *reason)
{
	struct meta_config config = {
		.memory_dir = fsck->memory_dir,
		.disk_dir = fsck->config->dir,
		.memory_fresh = true,
	};
	int outcome = stale_new(&fsck->cache->stale);

	snprintf(fsck->memory_dir, sizeof(fsck->memory_dir),
		 "/tmp/pagefs-fsck.XXXXXX");
	if (!outcome && !mkdtemp(fsck->memory_dir))
		outcome = -errno;
	if (!outcome)
		outcome = meta_open(&config, &fsck->cache->meta);
	if (outcome < 0)
		snprintf(reason, 512, "%s/index: %s", fsck->config->dir,
			 strerror(-outcome));
	return outcome;
}

static void remove_memory_dir(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' &&
		    unlinkat(dirfd(dir), entry->d_name, 0) < 0) {
			/* A directory of the index in it. */
			char below[512];

			snprintf(below, sizeof(below), "%s/%s", path,
				 entry->d_name);
			if (errno == EISDIR || errno == EPERM)
				remove_memory_dir(below);
		}
	if (dir)
		closedir(dir);
	rmdir(path);
}

static void release(struct fsck *fsck)
{
	struct cache *cache = fsck->cache;

	if (cache->meta)
		meta_close(cache->meta);
	if (fsck->memory_dir[0])
		remove_memory_dir(fsck->memory_dir);
	if (cache->io)
		io_close(cache->io);
	if (cache->buckets)
		buckets_close(cache->buckets);
	stale_free(cache->stale);
	free(cache);
	free(fsck->good);
}

static int check(struct fsck *fsck, char *reason)
{
	int outcome = scan_all(fsck);

	if (!outcome)
		outcome = open_index(fsck, reason);
	if (outcome == META_REBUILD)
		found(fsck, "the index is missing or damaged: the next mount "
			    "builds it from the buckets");
	return outcome ? outcome : check_names(fsck);
}

static int run(struct fsck *fsck, char *reason)
{
	int outcome = open_buckets(fsck, reason);

	if (outcome)
		return outcome;
	if (fsck->config->mode != CACHE_FSCK_REBUILD)
		return check(fsck, reason);
	outcome = empty_index(fsck);
	if (!outcome)
		outcome = open_index(fsck, reason);
	return outcome < 0 ? outcome : rebuild(fsck);
}

int cache_fsck(const struct cache_fsck_config *config,
	       struct cache_fsck_report *ret, char *ret_reason)
{
	struct fsck fsck = {.config = config, .report = ret};
	int error;

	*ret = (struct cache_fsck_report){0};
	ret_reason[0] = 0;
	fsck.cache = calloc(1, sizeof(*fsck.cache));
	if (!fsck.cache)
		return -ENOMEM;
	fsck.cache->config.disk_dir = config->dir;
	error = run(&fsck, ret_reason);
	release(&fsck);
	if (error < 0 && !ret_reason[0])
		snprintf(ret_reason, 512, "%s: %s", config->dir,
			 strerror(-error));
	return error < 0 ? error : 0;
}
