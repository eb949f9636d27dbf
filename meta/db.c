/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/internal.h"

#include <errno.h>
#include <setjmp.h>
#include <string.h>
#include <sys/statvfs.h>

#include "tools/lib/fault.h"
#include "tools/lib/log.h"

/* A file system with less than this is full. */
#define FULL_BYTES (UINT64_C(1) << 20)

const char *const table_names[TABLES] = {
	[TABLE_NAMES] = "names",     [TABLE_OBJECTS] = "objects",
	[TABLE_CHUNKS] = "chunks",   [TABLE_ATTRS] = "attrs",
	[TABLE_PENDING] = "pending", [TABLE_ORPHANS] = "orphans",
	[TABLE_TOMBS] = "tombs",     [TABLE_BUCKETS] = "buckets",
	[TABLE_STASH] = "stash",     [TABLE_VALUES] = "values",
};

/* LMDB asserts on damaged pages and aborts; the only way past that is to jump
 * out of its assertion.  What the call had allocated is leaked then, and the
 * environment is condemned. */
struct guard {
	jmp_buf escape;
	struct guard *outer;
};
static _Thread_local struct guard *guard_top;

static inline void guard_enter(struct guard *guard)
{
	guard->outer = guard_top;
	guard_top = guard;
}

static inline void guard_leave(struct guard *guard)
{
	guard_top = guard->outer;
}

void db_assert_failed(MDB_env *mdb, const char *message)
{
	env_condemn(mdb_env_get_userctx(mdb), message);
	if (guard_top != NULL)
		_longjmp(guard_top->escape, 1);
}

int db_error(struct env *env, int rc)
{
	switch (rc) {
	case MDB_SUCCESS:
		return 0;
	case MDB_NOTFOUND:
		return META_ABSENT;
	case MDB_KEYEXIST:
		return DB_EXISTS;
	case MDB_MAP_FULL:
		env->full = true;
		return -ENOSPC;
	case MDB_MAP_RESIZED:
		env->full = true;
		return -EAGAIN;
	case MDB_PAGE_NOTFOUND:
	case MDB_CORRUPTED:
	case MDB_CURSOR_FULL:
	case MDB_INVALID:
	case MDB_INCOMPATIBLE:
		env_condemn(env, mdb_strerror(rc));
		return -EBADMSG;
	case MDB_VERSION_MISMATCH:
		return -EPROTO;
	case MDB_PANIC:
	case MDB_BAD_TXN:
	case MDB_BAD_RSLOT:
		return -EIO;
	case MDB_READERS_FULL:
	case MDB_DBS_FULL:
		return -EBUSY;
	case MDB_TXN_FULL:
	case MDB_PAGE_FULL:
		return -E2BIG;
	case MDB_BAD_VALSIZE:
	case MDB_BAD_DBI:
		return -EINVAL;
	default:
		return rc > 0 ? -rc : -EIO;
	}
}

int db_txn_begin(struct env *env, bool write, MDB_txn **ret)
{
	struct guard guard;
	int rc = fault_point(write ? "meta.begin" : "meta.begin_read");

	if (rc < 0)
		return rc;
	if (env->dead)
		return -EIO;
	guard_enter(&guard);
	if (_setjmp(guard.escape) != 0) {
		/* Perhaps with LMDB's writer mutex held. */
		guard_leave(&guard);
		env->dead = true;
		return -EBADMSG;
	}
	rc = mdb_txn_begin(env->mdb, NULL, write ? 0 : MDB_RDONLY, ret);
	guard_leave(&guard);
	return db_error(env, rc);
}

int db_txn_renew(struct env *env, MDB_txn *mdb)
{
	if (env->dead)
		return -EIO;
	return db_error(env, mdb_txn_renew(mdb));
}

/* LMDB calls a write that was cut short EIO; where its file system is full,
 * that is why. */
static int commit_error(struct env *env, int rc)
{
	mdb_filehandle_t fd;
	struct statvfs st;

	if (rc == EIO && mdb_env_get_fd(env->mdb, &fd) == 0 &&
	    fstatvfs(fd, &st) == 0 &&
	    (uint64_t)st.f_bavail * st.f_frsize < FULL_BYTES)
		return -ENOSPC;
	return db_error(env, rc);
}

int db_txn_commit(struct env *env, MDB_txn *mdb)
{
	struct guard guard;
	int rc = fault_point("meta.commit");

	if (rc < 0) {
		db_txn_abort(env, mdb);
		return rc;
	}
	guard_enter(&guard);
	if (_setjmp(guard.escape) != 0) {
		guard_leave(&guard);
		db_txn_abort(env, mdb);
		return -EBADMSG;
	}
	rc = mdb_txn_commit(mdb);
	guard_leave(&guard);
	return commit_error(env, rc);
}

void db_txn_abort(struct env *env, MDB_txn *mdb)
{
	struct guard guard;

	guard_enter(&guard);
	if (_setjmp(guard.escape) == 0)
		mdb_txn_abort(mdb);
	else
		env->dead = true; /* the writer mutex may be held for good */
	guard_leave(&guard);
}

/* Remembers the first failure: a write can't commit after it. */
static int doomed(struct meta_txn *txn, int rc)
{
	if (rc < 0 && txn->error == 0)
		txn->error = rc;
	return rc;
}

static int op_error(struct meta_txn *txn, enum meta_tier tier, int rc)
{
	struct env *env = &txn->meta->env[tier];

	/* Where LMDB finds its table of tables damaged, it says no more than
	 * that the transaction is in error. */
	if (rc == MDB_BAD_TXN && txn->error == 0)
		rc = MDB_CORRUPTED;
	return doomed(txn, db_error(env, rc));
}

int db_get(struct meta_txn *txn, enum meta_tier tier, enum table table,
	   const void *key, size_t key_len, MDB_val *ret)
{
	struct env *env = &txn->meta->env[tier];
	MDB_val k = {.mv_size = key_len, .mv_data = (void *)(uintptr_t)key};
	struct guard guard;
	struct side *side;
	int rc = txn_side(txn, tier, &side);

	if (rc < 0)
		return rc;
	guard_enter(&guard);
	if (_setjmp(guard.escape) != 0) {
		guard_leave(&guard);
		return doomed(txn, -EBADMSG);
	}
	rc = mdb_get(side->mdb, env->dbi[table], &k, ret);
	guard_leave(&guard);
	return op_error(txn, tier, rc);
}

int db_put(struct meta_txn *txn, enum meta_tier tier, enum table table,
	   const void *key, size_t key_len, MDB_val *value, unsigned flags)
{
	struct env *env = &txn->meta->env[tier];
	MDB_val k = {.mv_size = key_len, .mv_data = (void *)(uintptr_t)key};
	struct guard guard;
	struct side *side;
	int rc = txn_side(txn, tier, &side);

	if (rc == 0)
		rc = fault_point("meta.put");
	if (rc < 0)
		return doomed(txn, rc);
	guard_enter(&guard);
	if (_setjmp(guard.escape) != 0) {
		guard_leave(&guard);
		return doomed(txn, -EBADMSG);
	}
	rc = mdb_put(side->mdb, env->dbi[table], &k, value, flags);
	guard_leave(&guard);
	return op_error(txn, tier, rc);
}

int db_append(struct meta_txn *txn, enum meta_tier tier, enum table table,
	      const void *key, size_t key_len, MDB_val *value)
{
	MDB_val copy = *value;
	int rc = db_put(txn, tier, table, key, key_len, &copy, MDB_APPEND);

	if (rc != DB_EXISTS)
		return rc;
	return db_put(txn, tier, table, key, key_len, value, 0);
}

int db_del(struct meta_txn *txn, enum meta_tier tier, enum table table,
	   const void *key, size_t key_len)
{
	struct env *env = &txn->meta->env[tier];
	MDB_val k = {.mv_size = key_len, .mv_data = (void *)(uintptr_t)key};
	struct guard guard;
	struct side *side;
	int rc = txn_side(txn, tier, &side);

	if (rc == 0)
		rc = fault_point("meta.del");
	if (rc < 0)
		return doomed(txn, rc);
	guard_enter(&guard);
	if (_setjmp(guard.escape) != 0) {
		guard_leave(&guard);
		return doomed(txn, -EBADMSG);
	}
	rc = mdb_del(side->mdb, env->dbi[table], &k, NULL);
	guard_leave(&guard);
	return op_error(txn, tier, rc);
}

/* Opens *cursor, or takes one of an earlier transaction into this one. */
static int cursor_bind(struct meta_txn *txn, enum meta_tier tier,
		       enum table table, MDB_cursor **cursor)
{
	struct env *env = &txn->meta->env[tier];
	struct guard guard;
	struct side *side;
	int rc = txn_side(txn, tier, &side);

	if (rc == 0)
		rc = fault_point("meta.cursor");
	if (rc < 0)
		return doomed(txn, rc);
	guard_enter(&guard);
	if (_setjmp(guard.escape) != 0) {
		guard_leave(&guard);
		return doomed(txn, -EBADMSG);
	}
	if (*cursor == NULL)
		rc = mdb_cursor_open(side->mdb, env->dbi[table], cursor);
	else
		rc = mdb_cursor_renew(side->mdb, *cursor);
	guard_leave(&guard);
	return op_error(txn, tier, rc);
}

int db_cursor_open(struct meta_txn *txn, enum meta_tier tier, enum table table,
		   MDB_cursor **ret)
{
	*ret = NULL;
	return cursor_bind(txn, tier, table, ret);
}

void db_cursor_close(MDB_cursor *cursor)
{
	mdb_cursor_close(cursor);
}

int db_cursor(struct meta_txn *txn, enum meta_tier tier, enum table table,
	      MDB_cursor **ret)
{
	struct side *side = &txn->side[tier];
	int rc;

	if (!side->begun || !side->bound[table]) {
		rc = cursor_bind(txn, tier, table, &side->cursor[table]);
		if (rc < 0)
			return rc;
		side->bound[table] = true;
	}
	*ret = side->cursor[table];
	return 0;
}

int db_seek(struct meta_txn *txn, enum meta_tier tier, MDB_cursor *cursor,
	    MDB_val *key, MDB_val *value, MDB_cursor_op op)
{
	struct guard guard;
	int rc;

	guard_enter(&guard);
	if (_setjmp(guard.escape) != 0) {
		guard_leave(&guard);
		return doomed(txn, -EBADMSG);
	}
	rc = mdb_cursor_get(cursor, key, value, op);
	guard_leave(&guard);
	return op_error(txn, tier, rc);
}

int db_cursor_del(struct meta_txn *txn, enum meta_tier tier, MDB_cursor *cursor)
{
	struct guard guard;
	int rc = fault_point("meta.del");

	if (rc < 0)
		return doomed(txn, rc);
	guard_enter(&guard);
	if (_setjmp(guard.escape) != 0) {
		guard_leave(&guard);
		return doomed(txn, -EBADMSG);
	}
	rc = mdb_cursor_del(cursor, 0);
	guard_leave(&guard);
	return op_error(txn, tier, rc);
}

int db_each(struct meta_txn *txn, enum meta_tier tier, enum table table,
	    const void *from, size_t from_len, size_t prefix_len,
	    int (*row)(void *arg, const MDB_val *key, const MDB_val *value),
	    void *arg)
{
	MDB_val key = {.mv_size = from_len, .mv_data = (void *)(uintptr_t)from};
	MDB_cursor_op op = from_len > 0 ? MDB_SET_RANGE : MDB_FIRST;
	MDB_val value;
	MDB_cursor *cursor;
	int rc = db_cursor_open(txn, tier, table, &cursor);

	if (rc < 0)
		return rc;
	while ((rc = db_seek(txn, tier, cursor, &key, &value, op)) == 0) {
		op = MDB_NEXT;
		if (prefix_len > 0 &&
		    (key.mv_size < prefix_len ||
		     memcmp(key.mv_data, from, prefix_len) != 0))
			break;
		if (row(arg, &key, &value) != 0)
			break;
	}
	db_cursor_close(cursor);
	return rc < 0 ? rc : 0;
}

void db_bad_row(enum table table)
{
	static struct log_limit limit;

	log_limited(&limit, LOG_LEVEL_ERROR,
		    "index: a damaged row in table %s counts as absent; "
		    "'pagefs fsck --rebuild' makes the index anew",
		    table_names[table]);
}
