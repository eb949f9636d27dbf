/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/internal.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/lib/clock.h"
#include "tools/lib/endian.h"
#include "tools/lib/fault.h"
#include "tools/lib/log.h"

#define MIB ((size_t)1 << 20)
#define MAP_MIN_BYTES (64 * MIB)
#define MAP_SPARE_BYTES (32 * MIB) /* below it, or an eighth: grow */
#define MAP_TIGHT_BYTES (8 * MIB)  /* a write transaction must not run out */
#define GROW_WAIT_NS (100 * CLOCK_NS_PER_MS)
#define GROW_WAIT_TIGHT_NS (2 * CLOCK_NS_PER_SECOND)
#define READERS_MAX 1024
/* LMDB's lock file: its header and a cache line a reader, rounded up. */
#define LOCK_BYTES (READERS_MAX * 64 + 4096)

/* What lies at the start of LMDB's two meta pages (its version 1, 64-bit):
 * checked before LMDB sees it, for it divides by what it finds there. */
#define LMDB_PAGE_BYTES 4096
#define LMDB_MAGIC 0xBEEFC0DEu
#define LMDB_VERSION 1u
#define LMDB_P_META 0x08u
#define LMDB_DBS 2

struct lmdb_db {
	uint32_t page_bytes; /* of the first one only */
	uint16_t flags;
	uint16_t depth;
	uint64_t branch, leaf, overflow, entries, root;
};

struct lmdb_meta_page {
	uint64_t pgno;
	uint16_t pad;
	uint16_t flags;
	uint32_t bounds;
	uint32_t magic;
	uint32_t version;
	uint64_t address;
	uint64_t map_bytes;
	struct lmdb_db dbs[LMDB_DBS];
	uint64_t last_page;
	uint64_t txnid;
};

static_assert(sizeof(struct lmdb_db) == 48, "LMDB's format");
static_assert(offsetof(struct lmdb_meta_page, magic) == 16, "LMDB's format");
static_assert(offsetof(struct lmdb_meta_page, dbs) == 40, "LMDB's format");
static_assert(sizeof(struct lmdb_meta_page) == 152, "LMDB's format");

/* ---- before LMDB ---- */

/* In the host's byte order: LMDB's files don't move between machines. */
static bool meta_page_is_sound(const struct lmdb_meta_page *page,
			       uint64_t file_bytes)
{
	if (page->magic != LMDB_MAGIC || page->version != LMDB_VERSION ||
	    (page->flags & LMDB_P_META) == 0 ||
	    page->dbs[0].page_bytes != LMDB_PAGE_BYTES ||
	    page->last_page > UINT64_C(1) << 40)
		return false;
	for (int i = 0; i < LMDB_DBS; i++) {
		uint64_t root = page->dbs[i].root;

		if (root != UINT64_MAX &&
		    (root > page->last_page ||
		     (root + 1) * LMDB_PAGE_BYTES > file_bytes))
			return false;
	}
	return true;
}

static const char *data_file_fault(int fd, uint64_t file_bytes)
{
	struct lmdb_meta_page page;

	if (file_bytes < 2 * LMDB_PAGE_BYTES)
		return "its data file is cut short";
	for (int i = 0; i < 2; i++) {
		ssize_t got =
			pread(fd, &page, sizeof(page), i * LMDB_PAGE_BYTES);

		if (got != (ssize_t)sizeof(page))
			return "its data file can't be read";
		if (!meta_page_is_sound(&page, file_bytes))
			return "its data file begins with garbage";
	}
	return NULL;
}

static uint64_t mtime_ns(const struct stat *st)
{
	return clock_from_timespec(st->st_mtim);
}

static const char *state_fault(const struct env_state *state,
			       const struct stat *st, bool *ret_walk)
{
	char boot[40];

	state_boot_id(boot);
	if (state->damaged)
		return "damage was found while it was in use";
	if (!state->clean &&
	    (boot[0] == '\0' || strcmp(boot, state->boot) != 0))
		return "the host stopped without it being closed";
	/* Closed, and not touched since: no need to read all of it. */
	*ret_walk = !state->clean || state->bytes != (uint64_t)st->st_size ||
		    state->mtime_ns != mtime_ns(st);
	return NULL;
}

static int inspect_data(int fd, const char *dir, const char *label,
			struct inspection *ret)
{
	struct env_state state;
	const char *fault = NULL;
	struct stat st;
	int rc = state_read(dir, &state);

	if (rc == -EPROTO) {
		log_error("index (%s) %s: made by a newer version of pagefs; "
			  "use that one, or another directory",
			  label, dir);
		return rc;
	}
	if (fstat(fd, &st) < 0)
		return -errno;
	ret->exists = true;
	if (rc != 0)
		fault = "its state file is missing or damaged";
	else if (state.rebuilding) {
		fault = "its rebuilding was not finished";
		ret->unfinished = true;
	}
	if (fault == NULL)
		fault = state_fault(&state, &st, &ret->walk);
	if (fault == NULL)
		fault = data_file_fault(fd, (uint64_t)st.st_size);
	if (fault != NULL)
		snprintf(ret->why, sizeof(ret->why), "%s", fault);
	return 0;
}

static int path_join(char *ret, size_t size, const char *dir, const char *name)
{
	int len = snprintf(ret, size, "%s/%s", dir, name);

	return len < 0 || (size_t)len >= size ? -ENAMETOOLONG : 0;
}

int env_inspect(const char *dir, const char *label, struct inspection *ret)
{
	char path[PATH_MAX];
	int rc = path_join(path, sizeof(path), dir, "data.mdb");
	int fd;

	*ret = (struct inspection){0};
	if (rc < 0)
		return rc;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	rc = inspect_data(fd, dir, label, ret);
	close(fd);
	return rc;
}

/* ---- out of the way ---- */

static int remove_files(const char *dir)
{
	static const char *const names[] = {"data.mdb", "lock.mdb", "state",
					    "state.new"};
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int rc = path_join(path, sizeof(path), dir, names[i]);

		if (rc < 0)
			return rc;
		if (unlink(path) < 0 && errno != ENOENT && errno != ENOTDIR)
			return -errno;
	}
	return 0;
}

/* Removes those set aside earlier; the highest of their numbers. */
static unsigned remove_kept(const char *parent, const char *base)
{
	size_t base_len = strlen(base);
	unsigned highest = 0;
	struct dirent *d;
	DIR *stream = opendir(parent);

	if (stream == NULL)
		return 0;
	while ((d = readdir(stream)) != NULL) {
		char path[PATH_MAX];
		unsigned n;
		int end = 0;

		if (strncmp(d->d_name, base, base_len) != 0 ||
		    sscanf(d->d_name + base_len, ".damaged-%9u%n", &n, &end) !=
			    1 ||
		    d->d_name[base_len + (size_t)end] != '\0')
			continue;
		if (n > highest)
			highest = n;
		if (path_join(path, sizeof(path), parent, d->d_name) == 0 &&
		    remove_files(path) == 0)
			rmdir(path);
	}
	closedir(stream);
	return highest;
}

int env_discard(const char *dir, bool keep, char *ret_kept, size_t size)
{
	const char *slash = strrchr(dir, '/');
	char parent[PATH_MAX];
	char kept[PATH_MAX + 32];
	unsigned n;

	if (ret_kept != NULL)
		snprintf(ret_kept, size, "nothing");
	if (!keep || slash == NULL)
		return remove_files(dir);
	snprintf(parent, sizeof(parent), "%.*s", (int)(slash - dir), dir);
	n = remove_kept(parent, slash + 1) + 1;
	snprintf(kept, sizeof(kept), "%s.damaged-%u", dir, n);
	if (rename(dir, kept) < 0)
		return remove_files(dir);
	if (ret_kept != NULL)
		snprintf(ret_kept, size, "%s", kept);
	return 0;
}

/* ---- open and close ---- */

void env_condemn(struct env *env, const char *why)
{
	struct env_state state = {.damaged = true};
	int rc;

	if (env->damaged)
		return;
	env->damaged = true;
	state_boot_id(state.boot);
	rc = state_write(env->dir, &state);
	log_error("index (%s) %s is damaged (%s): what it had is missing until "
		  "pagefs is started again and rebuilds it%s",
		  env->label, env->dir, why,
		  rc < 0 ? "; and that could not be noted there" : "");
}

static size_t map_bytes_for(const char *dir)
{
	char path[PATH_MAX];
	struct stat st;
	size_t size, spare;

	if (path_join(path, sizeof(path), dir, "data.mdb") < 0 ||
	    stat(path, &st) < 0)
		return MAP_MIN_BYTES;
	size = (size_t)st.st_size;
	spare = size / 2 > MAP_MIN_BYTES ? size / 2 : MAP_MIN_BYTES;
	return (size + spare + MIB - 1) / MIB * MIB;
}

static int open_tables(struct env *env)
{
	MDB_txn *txn;
	int rc = mdb_txn_begin(env->mdb, NULL, 0, &txn);

	for (int i = 0; i < TABLES && rc == 0; i++) {
		rc = mdb_dbi_open(txn, table_names[i], MDB_CREATE,
				  &env->dbi[i]);
		if (rc != 0)
			mdb_txn_abort(txn);
	}
	if (rc == 0)
		rc = mdb_txn_commit(txn);
	return db_error(env, rc);
}

/* LMDB maps its lock file with holes in it: on a full disk the first touch of
 * one is SIGBUS.  So it gets its blocks before LMDB sees it; once LMDB has
 * locked it, closing it here would take the lock away. */
static int allocate_lock(const char *dir)
{
	char path[PATH_MAX];
	int rc = path_join(path, sizeof(path), dir, "lock.mdb");
	int fd;

	if (rc < 0)
		return rc;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	rc = -posix_fallocate(fd, 0, LOCK_BYTES);
	close(fd);
	/* A file system that can't is one that this can't happen on. */
	return rc == -EOPNOTSUPP || rc == -EINVAL ? 0 : rc;
}

static int open_mdb(struct env *env)
{
	const unsigned flags = MDB_NOSYNC | MDB_NOTLS | MDB_NORDAHEAD;
	int cleared;
	int rc = allocate_lock(env->dir);

	if (rc != 0)
		return rc;
	rc = mdb_env_create(&env->mdb);
	if (rc != 0)
		return db_error(env, rc);
	mdb_env_set_userctx(env->mdb, env);
	mdb_env_set_assert(env->mdb, db_assert_failed);
	mdb_env_set_maxdbs(env->mdb, TABLES);
	mdb_env_set_maxreaders(env->mdb, READERS_MAX);
	mdb_env_set_mapsize(env->mdb, map_bytes_for(env->dir));
	rc = mdb_env_open(env->mdb, env->dir, flags, 0600);
	if (rc == 0)
		rc = mdb_reader_check(env->mdb, &cleared);
	rc = db_error(env, rc);
	if (rc == 0)
		rc = open_tables(env);
	if (rc != 0) {
		mdb_env_close(env->mdb);
		env->mdb = NULL;
	}
	return rc;
}

int env_open(struct env *env, const char *dir, const char *label,
	     bool rebuilding)
{
	struct env_state state = {.rebuilding = rebuilding};
	int rc = fault_point("meta.open");

	if (rc < 0)
		return rc;
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return -errno;
	*env = (struct env){
		.dir = strdup(dir), .label = label, .rebuilding = rebuilding};
	if (env->dir == NULL)
		return -ENOMEM;
	/* First of all: whatever is written from here on isn't synced. */
	state_boot_id(state.boot);
	rc = state_write(dir, &state);
	if (rc == 0)
		rc = open_mdb(env);
	if (rc != 0) {
		free(env->dir);
		env->dir = NULL;
	}
	return rc;
}

int env_rebuilt(struct env *env)
{
	struct env_state state = {0};
	int rc;

	if (!env->rebuilding || env->damaged)
		return 0;
	state_boot_id(state.boot);
	rc = state_write(env->dir, &state);
	if (rc == 0)
		env->rebuilding = false;
	return rc;
}

static void mark_clean(struct env *env)
{
	struct env_state state = {.clean = true, .rebuilding = env->rebuilding};
	struct stat st;
	mdb_filehandle_t fd;

	if (mdb_env_sync(env->mdb, 1) != 0 ||
	    mdb_env_get_fd(env->mdb, &fd) != 0 || fstat(fd, &st) < 0)
		return;
	state_boot_id(state.boot);
	state.bytes = (uint64_t)st.st_size;
	state.mtime_ns = mtime_ns(&st);
	state_write(env->dir, &state);
}

void env_close(struct env *env, bool clean)
{
	if (env->mdb == NULL)
		return;
	if (clean && !env->damaged && !env->dead)
		mark_clean(env);
	mdb_env_close(env->mdb);
	free(env->dir);
	*env = (struct env){0};
}

/* ---- growth ---- */

/* LMDB unmaps the old map before it finds that there is no room for the new
 * one, and is beyond help then; so try first. */
static bool address_space_has(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return false;
	munmap(at, bytes);
	return true;
}

/* remap is held exclusively. */
static int map_resize(struct env *env, size_t old, size_t new)
{
	int rc = fault_point("meta.grow");

	if (rc < 0)
		return rc;
	if (!address_space_has(new - old))
		return -ENOMEM;
	rc = mdb_env_set_mapsize(env->mdb, new);
	if (rc == 0) {
		env->full = false;
		return 0;
	}
	if (rc != EINVAL)
		env->dead = true;
	return db_error(env, rc);
}

int env_grow(struct env *env, pthread_rwlock_t *remap)
{
	static struct log_limit limit;
	struct timespec until;
	MDB_envinfo info;
	size_t used, left, spare;
	uint64_t wait_ns = GROW_WAIT_NS;
	int rc;

	if (env->mdb == NULL)
		return 0;
	if (env->dead)
		return -EIO;
	mdb_env_info(env->mdb, &info);
	used = (info.me_last_pgno + 1) * LMDB_PAGE_BYTES;
	left = info.me_mapsize > used ? info.me_mapsize - used : 0;
	spare = info.me_mapsize / 8;
	if (spare < MAP_SPARE_BYTES)
		spare = MAP_SPARE_BYTES;
	if (left >= spare && !env->full)
		return 0;

	/* A thread that reads while it begins to write would wait here for
	 * itself: a time limit, and another try at the next write. */
	if (left < MAP_TIGHT_BYTES || env->full)
		wait_ns = GROW_WAIT_TIGHT_NS;
	until = clock_to_timespec(clock_monotonic_ns() + wait_ns);
	rc = -pthread_rwlock_clockwrlock(remap, CLOCK_MONOTONIC, &until);
	if (rc == 0) {
		rc = map_resize(env, info.me_mapsize, info.me_mapsize * 2);
		pthread_rwlock_unlock(remap);
	}
	if (rc == 0 || (left >= MAP_TIGHT_BYTES && !env->dead))
		return 0;
	log_limited(&limit, LOG_LEVEL_ERROR,
		    "index (%s) %s: its map of %zu MiB is full and can't grow "
		    "(%s)%s",
		    env->label, env->dir, info.me_mapsize / MIB, strerror(-rc),
		    rc == -ENOMEM
			    ? "; raise the limit of address space (ulimit -v)"
			    : "; a read transaction is kept too long");
	return rc == -ETIMEDOUT ? -EBUSY : rc;
}
