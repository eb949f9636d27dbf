/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_META_INTERNAL_H
#define PAGEFS_META_INTERNAL_H

/*
 * What the files of meta/ share: the two environments, transactions, and the
 * guarded calls through which alone LMDB's tables are touched.
 *
 * Lock order: being the writer, remap, pool_lock; nothing is taken within
 * writer_lock.  LMDB's own writer mutex (robust, shared between processes) is
 * taken by the writer only.
 */

#include <lmdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "meta/index.h"

/* Of the tables' rows.  A newer one in the index is refused, not rebuilt. */
#define META_FORMAT 1u

enum table {
	TABLE_NAMES,
	TABLE_OBJECTS,
	TABLE_CHUNKS,
	TABLE_ATTRS,
	TABLE_PENDING,
	TABLE_ORPHANS,
	TABLE_TOMBS,
	TABLE_BUCKETS,
	TABLE_STASH,
	TABLE_VALUES,
	TABLES,
};
extern const char *const table_names[TABLES];

#define TIERS 2 /* indexed by enum meta_tier */

/* One LMDB environment.  Set at open, then read-only but for the atomics. */
struct env {
	MDB_env *mdb; /* NULL: there is none */
	MDB_dbi dbi[TABLES];
	char *dir;	      /* owned */
	const char *label;    /* "memory" or "disk", for messages */
	bool rebuilding;      /* meta_rebuilt() has not been called yet */
	_Atomic bool damaged; /* found at run time: rebuilt at the next open */
	_Atomic bool full;    /* the map was: grown before the next write */
	_Atomic bool dead;    /* no call into LMDB is safe any more */
};

/* A transaction's part in one environment, begun when first touched. */
struct side {
	MDB_txn *mdb; /* kept, reset, between uses of a read transaction */
	bool begun;
	bool bound[TABLES]; /* the cursor belongs to this use of mdb */
	MDB_cursor *cursor[TABLES];
};

/* Owned by the thread that began it; pooled ones by the pool. */
struct meta_txn {
	struct meta *meta;
	bool write;
	int error; /* the first failure of a write: it can't commit */
	struct side side[TIERS];
	struct meta_totals change; /* modulo 2^64, added at commit */
	bool changed;
	struct meta_txn *next; /* in the pool */
};

struct meta {
	struct env env[TIERS];
	enum meta_tier home;

	pthread_mutex_t writer_lock;
	pthread_cond_t writer_gone;
	bool writing; /* guarded by writer_lock: there is a writer */
	struct meta_txn write_txn; /* the writer's */
	uint8_t tomb_at[16];	   /* the writer's: where the sweep is */

	/* Held shared by each transaction, exclusively while a map moves. */
	pthread_rwlock_t remap;

	pthread_mutex_t pool_lock;
	struct meta_txn *pool; /* guarded by pool_lock: idle read txns */
};

/* ---- db.c: calls into LMDB ---- */

/* A call that trips over one of LMDB's own assertions (a damaged page) comes
 * back as -EBADMSG instead of aborting the process.  0, META_ABSENT (no such
 * row; DB_EXISTS: where a flag asked) or -errno throughout.  A failed change
 * dooms its transaction. */
#define DB_EXISTS 3

int db_error(struct env *env, int rc);
void db_assert_failed(MDB_env *mdb, const char *message);

int db_txn_begin(struct env *env, bool write, MDB_txn **ret);
int db_txn_renew(struct env *env, MDB_txn *mdb);
int db_txn_commit(struct env *env, MDB_txn *mdb);
void db_txn_abort(struct env *env, MDB_txn *mdb);

int db_get(struct meta_txn *txn, enum meta_tier tier, enum table table,
	   const void *key, size_t key_len, MDB_val *ret);
/* With MDB_NOOVERWRITE and DB_EXISTS, *value is the row that is there. */
int db_put(struct meta_txn *txn, enum meta_tier tier, enum table table,
	   const void *key, size_t key_len, MDB_val *value, unsigned flags);
/* The same for keys that mostly ascend: pages fill up instead of being half
 * full after a split. */
int db_append(struct meta_txn *txn, enum meta_tier tier, enum table table,
	      const void *key, size_t key_len, MDB_val *value);
int db_del(struct meta_txn *txn, enum meta_tier tier, enum table table,
	   const void *key, size_t key_len);

/* The transaction's own cursor on a table: for look-ups that end before the
 * next one begins.  Not closed by the caller. */
int db_cursor(struct meta_txn *txn, enum meta_tier tier, enum table table,
	      MDB_cursor **ret);
/* A cursor of the caller's. */
int db_cursor_open(struct meta_txn *txn, enum meta_tier tier, enum table table,
		   MDB_cursor **ret);
void db_cursor_close(MDB_cursor *cursor);
int db_seek(struct meta_txn *txn, enum meta_tier tier, MDB_cursor *cursor,
	    MDB_val *key, MDB_val *value, MDB_cursor_op op);
int db_cursor_del(struct meta_txn *txn, enum meta_tier tier,
		  MDB_cursor *cursor);

/* The rows from `from` on whose keys begin with the first prefix_len bytes of
 * it, until `row` returns non-zero. */
int db_each(struct meta_txn *txn, enum meta_tier tier, enum table table,
	    const void *from, size_t from_len, size_t prefix_len,
	    int (*row)(void *arg, const MDB_val *key, const MDB_val *value),
	    void *arg);

/* Says, at most once a second, that a row can't be read.  Such a row counts
 * as absent. */
void db_bad_row(enum table table);

/* ---- txn.c ---- */

/* The part of the transaction in that environment, begun: 0 or -errno. */
int txn_side(struct meta_txn *txn, enum meta_tier tier, struct side **ret);
void txn_pool_release(struct meta *meta);

/* ---- env.c ---- */

struct inspection {
	bool exists;
	bool walk;	 /* whole: else its tables' ends are looked at */
	bool unfinished; /* its rebuilding was; `why` says so, too */
	char why[160];	 /* not empty: damaged, or not to be trusted */
};

/* Looks at the files of dir without LMDB: 0, -EPROTO (of a newer version) or
 * -errno. */
int env_inspect(const char *dir, const char *label, struct inspection *ret);
/* Takes the files out of the way.  `keep`: as dir.damaged-<n>, the only one of
 * its kind; ret_kept (may be NULL) gets its name. */
int env_discard(const char *dir, bool keep, char *ret_kept, size_t size);
/* Opens dir (created where it is missing), marks it unclean, opens tables. */
int env_open(struct env *env, const char *dir, const char *label,
	     bool rebuilding);
/* It is filled again. */
int env_rebuilt(struct env *env);
void env_close(struct env *env, bool clean);
/* Makes room for a write transaction, while nobody else writes. */
int env_grow(struct env *env, pthread_rwlock_t *remap);
/* Whatever was found, the next open rebuilds. */
void env_condemn(struct env *env, const char *why);

/* ---- state.c: the mark that tells how the last daemon ended ---- */

struct env_state {
	bool clean;
	bool damaged;
	bool rebuilding; /* new, and not filled yet */
	char boot[40];
	uint64_t bytes; /* clean: of the data file, and its mtime then */
	uint64_t mtime_ns;
};

/* 0, META_ABSENT, -EBADMSG, -EPROTO (newer) or -errno. */
int state_read(const char *dir, struct env_state *ret);
int state_write(const char *dir, const struct env_state *state);
void state_boot_id(char ret[40]);

/* ---- walk.c ---- */

struct walk_report;
struct walk {
	int pid;
	struct walk_report *report;
};
enum walk_outcome {
	WALK_SOUND,
	WALK_DAMAGED,
	WALK_NEWER
};

/* Starts a child that reads the environment in dir.  Failing to is not an
 * error: there is a warning, and walk_wait() says WALK_SOUND. */
void walk_start(struct walk *walk, const char *dir, bool whole);
enum walk_outcome walk_wait(struct walk *walk, char *ret_why, size_t size);

/* ---- values.c ---- */

void totals_add(struct meta_txn *txn, const struct meta_entry *entry, int sign);
int totals_store(struct meta_txn *txn);

/* ---- decoders, of bytes that LMDB gave us: 0 or -EBADMSG ---- */

int chunk_row_decode(const void *key, size_t key_len, const void *value,
		     size_t len, struct meta_chunk *ret);
int object_row_decode(const void *value, size_t len, struct meta_object *ret);
int pending_row_decode(const void *key, size_t key_len, const void *value,
		       size_t len, struct meta_pending *ret);

/* Tests put one here that collides. */
extern uint64_t (*meta_hash_function)(const void *bytes, size_t len);

#endif
