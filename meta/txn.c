/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/lib/clock.h"

/* A write transaction is a few ms; whoever waits so long meets a dead disk. */
#define WRITER_WAIT_NS (10 * CLOCK_NS_PER_SECOND)

int txn_side(struct meta_txn *txn, enum meta_tier tier, struct side **ret)
{
	struct side *side = &txn->side[tier];
	struct env *env = &txn->meta->env[tier];
	int rc = 0;

	if (!side->begun) {
		if (env->mdb == NULL)
			return -EINVAL;
		if (side->mdb == NULL)
			rc = db_txn_begin(env, txn->write, &side->mdb);
		else
			rc = db_txn_renew(env, side->mdb);
		if (rc < 0)
			return rc;
		side->begun = true;
	}
	*ret = side;
	return 0;
}

static struct meta_txn *pool_take(struct meta *meta)
{
	struct meta_txn *txn;

	pthread_mutex_lock(&meta->pool_lock);
	txn = meta->pool;
	if (txn != NULL)
		meta->pool = txn->next;
	pthread_mutex_unlock(&meta->pool_lock);
	return txn;
}

static void pool_give(struct meta *meta, struct meta_txn *txn)
{
	pthread_mutex_lock(&meta->pool_lock);
	txn->next = meta->pool;
	meta->pool = txn;
	pthread_mutex_unlock(&meta->pool_lock);
}

static void side_free(struct env *env, struct side *side)
{
	for (int i = 0; i < TABLES; i++) {
		if (side->cursor[i] != NULL)
			db_cursor_close(side->cursor[i]);
	}
	if (side->mdb != NULL)
		db_txn_abort(env, side->mdb);
}

void txn_pool_release(struct meta *meta)
{
	struct meta_txn *txn;

	while ((txn = pool_take(meta)) != NULL) {
		for (int i = 0; i < TIERS; i++)
			side_free(&meta->env[i], &txn->side[i]);
		free(txn);
	}
}

int meta_begin_read(struct meta *meta, struct meta_txn **ret)
{
	struct meta_txn *txn = pool_take(meta);

	if (txn == NULL) {
		txn = calloc(1, sizeof(*txn));
		if (txn == NULL)
			return -ENOMEM;
		txn->meta = meta;
	}
	pthread_rwlock_rdlock(&meta->remap);
	*ret = txn;
	return 0;
}

/* A flag with a condition rather than a mutex, which could be waited for by
 * the wall clock only. */
static int writer_become(struct meta *meta)
{
	struct timespec until =
		clock_to_timespec(clock_monotonic_ns() + WRITER_WAIT_NS);
	int rc = 0;

	pthread_mutex_lock(&meta->writer_lock);
	while (meta->writing && rc == 0)
		rc = -pthread_cond_timedwait(&meta->writer_gone,
					     &meta->writer_lock, &until);
	if (!meta->writing) {
		meta->writing = true;
		rc = 0;
	}
	pthread_mutex_unlock(&meta->writer_lock);
	return rc;
}

static void writer_cease(struct meta *meta)
{
	pthread_mutex_lock(&meta->writer_lock);
	meta->writing = false;
	pthread_cond_signal(&meta->writer_gone);
	pthread_mutex_unlock(&meta->writer_lock);
}

int meta_begin_write(struct meta *meta, struct meta_txn **ret)
{
	struct meta_txn *txn = &meta->write_txn;
	int rc = writer_become(meta);

	if (rc < 0)
		return rc;
	for (int i = 0; i < TIERS && rc == 0; i++)
		rc = env_grow(&meta->env[i], &meta->remap);
	if (rc < 0) {
		writer_cease(meta);
		return rc;
	}
	pthread_rwlock_rdlock(&meta->remap);
	memset(txn, 0, sizeof(*txn));
	txn->meta = meta;
	txn->write = true;
	*ret = txn;
	return 0;
}

static void write_end(struct meta_txn *txn)
{
	struct meta *meta = txn->meta;

	pthread_rwlock_unlock(&meta->remap);
	writer_cease(meta);
}

/* LMDB frees a write transaction's cursors with it. */
static int side_commit(struct meta_txn *txn, enum meta_tier tier)
{
	struct side *side = &txn->side[tier];

	if (!side->begun)
		return 0;
	side->begun = false;
	return db_txn_commit(&txn->meta->env[tier], side->mdb);
}

static void side_abort(struct meta_txn *txn, enum meta_tier tier)
{
	struct side *side = &txn->side[tier];

	if (side->begun)
		db_txn_abort(&txn->meta->env[tier], side->mdb);
	side->begun = false;
}

int meta_commit(struct meta_txn *txn)
{
	struct meta *meta = txn->meta;
	int rc = txn->error;

	assert(txn->write);
	if (rc == 0 && txn->changed)
		rc = totals_store(txn);
	if (rc == 0 && meta->home != META_MEMORY)
		rc = side_commit(txn, META_MEMORY);
	if (rc == 0)
		rc = side_commit(txn, meta->home);
	side_abort(txn, META_MEMORY);
	side_abort(txn, META_DISK);
	write_end(txn);
	return rc;
}

static void read_end(struct meta_txn *txn)
{
	struct meta *meta = txn->meta;

	for (int i = 0; i < TIERS; i++) {
		struct side *side = &txn->side[i];

		if (!side->begun)
			continue;
		mdb_txn_reset(side->mdb);
		side->begun = false;
		memset(side->bound, 0, sizeof(side->bound));
	}
	txn->error = 0;
	pthread_rwlock_unlock(&meta->remap);
	pool_give(meta, txn);
}

void meta_abort(struct meta_txn *txn)
{
	if (txn == NULL)
		return;
	if (!txn->write) {
		read_end(txn);
		return;
	}
	side_abort(txn, META_MEMORY);
	side_abort(txn, META_DISK);
	write_end(txn);
}
