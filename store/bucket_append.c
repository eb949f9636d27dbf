/* SPDX-License-Identifier: Apache-2.0 */
#include "store/bucket_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tools/lib/checksum.h"
#include "tools/lib/clock.h"
#include "tools/lib/log.h"

/* Room is allocated for a batch before it is written: so a full disk says so
 * before anything was written, the writes need not extend the file (which ext4
 * does one at a time), and still no more is taken than there is data: du tells
 * the truth, which 256 MiB up front would not. */

#define WRITE_BYTES (8u << 20)

static uint32_t blocks_of(const struct bucket_record *record)
{
	return (format_header_bytes(record) + format_data_bytes(record)) /
	       BLOCK_BYTES;
}

static void open_bucket_free(struct open_bucket *open)
{
	if (!open)
		return;
	if (open->bucket)
		bucket_put(open->bucket);
	free(open->index.bytes);
	free(open);
}

/* ---- one bucket's part of a batch ---- */

/* How many of the records still go into the bucket.  Into an empty one, one
 * always does. */
static unsigned how_many_fit(const struct open_bucket *open,
			     const struct bucket_record *records,
			     unsigned count)
{
	uint64_t blocks = open->end_block, index = open->index.len;
	unsigned n = 0;

	for (; n < count; n++) {
		blocks += blocks_of(&records[n]);
		index += format_entry_bytes(&records[n]);
		if (blocks + round_up_block(index) / BLOCK_BYTES + 1 >
			    open->limit_blocks &&
		    (n > 0 || open->end_block > 0))
			break;
	}
	return n;
}

/* Pieces of memory that are written one after the other. */
struct pieces {
	struct disk_batch *batch;
	int fd;
	struct iovec *first; /* of the write being gathered */
	unsigned count;
	uint32_t len_bytes;
	uint64_t offset_bytes;
};

static void end_write(struct pieces *pieces)
{
	struct disk_part *part;

	if (pieces->count == 0)
		return;
	/* A single piece may lie in a registered buffer. */
	part = disk_batch_add(
		pieces->batch, pieces->count == 1 ? IO_WRITE : IO_WRITE_VECTOR,
		pieces->fd,
		pieces->count == 1 ? pieces->first->iov_base : pieces->first,
		pieces->len_bytes, pieces->offset_bytes);
	part->request.vector_count = pieces->count;
	pieces->offset_bytes += pieces->len_bytes;
	pieces->first += pieces->count;
	pieces->count = 0;
	pieces->len_bytes = 0;
}

static void add_piece(struct pieces *pieces, const void *data, size_t len)
{
	char *at = (char *)(uintptr_t)data; /* only read from */

	while (len > 0) {
		size_t n = WRITE_BYTES - pieces->len_bytes;

		if (n > len)
			n = len;
		pieces->first[pieces->count++] = (struct iovec){at, n};
		pieces->len_bytes += (uint32_t)n;
		at += n;
		len -= n;
		if (pieces->len_bytes == WRITE_BYTES ||
		    pieces->count == IO_VECTOR_MAX)
			end_write(pieces);
	}
}

/* What of a record is not written from where it lies. */
static uint32_t copied_bytes(const struct bucket_record *record)
{
	uint32_t bytes = format_header_bytes(record);

	return record->kind == BUCKET_JOURNAL
		       ? bytes + format_data_bytes(record)
		       : bytes;
}

/* Encodes the records, and gathers the writes. */
static int gather(struct open_bucket *open, struct bucket_record *records,
		  unsigned count, struct pieces *pieces)
{
	unsigned char *copy = pieces->batch->buffer;
	int error = 0;

	for (unsigned i = 0; i < count && !error; i++) {
		struct bucket_record *record = &records[i];
		struct format_position position = {
			.bucket = open->bucket->id,
			.block = open->end_block,
			.durable_block = open->durable_block,
			.salt = open->salt,
		};
		uint32_t header = format_header_bytes(record);
		uint32_t copied = copied_bytes(record);

		assert((uintptr_t)record->data % BLOCK_BYTES == 0 ||
		       record->kind == BUCKET_JOURNAL);
		format_encode_record(record, &position, copy);
		if (copied > header) {
			memset(copy + copied - BLOCK_BYTES, 0, BLOCK_BYTES);
			memcpy(copy + header, record->data, record->len_bytes);
		}
		error = index_add(&open->index, record, copy, position.block);
		add_piece(pieces, copy, copied);
		if (record->kind == BUCKET_CHUNK)
			add_piece(pieces, record->data,
				  format_data_bytes(record));
		open->end_block += blocks_of(record);
		copy += copied;
	}
	end_write(pieces);
	return error;
}

static int allocate(struct buckets *buckets, struct open_bucket *open,
		    uint64_t offset, uint64_t len, uint64_t deadline_ns)
{
	int error;

	if (!buckets->can_allocate)
		return 0;
	error = disk_run(buckets, open->bucket, open->bucket->fd, IO_ALLOCATE,
			 offset, (uint32_t)len, deadline_ns);
	if (error == -EOPNOTSUPP || error == -EINVAL) {
		buckets->can_allocate = false;
		return 0;
	}
	return error;
}

static int write_part(struct buckets *buckets, struct open_bucket *open,
		      struct bucket_record *records, unsigned count,
		      uint64_t deadline_ns)
{
	uint64_t start = (uint64_t)open->end_block * BLOCK_BYTES;
	uint64_t bytes = 0, copied = 0;
	struct pieces pieces = {.fd = open->bucket->fd, .offset_bytes = start};
	unsigned writes;
	int error;

	for (unsigned i = 0; i < count; i++) {
		bytes += (uint64_t)blocks_of(&records[i]) * BLOCK_BYTES;
		copied += copied_bytes(&records[i]);
	}
	/* A write ends when it is full, or has all the pieces it may; each
	 * write's end cuts one piece in two. */
	writes = (unsigned)(bytes / WRITE_BYTES + 1 +
			    2 * count / IO_VECTOR_MAX + 1);
	pieces.batch = disk_batch_new(buckets, open->bucket, writes, copied,
				      2 * count + writes);
	if (!pieces.batch)
		return -ENOMEM;
	pieces.first = pieces.batch->vectors;
	error = allocate(buckets, open, start, bytes, deadline_ns);
	if (!error)
		error = gather(open, records, count, &pieces);
	if (!error)
		error = disk_batch_run(pieces.batch, deadline_ns);
	disk_batch_put(pieces.batch);
	return error;
}

/* ---- opening ---- */

static int new_salt(uint64_t *salt)
{
	do {
		if (getrandom(salt, sizeof(*salt), 0) < 0)
			return -errno;
	} while (*salt == 0);
	return 0;
}

static int open_new(struct buckets *buckets, struct open_bucket **ret)
{
	struct open_bucket *open = calloc(1, sizeof(*open));
	int error;

	if (!open)
		return -ENOMEM;
	open->limit_blocks =
		(uint32_t)(bucket_limit_bytes(buckets) / BLOCK_BYTES);
	error = new_salt(&open->salt);
	if (!error)
		error = bucket_create(buckets, &open->bucket);
	if (error) {
		open_bucket_free(open);
		return error == -EDQUOT ? -ENOSPC : error;
	}
	*ret = open;
	return 0;
}

/* Gives up writing to a bucket that may still be written to by what has timed
 * out: writer_tidy() ends it when that is over. */
static void abandon(struct buckets *buckets, struct open_bucket *open)
{
	open->next = buckets->abandoned;
	buckets->abandoned = open;
}

/* Cuts the file after the last record that counts.  Tells what the file system
 * then says it holds. */
static int cut(struct open_bucket *open)
{
	if (ftruncate(open->bucket->fd, (off_t)open->end_block * BLOCK_BYTES))
		return -errno;
	return 0;
}

void bucket_set_file_bytes(struct bucket *bucket, uint64_t bytes)
{
	struct buckets *buckets = bucket->owner;

	pthread_mutex_lock(&buckets->lock);
	if (!bucket->dropped)
		buckets->stats.file_bytes += bytes - bucket->file_bytes;
	bucket->file_bytes = bytes;
	pthread_mutex_unlock(&buckets->lock);
}

static int continue_bucket(struct buckets *buckets, struct bucket *bucket,
			   struct bucket_contents *contents)
{
	struct open_bucket *open = calloc(1, sizeof(*open));
	uint64_t end = (uint64_t)contents->end_block * BLOCK_BYTES;
	int error = open ? 0 : -ENOMEM;

	if (!error) {
		open->limit_blocks =
			(uint32_t)(bucket_limit_bytes(buckets) / BLOCK_BYTES);
		open->end_block = contents->end_block;
		open->durable_block = contents->durable_block;
		open->salt = contents->salt;
		open->index = contents->index;
		open->bucket = bucket;
		contents->index = (struct bucket_index){0};
		if (open->salt == 0)
			error = new_salt(&open->salt);
	}
	if (!error)
		error = cut(open);
	if (error) {
		if (open)
			open->bucket = NULL;
		open_bucket_free(open);
		return error;
	}
	if (contents->torn)
		log_info("disk: %s/%010" PRIu32 ".bucket: cut after its last "
			 "whole record, at byte %" PRIu64
			 ": an unclean stop had left a part of one",
			 buckets->path, bucket->id, end);
	bucket_set_file_bytes(bucket, end);
	pthread_mutex_lock(&buckets->lock);
	bucket->end_block = open->end_block;
	bucket->writing = true;
	bucket->unsynced = true;
	pthread_mutex_unlock(&buckets->lock);
	buckets->open = open;
	return 0;
}

/* Whatever is wrong with the newest bucket, a new one can be begun. */
static void recover(struct buckets *buckets)
{
	struct bucket_contents contents = {0};
	struct bucket *bucket = NULL, *newest;
	uint32_t id = 0;
	int error;

	buckets->recovered = true;
	pthread_mutex_lock(&buckets->lock);
	newest = bucket_newest(buckets);
	if (newest && newest->appending)
		id = newest->id;
	else
		newest = NULL;
	pthread_mutex_unlock(&buckets->lock);
	if (!newest)
		return;
	error = bucket_get(buckets, id, &bucket);
	if (!error)
		error = contents_load(buckets, bucket, &contents);
	if (!error && !contents.sealed)
		error = continue_bucket(buckets, bucket, &contents);
	if (error)
		log_warning("disk: %s/%010" PRIu32 ".bucket can't be "
			    "continued: %s; a new one is begun",
			    buckets->path, id, strerror(-error));
	contents_release(&contents);
	if (buckets->open)
		return; /* which has the reference */
	pthread_mutex_lock(&buckets->lock);
	newest->appending = false;
	pthread_mutex_unlock(&buckets->lock);
	if (bucket)
		bucket_put(bucket);
}

/* ---- ending ---- */

/* Nobody appends to it any more. */
static void leave(struct bucket *bucket)
{
	pthread_mutex_lock(&bucket->owner->lock);
	bucket->appending = false;
	bucket->writing = false;
	pthread_mutex_unlock(&bucket->owner->lock);
}

static int write_footer(struct buckets *buckets, struct open_bucket *open)
{
	struct format_trailer trailer = {
		.bucket = open->bucket->id,
		.salt = open->salt,
		.index_block = open->end_block,
		.entry_count = open->index.count,
		.index_bytes = open->index.len,
		.index_check = checksum_bytes(open->index.bytes,
					      open->index.len, open->salt),
	};
	size_t index = round_up_block(open->index.len);
	uint32_t len = (uint32_t)(index + BLOCK_BYTES);
	uint64_t offset = (uint64_t)open->end_block * BLOCK_BYTES;
	struct disk_batch *batch =
		disk_batch_new(buckets, open->bucket, 1, len, 0);
	char *bytes;
	int error;

	if (!batch)
		return -ENOMEM;
	bytes = batch->buffer;
	memcpy(bytes, open->index.bytes, open->index.len);
	memset(bytes + open->index.len, 0, index - open->index.len);
	format_encode_trailer(&trailer, bytes + index);
	disk_batch_add(batch, IO_WRITE, open->bucket->fd, bytes, len, offset);
	error = disk_batch_run(batch, clock_deadline_ns(len));
	disk_batch_put(batch);
	if (!error)
		bucket_set_file_bytes(open->bucket, offset + len);
	return error;
}

/* A bucket without a footer is read by its headers: slower, nothing else. */
static void seal(struct buckets *buckets, struct open_bucket *open)
{
	int error = open->index.count ? write_footer(buckets, open) : 0;

	if (error) {
		log_warning("disk: %s/%010" PRIu32 ".bucket: the footer could "
			    "not be written: %s; it will be read by its "
			    "records",
			    buckets->path, open->bucket->id, strerror(-error));
		if (error != -ETIMEDOUT)
			(void)cut(open);
	}
	leave(open->bucket);
	open_bucket_free(open);
}

void writer_tidy(struct buckets *buckets)
{
	struct open_bucket **at = &buckets->abandoned;

	while (*at) {
		struct open_bucket *open = *at;
		bool dropped, busy;

		pthread_mutex_lock(&buckets->lock);
		busy = open->bucket->unsettled > 0;
		dropped = open->bucket->dropped;
		pthread_mutex_unlock(&buckets->lock);
		if (busy) {
			at = &open->next;
			continue;
		}
		*at = open->next;
		if (dropped || cut(open)) {
			leave(open->bucket);
			open_bucket_free(open);
		} else {
			seal(buckets, open);
		}
	}
}

void writer_close(struct buckets *buckets)
{
	writer_tidy(buckets);
	open_bucket_free(buckets->open);
	buckets->open = NULL;
	while (buckets->abandoned) {
		struct open_bucket *open = buckets->abandoned;

		buckets->abandoned = open->next;
		open_bucket_free(open);
	}
}

/* ---- a batch ---- */

/* Where the writer was before the batch, to go back there. */
struct checkpoint {
	struct open_bucket *open; /* NULL: none was open */
	uint32_t end_block;
	size_t index_len;
	uint32_t index_count;
	struct open_bucket
		*filled; /* left behind by this batch, newest first */
};

static void discard(struct buckets *buckets, struct open_bucket *open)
{
	uint32_t id = open->bucket->id;

	open_bucket_free(open);
	(void)bucket_remove(buckets, id, true);
}

static void roll_back(struct buckets *buckets, struct checkpoint *before)
{
	struct open_bucket *open = buckets->open;
	bool busy;

	/* All that the batch began: the open one, and those it filled. */
	buckets->open = NULL;
	if (open)
		open->next = before->filled;
	for (struct open_bucket *next; open && open != before->open;
	     open = next) {
		next = open->next;
		discard(buckets, open);
	}
	if (!open)
		return;
	open->end_block = before->end_block;
	open->index.len = before->index_len;
	open->index.count = before->index_count;
	open->next = NULL;
	pthread_mutex_lock(&buckets->lock);
	busy = open->bucket->unsettled > 0;
	pthread_mutex_unlock(&buckets->lock);
	if (busy || cut(open))
		abandon(buckets, open);
	else
		buckets->open = open;
}

static void commit_part(struct buckets *buckets, struct open_bucket *open)
{
	struct bucket *bucket = open->bucket;

	bucket_set_file_bytes(bucket, (uint64_t)open->end_block * BLOCK_BYTES);
	pthread_mutex_lock(&buckets->lock);
	bucket->end_block = open->end_block;
	bucket->unsynced = true;
	bucket->touched_ns = clock_realtime_ns();
	pthread_mutex_unlock(&buckets->lock);
}

static void count_records(struct buckets *buckets,
			  const struct bucket_record *records, unsigned count)
{
	struct bucket *bucket = NULL;

	pthread_mutex_lock(&buckets->lock);
	buckets->stats.records_written += count;
	/* The batch went to the newest buckets, in order. */
	for (unsigned i = count; i-- > 0;) {
		for (size_t b = buckets->count;
		     b-- > 0 &&
		     (!bucket || bucket->id != records[i].place.bucket);)
			bucket = buckets->table[b];
		buckets->stats.bytes_written +=
			(uint64_t)blocks_of(&records[i]) * BLOCK_BYTES;
		if (records[i].kind == BUCKET_CHUNK)
			bucket->live_bytes += format_data_bytes(&records[i]);
	}
	pthread_mutex_unlock(&buckets->lock);
}

static void commit(struct buckets *buckets, struct checkpoint *before,
		   const struct bucket_record *records, unsigned count)
{
	commit_part(buckets, buckets->open);
	for (struct open_bucket *open = before->filled; open; open = open->next)
		commit_part(buckets, open);
	count_records(buckets, records, count);
	while (before->filled) {
		struct open_bucket *open = before->filled;

		before->filled = open->next;
		seal(buckets, open);
	}
}

static int write_batch(struct buckets *buckets, struct checkpoint *before,
		       struct bucket_record *records, unsigned count,
		       uint64_t deadline_ns)
{
	unsigned done = 0;
	int error = 0;

	while (done < count && !error) {
		struct open_bucket *open = buckets->open;
		unsigned n = 0;

		if (open)
			n = how_many_fit(open, records + done, count - done);
		if (n > 0) {
			error = write_part(buckets, open, records + done, n,
					   deadline_ns);
			done += n;
			continue;
		}
		error = open_new(buckets, &buckets->open);
		if (!error && open) {
			open->next = before->filled;
			before->filled = open;
		}
	}
	return error;
}

int bucket_append(struct buckets *buckets, struct bucket_record *records,
		  unsigned count, uint64_t deadline_ns)
{
	struct checkpoint before = {0};
	uint64_t bytes = 0, slack = 0;
	bool journals = true;
	int error;

	if (count == 0)
		return 0;
	if (!buckets->recovered)
		recover(buckets);
	writer_tidy(buckets);
	for (unsigned i = 0; i < count; i++) {
		bytes += (uint64_t)blocks_of(&records[i]) * BLOCK_BYTES;
		journals &= records[i].kind == BUCKET_JOURNAL;
	}
	if (journals)
		slack = bucket_limit_bytes(buckets);
	if (bucket_excess(buckets, bytes) > slack)
		return -ENOSPC;
	if (buckets->open) {
		before.open = buckets->open;
		before.end_block = buckets->open->end_block;
		before.index_len = buckets->open->index.len;
		before.index_count = buckets->open->index.count;
	}
	error = write_batch(buckets, &before, records, count, deadline_ns);
	if (error) {
		roll_back(buckets, &before);
		return error == -EDQUOT ? -ENOSPC : error;
	}
	commit(buckets, &before, records, count);
	return 0;
}

/* ---- sync ---- */

static int sync_bucket(struct buckets *buckets, uint32_t id,
		       uint64_t deadline_ns)
{
	struct bucket *bucket;
	int error = bucket_get(buckets, id, &bucket);

	if (error == -ENOENT)
		return 0; /* dropped */
	if (error)
		return error;
	error = disk_run(buckets, bucket, bucket->fd, IO_SYNC, 0, 0,
			 deadline_ns);
	if (!error) {
		pthread_mutex_lock(&buckets->lock);
		bucket->unsynced = false;
		pthread_mutex_unlock(&buckets->lock);
	}
	bucket_put(bucket);
	return error;
}

/* The newest of those not synced and older than `below`, or 0: it is among the
 * last few. */
static bool next_unsynced(struct buckets *buckets, uint32_t below,
			  uint32_t *ret_id)
{
	bool found = false;

	pthread_mutex_lock(&buckets->lock);
	for (size_t i = buckets->count; i-- > 0 && !found;) {
		const struct bucket *bucket = buckets->table[i];

		found = bucket->unsynced && bucket->id < below;
		if (found)
			*ret_id = bucket->id;
	}
	pthread_mutex_unlock(&buckets->lock);
	return found;
}

int bucket_sync(struct buckets *buckets, uint64_t deadline_ns)
{
	uint32_t id = UINT32_MAX;
	int error = 0;

	while (!error && next_unsynced(buckets, id, &id))
		error = sync_bucket(buckets, id, deadline_ns);
	if (!error && buckets->directory_unsynced) {
		error = disk_run(buckets, NULL, buckets->fd, IO_SYNC, 0, 0,
				 deadline_ns);
		if (!error)
			buckets->directory_unsynced = false;
	}
	if (!error && buckets->open)
		buckets->open->durable_block = buckets->open->end_block;
	return error;
}
