/* SPDX-License-Identifier: Apache-2.0 */
#include "store/bucket_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/lib/clock.h"
#include "tools/lib/log.h"

#define CAP_PERCENT_DEFAULT 90
#define FDS_MAX 1024

void bucket_file_name(uint32_t id, char name[BUCKET_NAME_BYTES])
{
	snprintf(name, BUCKET_NAME_BYTES, "%010" PRIu32 ".bucket", id);
}

/* Strict: anything else in the directory is not ours. */
static bool parse_file_name(const char *name, uint32_t *ret)
{
	char again[BUCKET_NAME_BYTES];
	unsigned long id = strtoul(name, NULL, 10);

	if (id > UINT32_MAX)
		return false;
	bucket_file_name((uint32_t)id, again);
	if (strcmp(name, again) != 0)
		return false;
	*ret = (uint32_t)id;
	return true;
}

/* ---- the table ---- */

/* Where the id is, or would be.  Called with the lock held. */
static size_t table_place(const struct buckets *buckets, uint32_t id)
{
	size_t low = 0, high = buckets->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (buckets->table[middle]->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct bucket *bucket_find(const struct buckets *buckets, uint32_t id)
{
	size_t place = table_place(buckets, id);

	if (place == buckets->count || buckets->table[place]->id != id)
		return NULL;
	return buckets->table[place];
}

struct bucket *bucket_newest(const struct buckets *buckets)
{
	return buckets->count ? buckets->table[buckets->count - 1] : NULL;
}

/* Called with the lock held. */
static struct bucket *table_add(struct buckets *buckets, uint32_t id)
{
	size_t place = table_place(buckets, id);
	struct bucket *bucket;

	if (buckets->count == buckets->capacity) {
		size_t capacity =
			buckets->capacity ? buckets->capacity * 2 : 64;
		struct bucket **table =
			realloc(buckets->table, capacity * sizeof(*table));

		if (!table)
			return NULL;
		buckets->table = table;
		buckets->capacity = capacity;
	}
	bucket = calloc(1, sizeof(*bucket));
	if (!bucket)
		return NULL;
	bucket->owner = buckets;
	bucket->id = id;
	bucket->fd = -1;
	bucket->refs = 1;
	memmove(&buckets->table[place + 1], &buckets->table[place],
		(buckets->count - place) * sizeof(bucket));
	buckets->table[place] = bucket;
	buckets->count++;
	return bucket;
}

/* Takes the table's reference.  Called with the lock held. */
static void table_remove(struct buckets *buckets, struct bucket *bucket)
{
	size_t place = table_place(buckets, bucket->id);

	buckets->count--;
	memmove(&buckets->table[place], &buckets->table[place + 1],
		(buckets->count - place) * sizeof(bucket));
	bucket->dropped = true;
}

/* The file of a dropped bucket is closed later, by a thread that may block:
 * that is when its space is freed.  Called with the lock held. */
static void drop_reference(struct buckets *buckets, struct bucket *bucket)
{
	if (--bucket->refs > 0)
		return;
	assert(bucket->dropped);
	bucket->next_grave = buckets->graves;
	buckets->graves = bucket;
}

void bucket_put(struct bucket *bucket)
{
	struct buckets *buckets = bucket->owner;

	pthread_mutex_lock(&buckets->lock);
	buckets->references--;
	drop_reference(buckets, bucket);
	pthread_cond_broadcast(&buckets->put);
	pthread_mutex_unlock(&buckets->lock);
}

void bucket_bury(struct buckets *buckets)
{
	struct bucket *graves;

	pthread_mutex_lock(&buckets->lock);
	graves = buckets->graves;
	buckets->graves = NULL;
	for (struct bucket *bucket = graves; bucket;
	     bucket = bucket->next_grave)
		buckets->fds -= bucket->fd >= 0;
	pthread_mutex_unlock(&buckets->lock);
	while (graves) {
		struct bucket *bucket = graves;

		graves = bucket->next_grave;
		if (bucket->fd >= 0)
			close(bucket->fd);
		free(bucket);
	}
}

int bucket_open_file(struct buckets *buckets, uint32_t id, int flags)
{
	char name[BUCKET_NAME_BYTES];
	bool buffered, first;
	int fd;

	bucket_file_name(id, name);
	pthread_mutex_lock(&buckets->lock);
	buffered = buckets->buffered;
	pthread_mutex_unlock(&buckets->lock);
	flags |= O_RDWR | O_CLOEXEC;
	fd = openat(buckets->fd, name, buffered ? flags : flags | O_DIRECT,
		    0600);
	if (fd >= 0 || errno != EINVAL || buffered)
		return fd < 0 ? -errno : fd;

	/* Some kernels have made the file by then. */
	fd = openat(buckets->fd, name, flags & ~O_EXCL, 0600);
	if (fd < 0)
		return -errno;
	pthread_mutex_lock(&buckets->lock);
	first = !buckets->buffered;
	buckets->buffered = true;
	pthread_mutex_unlock(&buckets->lock);
	if (first)
		log_warning("disk: %s: this file system does not take "
			    "O_DIRECT; buckets go through the page cache, "
			    "which costs memory and a copy. ext4 and XFS take "
			    "it",
			    buckets->path);
	return fd;
}

/* Closes files that nobody uses until there are few enough.  Called with the
 * lock held. */
static void close_idle(struct buckets *buckets)
{
	for (size_t i = 0; i < buckets->count; i++) {
		struct bucket *bucket;

		if (buckets->fds <= buckets->fds_max)
			return;
		buckets->hand = (buckets->hand + 1) % buckets->count;
		bucket = buckets->table[buckets->hand];
		if (bucket->fd < 0 || bucket->refs > 1)
			continue;
		close(bucket->fd);
		bucket->fd = -1;
		buckets->fds--;
	}
}

/* The file is opened without the lock, which must not wait for a disk. */
static int open_fd(struct bucket *bucket)
{
	static struct log_limit limit;
	struct buckets *buckets = bucket->owner;
	int fd = bucket_open_file(buckets, bucket->id, 0);

	if (fd < 0) {
		log_limited(&limit, LOG_LEVEL_WARNING,
			    "disk: %s/%010" PRIu32
			    ".bucket can't be opened: %s%s",
			    buckets->path, bucket->id, strerror(-fd),
			    fd == -EMFILE ? "; raise `ulimit -n`" : "");
		return fd;
	}
	pthread_mutex_lock(&buckets->lock);
	if (bucket->fd < 0) {
		bucket->fd = fd;
		fd = -1;
		if (++buckets->fds > buckets->fds_max)
			close_idle(buckets);
	}
	pthread_mutex_unlock(&buckets->lock);
	if (fd >= 0)
		close(fd); /* another thread was faster */
	return 0;
}

int bucket_get(struct buckets *buckets, uint32_t id, struct bucket **ret)
{
	struct bucket *bucket;
	bool is_open = false;
	int error;

	pthread_mutex_lock(&buckets->lock);
	bucket = bucket_find(buckets, id);
	if (bucket) {
		bucket->refs++;
		buckets->references++;
		is_open = bucket->fd >= 0;
	}
	pthread_mutex_unlock(&buckets->lock);
	if (!bucket)
		return -ENOENT;
	if (!is_open) {
		error = open_fd(bucket);
		if (error) {
			bucket_put(bucket);
			return error;
		}
	}
	*ret = bucket;
	return 0;
}

int bucket_create(struct buckets *buckets, struct bucket **ret)
{
	uint32_t id = buckets->superblock.next_bucket;
	int fd = bucket_open_file(buckets, id, O_CREAT | O_EXCL);
	struct bucket *bucket;

	if (fd < 0)
		return fd;
	pthread_mutex_lock(&buckets->lock);
	bucket = table_add(buckets, id);
	if (bucket) {
		bucket->fd = fd;
		bucket->refs++;
		bucket->appending = true;
		bucket->writing = true;
		bucket->unsynced = true;
		bucket->touched_ns = clock_realtime_ns();
		buckets->references++;
		if (++buckets->fds > buckets->fds_max)
			close_idle(buckets);
	}
	pthread_mutex_unlock(&buckets->lock);
	if (!bucket) {
		char name[BUCKET_NAME_BYTES];

		close(fd);
		bucket_file_name(id, name);
		unlinkat(buckets->fd, name, 0);
		return -ENOMEM;
	}
	buckets->superblock.next_bucket++;
	buckets->directory_unsynced = true;
	*ret = bucket;
	return 0;
}

/* ---- open and close ---- */

static int note_file(struct buckets *buckets, const char *name)
{
	struct bucket *bucket;
	struct stat st;
	uint32_t id;

	if (!parse_file_name(name, &id) ||
	    fstatat(buckets->fd, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISREG(st.st_mode))
		return 0;
	pthread_mutex_lock(&buckets->lock);
	bucket = table_add(buckets, id);
	if (bucket) {
		bucket->file_bytes = (uint64_t)st.st_blocks * 512;
		bucket->live_bytes = bucket->file_bytes;
		bucket->touched_ns = clock_from_timespec(st.st_mtim);
		buckets->stats.file_bytes += bucket->file_bytes;
		if (id >= buckets->superblock.next_bucket)
			buckets->superblock.next_bucket = id + 1;
	}
	pthread_mutex_unlock(&buckets->lock);
	if (!bucket)
		return -ENOMEM;
	/* While there is time: a read that opens a file may have to wait for
	 * the disk without a deadline. */
	if (buckets->fds < buckets->fds_max)
		(void)open_fd(bucket);
	return 0;
}

static int note_files(struct buckets *buckets)
{
	int fd = openat(buckets->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int error = 0;

	if (!dir) {
		error = -errno;
		if (fd >= 0)
			close(fd);
		return error;
	}
	do {
		errno = 0;
		entry = readdir(dir);
		if (entry)
			error = note_file(buckets, entry->d_name);
		else
			error = -errno;
	} while (entry && !error);
	closedir(dir);
	/* The newest may be unfinished: the first append looks. */
	if (buckets->count > 0)
		bucket_newest(buckets)->appending = true;
	return error;
}

static unsigned choose_fds_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > 4 * FDS_MAX)
		return FDS_MAX;
	return limit.rlim_cur < 64 ? 16 : (unsigned)limit.rlim_cur / 4;
}

static void buckets_free(struct buckets *buckets)
{
	for (size_t i = 0; i < buckets->count; i++) {
		if (buckets->table[i]->fd >= 0)
			close(buckets->table[i]->fd);
		free(buckets->table[i]);
	}
	free(buckets->table);
	free(buckets->dead.all);
	pthread_cond_destroy(&buckets->put);
	pthread_mutex_destroy(&buckets->lock);
	free(buckets);
}

int buckets_open(const struct buckets_config *config, struct buckets **ret,
		 char *ret_reason)
{
	struct buckets *buckets = calloc(1, sizeof(*buckets));
	int error;

	if (ret_reason)
		ret_reason[0] = '\0';
	if (!buckets)
		return -ENOMEM;
	pthread_mutex_init(&buckets->lock, NULL);
	pthread_cond_init(&buckets->put, NULL);
	buckets->io = config->io;
	buckets->cap_bytes = config->cap_bytes;
	buckets->cap_percent =
		config->cap_percent ? config->cap_percent : CAP_PERCENT_DEFAULT;
	buckets->reserve_bytes = config->reserve_bytes;
	buckets->fds_max = choose_fds_max();
	buckets->can_allocate = true;
	error = directory_open(buckets, config, ret_reason);
	if (!error) {
		error = note_files(buckets);
		if (error && ret_reason)
			snprintf(ret_reason, 256, "%s: %s", buckets->path,
				 strerror(-error));
		if (error)
			directory_close(buckets);
	}
	if (error) {
		buckets_free(buckets);
		return error;
	}
	*ret = buckets;
	return 0;
}

void buckets_close(struct buckets *buckets)
{
	if (!buckets)
		return;
	writer_close(buckets);
	pthread_mutex_lock(&buckets->lock);
	while (buckets->references > 0)
		pthread_cond_wait(&buckets->put, &buckets->lock);
	pthread_mutex_unlock(&buckets->lock);
	bucket_bury(buckets);
	directory_close(buckets);
	buckets_free(buckets);
}

uint64_t buckets_node(const struct buckets *buckets)
{
	return buckets->superblock.node;
}

/* ---- reading ---- */

static void release_bucket(void *owner)
{
	bucket_put(owner);
}

int bucket_read(struct buckets *buckets, const struct bucket_place *place,
		void *data, struct io_request *request)
{
	struct bucket *bucket;
	int error = bucket_get(buckets, place->bucket, &bucket);

	if (error == -ENOENT)
		return BUCKET_GONE;
	if (error)
		return error;
	request->operation = IO_READ;
	request->fd = bucket->fd;
	request->data = data;
	request->len_bytes = (uint32_t)round_up_block(place->len_bytes);
	request->offset_bytes = (uint64_t)place->data_block * BLOCK_BYTES;
	request->release = release_bucket;
	request->owner = bucket;
	io_submit(buckets->io, &request, 1);
	return 0;
}

/* ---- room and eviction ---- */

void bucket_forget(struct buckets *buckets, const struct bucket_place *place)
{
	uint64_t bytes = round_up_block(place->len_bytes);
	struct bucket *bucket;

	pthread_mutex_lock(&buckets->lock);
	bucket = bucket_find(buckets, place->bucket);
	if (bucket)
		bucket->live_bytes -=
			bytes < bucket->live_bytes ? bytes : bucket->live_bytes;
	if (bucket)
		bucket_dead_add(buckets, place);
	pthread_mutex_unlock(&buckets->lock);
}

void bucket_touch(struct buckets *buckets, const struct bucket_place *place)
{
	uint64_t now_ns = clock_realtime_ns();
	struct bucket *bucket;

	pthread_mutex_lock(&buckets->lock);
	bucket = bucket_find(buckets, place->bucket);
	if (bucket)
		bucket->touched_ns = now_ns;
	pthread_mutex_unlock(&buckets->lock);
}

void bucket_set_live(struct buckets *buckets, uint32_t id, uint64_t live_bytes)
{
	struct bucket *bucket;

	pthread_mutex_lock(&buckets->lock);
	bucket = bucket_find(buckets, id);
	if (bucket)
		bucket->live_bytes = live_bytes;
	pthread_mutex_unlock(&buckets->lock);
}

/* Numbers are never given out twice, so that nothing old can be taken for what
 * is in a newer bucket; while a bucket exists, its name says that. */
static void remember_number(struct buckets *buckets, uint32_t id)
{
	int error;

	if (id + 1 != buckets->superblock.next_bucket)
		return;
	error = directory_write_superblock(buckets);
	if (error)
		log_warning("disk: %s/../pagefs could not be written: %s",
			    buckets->path, strerror(-error));
}

int bucket_remove(struct buckets *buckets, uint32_t id, bool unused)
{
	char name[BUCKET_NAME_BYTES];
	struct bucket *bucket;
	int error;

	pthread_mutex_lock(&buckets->lock);
	bucket = bucket_find(buckets, id);
	pthread_mutex_unlock(&buckets->lock);
	if (!bucket)
		return -ENOENT;
	if (!unused)
		remember_number(buckets, id);
	bucket_file_name(id, name);
	if (unlinkat(buckets->fd, name, 0) && errno != ENOENT) {
		error = -errno;
		log_error("disk: %s/%s can't be removed: %s", buckets->path,
			  name, strerror(-error));
		return error;
	}
	if (unused && id + 1 == buckets->superblock.next_bucket)
		buckets->superblock.next_bucket = id;
	pthread_mutex_lock(&buckets->lock);
	table_remove(buckets, bucket);
	buckets->stats.file_bytes -= bucket->file_bytes;
	buckets->stats.buckets_dropped += !unused;
	drop_reference(buckets, bucket);
	pthread_mutex_unlock(&buckets->lock);
	bucket_bury(buckets);
	return 0;
}

int bucket_drop(struct buckets *buckets, uint32_t id)
{
	if (buckets->open && buckets->open->bucket->id == id)
		return -EBUSY;
	return bucket_remove(buckets, id, false);
}

int bucket_list(struct buckets *buckets, uint32_t **ret_ids, size_t *ret_count)
{
	uint32_t *ids;

	pthread_mutex_lock(&buckets->lock);
	ids = calloc(buckets->count + 1, sizeof(*ids));
	for (size_t i = 0; ids && i < buckets->count; i++)
		ids[i] = buckets->table[i]->id;
	if (ids)
		*ret_count = buckets->count;
	pthread_mutex_unlock(&buckets->lock);
	if (!ids)
		return -ENOMEM;
	*ret_ids = ids;
	return 0;
}

void buckets_get_stats(struct buckets *buckets, struct buckets_stats *ret)
{
	pthread_mutex_lock(&buckets->lock);
	bucket_renew_cap(buckets);
	*ret = buckets->stats;
	ret->buckets = buckets->count;
	ret->cap_bytes = buckets->cap_now_bytes;
	ret->live_bytes = 0;
	for (size_t i = 0; i < buckets->count; i++)
		ret->live_bytes += buckets->table[i]->live_bytes;
	pthread_mutex_unlock(&buckets->lock);
}
