/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "tools/lib/endian.h"
#include "tools/lib/log.h"

#define VALUE_FORMAT "meta.format"
#define VALUE_ID "meta.id"     /* of the home environment, random */
#define VALUE_HOME "meta.home" /* in memory's: the home its rows belong to */

struct opening {
	char dir[PATH_MAX];
	const char *label;
	bool is_disk;
	bool wanted;
	bool forget; /* what is there, without a look at it */
	bool fresh;  /* it was made anew */
	struct inspection found;
	struct walk walk;
	bool walking;
};

static int opening_init(struct opening *o, const char *dir, const char *label,
			bool is_disk)
{
	int len;

	*o = (struct opening){.label = label, .is_disk = is_disk};
	if (dir == NULL)
		return 0;
	o->wanted = true;
	len = snprintf(o->dir, sizeof(o->dir), "%s/index", dir);
	return len < 0 || (size_t)len >= sizeof(o->dir) ? -ENAMETOOLONG : 0;
}

static int opening_inspect(struct opening *o)
{
	int rc;

	if (!o->wanted || o->forget)
		return 0;
	rc = env_inspect(o->dir, o->label, &o->found);
	if (rc < 0)
		return rc;
	if (o->found.exists && o->found.why[0] == '\0') {
		walk_start(&o->walk, o->dir, o->found.walk);
		o->walking = true;
	}
	return 0;
}

/* Both run at the same time; so both are waited for, whatever comes. */
static int opening_wait(struct opening *o)
{
	if (!o->walking)
		return 0;
	switch (walk_wait(&o->walk, o->found.why, sizeof(o->found.why))) {
	case WALK_NEWER:
		log_error("index (%s) %s: its tables were made by a newer "
			  "version of pagefs; use that one, or another "
			  "directory",
			  o->label, o->dir);
		return -EPROTO;
	case WALK_SOUND:
	case WALK_DAMAGED:
		break;
	}
	return 0;
}

static void opening_say(const struct opening *o, const char *kept)
{
	if (o->found.why[0] == '\0')
		log_info("index (%s) %s: new", o->label, o->dir);
	else if (o->found.unfinished)
		log_warning("index (%s) %s: %s; begun again", o->label, o->dir,
			    o->found.why);
	else if (o->is_disk)
		log_warning("index (%s) %s: %s; set aside as %s, to be rebuilt "
			    "from the buckets",
			    o->label, o->dir, o->found.why, kept);
	else
		log_warning("index (%s) %s: %s; emptied, with the pages that "
			    "were in memory only",
			    o->label, o->dir, o->found.why);
}

/* What is there is taken away unless it can be used. */
static int opening_clear(struct opening *o)
{
	char kept[PATH_MAX + 32];
	int rc;

	if (!o->wanted || (o->found.exists && o->found.why[0] == '\0'))
		return 0;
	rc = env_discard(o->dir,
			 o->is_disk && o->found.exists && !o->found.unfinished,
			 kept, sizeof(kept));
	if (rc < 0) {
		log_error("index (%s) %s: can't be taken away (%s)", o->label,
			  o->dir, strerror(-rc));
		return rc;
	}
	o->fresh = true;
	if (!o->forget)
		opening_say(o, kept);
	return 0;
}

/* ---- the two belong together ---- */

static int value_get64(struct meta *meta, enum meta_tier tier, const char *name,
		       uint64_t *ret)
{
	struct meta_txn *txn;
	struct le64 v;
	MDB_val value;
	int rc = meta_begin_read(meta, &txn);

	if (rc < 0)
		return rc;
	rc = db_get(txn, tier, TABLE_VALUES, name, strlen(name), &value);
	if (rc == 0 && value.mv_size != sizeof(v))
		rc = -EBADMSG;
	if (rc == 0) {
		memcpy(&v, value.mv_data, sizeof(v));
		*ret = le64_get(v);
	}
	meta_abort(txn);
	return rc;
}

static int value_put64(struct meta_txn *txn, enum meta_tier tier,
		       const char *name, uint64_t number)
{
	struct le64 v = le64_put(number);
	MDB_val value = {.mv_size = sizeof(v), .mv_data = &v};

	return db_put(txn, tier, TABLE_VALUES, name, strlen(name), &value, 0);
}

static int write_marks(struct meta *meta, enum meta_tier tier, const char *name,
		       uint64_t number)
{
	struct le32 format = le32_put(META_FORMAT);
	MDB_val value = {.mv_size = sizeof(format), .mv_data = &format};
	struct meta_txn *txn;
	int rc = meta_begin_write(meta, &txn);

	if (rc < 0)
		return rc;
	rc = db_put(txn, tier, TABLE_VALUES, VALUE_FORMAT, strlen(VALUE_FORMAT),
		    &value, 0);
	if (rc == 0)
		rc = value_put64(txn, tier, name, number);
	if (rc == 0)
		return meta_commit(txn);
	meta_abort(txn);
	return rc;
}

/* The home's id: made when it is new. */
static int home_id(struct meta *meta, uint64_t *ret)
{
	uint64_t id = 0;
	int rc = value_get64(meta, meta->home, VALUE_ID, &id);

	if (rc == META_ABSENT) {
		if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
			return -EIO;
		id |= 1;
		rc = write_marks(meta, meta->home, VALUE_ID, id);
	}
	if (rc == 0)
		*ret = id;
	return rc;
}

/* Chunk rows name objects by numbers that only their own home's names give a
 * meaning: beside another home, a number used again would lead to another
 * page's bytes.  So those rows are forgotten. */
static int pair(struct meta *meta, const struct opening *memory)
{
	struct env *env = &meta->env[META_MEMORY];
	uint64_t id, belongs = 0;
	int rc = home_id(meta, &id);

	if (rc < 0)
		return rc;
	rc = value_get64(meta, META_MEMORY, VALUE_HOME, &belongs);
	if (rc < 0 || (rc == 0 && belongs == id))
		return rc;
	if (rc == 0) {
		log_warning("index (memory) %s: belongs to another index on "
			    "disk; emptied",
			    memory->dir);
		txn_pool_release(meta);
		env_close(env, false);
		rc = env_discard(memory->dir, false, NULL, 0);
		if (rc == 0)
			rc = env_open(env, memory->dir, memory->label, false);
		if (rc < 0)
			return rc;
	}
	if (meta->home == META_MEMORY) {
		/* Emptied, it has lost its id as well. */
		rc = home_id(meta, &id);
		if (rc < 0)
			return rc;
	}
	return write_marks(meta, META_MEMORY, VALUE_HOME, id);
}

/* ---- open and close ---- */

static int remap_init(pthread_rwlock_t *remap)
{
	pthread_rwlockattr_t attr;
	int rc = -pthread_rwlockattr_init(&attr);

	if (rc < 0)
		return rc;
	/* Else a stream of readers would keep the maps from growing. */
	pthread_rwlockattr_setkind_np(
		&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	rc = -pthread_rwlock_init(remap, &attr);
	pthread_rwlockattr_destroy(&attr);
	return rc;
}

static int writer_init(struct meta *meta)
{
	pthread_condattr_t attr;
	int rc = -pthread_condattr_init(&attr);

	if (rc < 0)
		return rc;
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	rc = -pthread_cond_init(&meta->writer_gone, &attr);
	pthread_condattr_destroy(&attr);
	if (rc == 0)
		pthread_mutex_init(&meta->writer_lock, NULL);
	return rc;
}

static int locks_init(struct meta *meta)
{
	int rc = remap_init(&meta->remap);

	if (rc < 0)
		return rc;
	rc = writer_init(meta);
	if (rc < 0)
		pthread_rwlock_destroy(&meta->remap);
	else
		pthread_mutex_init(&meta->pool_lock, NULL);
	return rc;
}

static void meta_free(struct meta *meta, bool clean)
{
	txn_pool_release(meta);
	for (int i = 0; i < TIERS; i++)
		env_close(&meta->env[i], clean);
	pthread_rwlock_destroy(&meta->remap);
	pthread_mutex_destroy(&meta->writer_lock);
	pthread_cond_destroy(&meta->writer_gone);
	pthread_mutex_destroy(&meta->pool_lock);
	free(meta);
}

static int open_all(struct meta *meta, struct opening o[TIERS])
{
	int rc = 0;

	for (int i = 0; i < TIERS && rc == 0; i++) {
		if (!o[i].wanted)
			continue;
		rc = env_open(&meta->env[i], o[i].dir, o[i].label,
			      o[i].is_disk && o[i].fresh);
		if (rc < 0)
			log_error("index (%s) %s: can't be opened (%s)",
				  o[i].label, o[i].dir, strerror(-rc));
	}
	return rc == 0 ? pair(meta, &o[META_MEMORY]) : rc;
}

static int inspect_all(struct opening o[TIERS])
{
	int rc = 0;
	int waited;

	for (int i = 0; i < TIERS && rc == 0; i++)
		rc = opening_inspect(&o[i]);
	for (int i = 0; i < TIERS; i++) {
		waited = opening_wait(&o[i]);
		if (rc == 0)
			rc = waited;
	}
	for (int i = 0; i < TIERS && rc == 0; i++)
		rc = opening_clear(&o[i]);
	return rc;
}

int meta_open(const struct meta_config *config, struct meta **ret)
{
	struct opening o[TIERS];
	struct meta *meta;
	int rc = opening_init(&o[META_MEMORY], config->memory_dir, "memory",
			      false);

	if (rc == 0)
		rc = opening_init(&o[META_DISK], config->disk_dir, "disk",
				  true);
	if (rc < 0)
		return rc;
	o[META_MEMORY].forget = config->memory_fresh;

	meta = calloc(1, sizeof(*meta));
	if (meta == NULL)
		return -ENOMEM;
	meta->home = config->disk_dir != NULL ? META_DISK : META_MEMORY;
	rc = locks_init(meta);
	if (rc < 0) {
		free(meta);
		return rc;
	}
	rc = inspect_all(o);
	if (rc == 0)
		rc = open_all(meta, o);
	if (rc < 0) {
		meta_free(meta, false);
		return rc;
	}
	*ret = meta;
	return o[META_DISK].fresh ? META_REBUILD : 0;
}

int meta_rebuilt(struct meta *meta)
{
	return env_rebuilt(&meta->env[META_DISK]);
}

void meta_close(struct meta *meta)
{
	if (meta != NULL)
		meta_free(meta, true);
}

int meta_sync(struct meta *meta)
{
	struct env *env = &meta->env[meta->home];
	int rc;

	pthread_rwlock_rdlock(&meta->remap);
	rc = env->dead ? -EIO : db_error(env, mdb_env_sync(env->mdb, 1));
	pthread_rwlock_unlock(&meta->remap);
	return rc;
}

static int env_stats(struct env *env, uint64_t *ret_bytes, uint64_t *map_bytes,
		     uint32_t *readers)
{
	MDB_envinfo info;

	if (env->mdb == NULL)
		return 0;
	if (env->dead)
		return -EIO;
	mdb_env_info(env->mdb, &info);
	*ret_bytes = ((uint64_t)info.me_last_pgno + 1) * 4096;
	*map_bytes += info.me_mapsize;
	if (info.me_numreaders > *readers)
		*readers = info.me_numreaders;
	return 0;
}

int meta_get_stats(struct meta *meta, struct meta_stats *ret)
{
	struct meta_stats stats = {0};
	int rc;

	pthread_rwlock_rdlock(&meta->remap);
	rc = env_stats(&meta->env[META_MEMORY], &stats.memory_bytes,
		       &stats.map_bytes, &stats.readers);
	if (rc == 0)
		rc = env_stats(&meta->env[META_DISK], &stats.disk_bytes,
			       &stats.map_bytes, &stats.readers);
	pthread_rwlock_unlock(&meta->remap);
	if (rc == 0)
		*ret = stats;
	return rc;
}
