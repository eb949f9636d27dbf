/* SPDX-License-Identifier: Apache-2.0 */
#include "store/bucket_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tools/lib/clock.h"
#include "tools/lib/log.h"

#define RESERVE_PERCENT_DEFAULT 5
#define ROOM_NS (100 * CLOCK_NS_PER_MS) /* how long a statvfs holds */

/* A bucket holds at most this part of a small cap, so that there are always
 * some to drop; but enough to be worth a file. */
#define CAP_PARTS 8
#define LIMIT_MIN_BYTES ((uint64_t)8 << 20)

void bucket_renew_cap(struct buckets *buckets)
{
	uint64_t now_ns = clock_monotonic_ns();
	uint64_t total, room, reserve, cap;
	struct statvfs st;

	if (now_ns < buckets->room_until_ns || fstatvfs(buckets->fd, &st))
		return;
	total = (uint64_t)st.f_blocks * st.f_frsize;
	reserve = buckets->reserve_bytes
			  ? buckets->reserve_bytes
			  : total / 100 * RESERVE_PERCENT_DEFAULT;
	cap = buckets->cap_bytes ? buckets->cap_bytes
				 : total / 100 * buckets->cap_percent;
	room = buckets->stats.file_bytes + (uint64_t)st.f_bavail * st.f_frsize;
	room = room > reserve ? room - reserve : 0;
	buckets->cap_now_bytes = room < cap ? room : cap;
	buckets->room_until_ns = now_ns + ROOM_NS;
}

uint64_t bucket_excess(struct buckets *buckets, uint64_t bytes)
{
	uint64_t need, cap;

	bucket_bury(buckets);
	pthread_mutex_lock(&buckets->lock);
	bucket_renew_cap(buckets);
	need = buckets->stats.file_bytes + bytes;
	cap = buckets->cap_now_bytes;
	pthread_mutex_unlock(&buckets->lock);
	return need > cap ? need - cap : 0;
}

/* Buckets that are about equally full of live bytes (in eighths) go by age:
 * else a hot one would go for want of a few KiB. */
static bool goes_before(const struct bucket *a, const struct bucket *b)
{
	uint64_t a_live = a->live_bytes * 8 / (a->file_bytes + 1);
	uint64_t b_live = b->live_bytes * 8 / (b->file_bytes + 1);

	if (a_live != b_live)
		return a_live < b_live;
	return a->touched_ns < b->touched_ns;
}

int bucket_coldest(struct buckets *buckets, uint32_t *ret_bucket)
{
	struct bucket *coldest = NULL;

	pthread_mutex_lock(&buckets->lock);
	for (size_t i = 0; i < buckets->count; i++) {
		struct bucket *bucket = buckets->table[i];

		if (bucket->appending)
			continue;
		if (!coldest || goes_before(bucket, coldest))
			coldest = bucket;
	}
	if (coldest)
		*ret_bucket = coldest->id;
	pthread_mutex_unlock(&buckets->lock);
	return coldest ? 0 : -ENOENT;
}

uint64_t bucket_limit_bytes(struct buckets *buckets)
{
	uint64_t limit;

	pthread_mutex_lock(&buckets->lock);
	bucket_renew_cap(buckets);
	limit = buckets->cap_now_bytes / CAP_PARTS;
	pthread_mutex_unlock(&buckets->lock);
	if (limit < LIMIT_MIN_BYTES)
		limit = LIMIT_MIN_BYTES;
	return limit < BUCKET_BYTES ? limit : BUCKET_BYTES;
}

/* ---- hollowing ---- */

static int punch(void *arg, const struct bucket_record *record)
{
	const struct bucket *bucket = arg;

	if (record->kind != BUCKET_CHUNK)
		return 0;
	if (fallocate(bucket->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      (off_t)record->place.data_block * BLOCK_BYTES,
		      (off_t)round_up_block(record->len_bytes)))
		return -errno;
	return 0;
}

int bucket_hollow(struct buckets *buckets, uint32_t id)
{
	struct bucket *bucket;
	uint64_t damaged = 0;
	struct stat st;
	int error = bucket_get(buckets, id, &bucket);

	if (error)
		return error;
	error = bucket_scan(buckets, id, false, punch, bucket, &damaged);
	if (!error && fstat(bucket->fd, &st))
		error = -errno;
	if (!error) {
		bucket_set_file_bytes(bucket, (uint64_t)st.st_blocks * 512);
		pthread_mutex_lock(&buckets->lock);
		buckets->room_until_ns = 0;
		pthread_mutex_unlock(&buckets->lock);
	}
	bucket_put(bucket);
	return error;
}
