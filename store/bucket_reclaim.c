/* SPDX-License-Identifier: Apache-2.0 */
#include "store/bucket_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/lib/clock.h"
#include "tools/lib/log.h"

/* Places that wait at most; the bytes of more than that go with their
 * bucket. */
#define DEAD_MAX ((size_t)1 << 16)

/* Longer than the deadline of a read of the largest chunk: none that began
 * before the place was forgotten may meet the hole. */
#define DEAD_AGE_NS (5 * CLOCK_NS_PER_SECOND)

/* Holes a call, so that the writer is not kept from writing. */
#define HOLES_MAX 256

/* A bucket is spent when it has given back this part of its length. */
#define SPENT_PARTS 4

void bucket_dead_add(struct buckets *buckets, const struct bucket_place *place)
{
	struct dead_places *dead = &buckets->dead;
	struct dead_place *grown;
	size_t room;

	if (place->len_bytes == 0 || dead->count == DEAD_MAX)
		return;
	if (dead->count == dead->room) {
		room = dead->room ? 2 * dead->room : 64;
		grown = realloc(dead->all, room * sizeof(*grown));
		if (!grown)
			return;
		dead->all = grown;
		dead->room = room;
	}
	dead->all[dead->count++] =
		(struct dead_place){*place, clock_monotonic_ns()};
}

/* Takes what may become holes now: old enough, and in a bucket that the writer
 * is done with (what is behind its last sync is checked again after a
 * crash). */
static size_t take_dead(struct buckets *buckets, uint64_t now_ns,
			struct bucket_place *ret)
{
	struct dead_places *dead = &buckets->dead;
	size_t kept = 0, taken = 0;

	pthread_mutex_lock(&buckets->lock);
	for (size_t i = 0; i < dead->count; i++) {
		const struct dead_place *place = &dead->all[i];
		struct bucket *bucket =
			bucket_find(buckets, place->place.bucket);

		if (!bucket)
			continue;
		if (taken < HOLES_MAX && !bucket->appending &&
		    place->since_ns + DEAD_AGE_NS <= now_ns)
			ret[taken++] = place->place;
		else
			dead->all[kept++] = *place;
	}
	dead->count = kept;
	pthread_mutex_unlock(&buckets->lock);
	return taken;
}

static int look_at_size(struct bucket *bucket)
{
	struct stat st;

	if (fstat(bucket->fd, &st))
		return -errno;
	bucket_set_file_bytes(bucket, (uint64_t)st.st_blocks * 512);
	pthread_mutex_lock(&bucket->owner->lock);
	bucket->size_bytes = (uint64_t)st.st_size;
	pthread_mutex_unlock(&bucket->owner->lock);
	return 0;
}

static int punch(struct buckets *buckets, const struct bucket_place *place)
{
	struct bucket *bucket;
	int error = bucket_get(buckets, place->bucket, &bucket);

	if (error)
		return error == -ENOENT ? 0 : error;
	if (fallocate(bucket->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      (off_t)place->data_block * BLOCK_BYTES,
		      (off_t)round_up_block(place->len_bytes)))
		error = -errno;
	if (!error)
		error = look_at_size(bucket);
	bucket_put(bucket);
	return error;
}

/* A bucket without a live chunk that was not looked at yet: what it had became
 * dead before this start, or found no room in the list. */
static bool forgotten_bucket(struct buckets *buckets, uint32_t *ret)
{
	bool found = false;

	pthread_mutex_lock(&buckets->lock);
	for (size_t i = 0; buckets->dead.count == 0 && i < buckets->count;
	     i++) {
		struct bucket *bucket = buckets->table[i];

		if (bucket->appending || bucket->live_bytes ||
		    bucket->size_bytes)
			continue;
		*ret = bucket->id;
		found = true;
		break;
	}
	pthread_mutex_unlock(&buckets->lock);
	return found;
}

static int hollow_forgotten(struct buckets *buckets)
{
	struct bucket *bucket;
	uint32_t id;
	int error;

	if (!forgotten_bucket(buckets, &id))
		return 0;
	error = bucket_hollow(buckets, id);
	if (!error)
		error = bucket_get(buckets, id, &bucket);
	if (error)
		return error == -ENOENT ? 0 : error;
	error = look_at_size(bucket);
	bucket_put(bucket);
	return error;
}

void bucket_reclaim(struct buckets *buckets, uint64_t now_ns)
{
	static struct log_limit limit;
	struct bucket_place places[HOLES_MAX];
	size_t count = take_dead(buckets, now_ns, places);
	int error = 0;

	for (size_t i = 0; !error && i < count; i++)
		error = punch(buckets, &places[i]);
	if (!error)
		error = hollow_forgotten(buckets);
	/* A file system that knows no holes keeps the bytes until their bucket
	 * is dropped at the cap. */
	if (error && error != -EOPNOTSUPP)
		log_limited(&limit, LOG_LEVEL_WARNING,
			    "%s: cannot give back the bytes of deleted pages: "
			    "%s; they go with their buckets at the cap",
			    buckets->path, strerror(-error));
}

int bucket_spent(struct buckets *buckets, uint32_t *ret_bucket)
{
	int outcome = -ENOENT;

	pthread_mutex_lock(&buckets->lock);
	for (size_t i = 0; outcome && i < buckets->count; i++) {
		const struct bucket *bucket = buckets->table[i];

		if (bucket->appending || bucket->live_bytes ||
		    bucket->file_bytes * SPENT_PARTS >= bucket->size_bytes)
			continue;
		*ret_bucket = bucket->id;
		outcome = 0;
	}
	pthread_mutex_unlock(&buckets->lock);
	return outcome;
}
