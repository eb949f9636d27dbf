/* SPDX-License-Identifier: Apache-2.0 */
#include "store/bucket_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/lib/checksum.h"
#include "tools/lib/log.h"

/* Read at once while looking for headers: more than the longest one. */
#define WINDOW_BLOCKS 32u
static_assert(WINDOW_BLOCKS * BLOCK_BYTES >= FORMAT_HEADER_MAX, "");

/* Of the index that a trailer speaks of. */
#define INDEX_BYTES_MAX BUCKET_BYTES

enum data_outcome {
	DATA_BAD = 1,  /* not what the header says, or not there */
	DATA_HOLE = 2, /* given back by bucket_reclaim(), or never written */
};

static uint32_t end_of(const struct format_record *found)
{
	return found->record.place.data_block +
	       format_data_bytes(&found->record) / BLOCK_BYTES;
}

static void note_damage(struct bucket_contents *contents, uint32_t block)
{
	if (contents->damaged++ == 0)
		contents->damaged_block = block;
}

int index_add(struct bucket_index *index, const struct bucket_record *record,
	      const void *header, uint32_t block)
{
	size_t len = format_entry_bytes(record);

	if (index->len + len > index->capacity) {
		size_t capacity = index->capacity ? index->capacity * 2 : 65536;
		unsigned char *bytes;

		while (capacity < index->len + len)
			capacity *= 2;
		bytes = realloc(index->bytes, capacity);
		if (!bytes)
			return -ENOMEM;
		index->bytes = bytes;
		index->capacity = capacity;
	}
	format_encode_entry(header, block, index->bytes + index->len);
	index->len += len;
	index->count++;
	return 0;
}

void contents_release(struct bucket_contents *contents)
{
	free(contents->index.bytes);
	*contents = (struct bucket_contents){0};
}

/* ---- the bytes of a record ---- */

static bool data_valid(const struct format_record *found, const void *data)
{
	const struct bucket_record *record = &found->record;

	if (record->kind == BUCKET_JOURNAL)
		return format_payload_valid(found, data);
	return checksum_verify(data, record->len_bytes, chunk_seed(&record->id),
			       found->checksums) == SIZE_MAX;
}

static bool is_hole(const struct format_record *found,
		    const unsigned char *data)
{
	size_t len = found->record.len_bytes;

	return found->record.kind == BUCKET_CHUNK && data[0] == 0 &&
	       memcmp(data, data + 1, len - 1) == 0;
}

/* 0: *ret->buffer holds the record's bytes (ret: NULL if it has none), as they
 * were written; DATA_BAD, DATA_HOLE; -ETIMEDOUT, -ENOMEM. */
static int read_data(struct buckets *buckets, struct bucket *bucket,
		     const struct format_record *found, struct disk_batch **ret)
{
	uint32_t len = format_data_bytes(&found->record);
	struct disk_batch *batch = NULL;
	int64_t n = 0;

	if (len > 0)
		n = disk_read(buckets, bucket,
			      (uint64_t)found->record.place.data_block *
				      BLOCK_BYTES,
			      len, &batch);
	if (n == -ETIMEDOUT || n == -ENOMEM)
		return (int)n;
	if (n != (int64_t)len ||
	    !data_valid(found, batch ? batch->buffer : "")) {
		bool hole = n == (int64_t)len && batch &&
			    is_hole(found, batch->buffer);

		if (n >= 0)
			disk_batch_put(batch);
		return hole ? DATA_HOLE : DATA_BAD;
	}
	*ret = batch;
	return 0;
}

/* ---- sealed: the footer ---- */

/* Goes through all entries once, so that later none can fail to decode. */
static bool index_valid(const struct bucket_index *index,
			const struct format_trailer *trailer)
{
	struct format_record found;
	uint32_t count = 0;
	size_t at = 0, len;

	for (; at < index->len; at += len, count++) {
		if (format_decode_entry(index->bytes + at, index->len - at,
					trailer->bucket, trailer->index_block,
					&found, &len))
			return false;
	}
	return count == trailer->entry_count;
}

static int load_index(struct buckets *buckets, struct bucket *bucket,
		      const struct format_trailer *trailer,
		      struct bucket_contents *contents)
{
	uint32_t len = (uint32_t)round_up_block(trailer->index_bytes);
	struct bucket_index *index = &contents->index;
	struct disk_batch *batch;
	int64_t n;

	n = disk_read(buckets, bucket,
		      (uint64_t)trailer->index_block * BLOCK_BYTES, len,
		      &batch);
	if (n < 0)
		return n == -EIO ? DATA_BAD : (int)n;
	if (n != (int64_t)len ||
	    checksum_bytes(batch->buffer, trailer->index_bytes,
			   trailer->salt) != trailer->index_check) {
		disk_batch_put(batch);
		return DATA_BAD;
	}
	index->bytes = malloc(trailer->index_bytes);
	if (index->bytes)
		memcpy(index->bytes, batch->buffer, trailer->index_bytes);
	disk_batch_put(batch);
	if (!index->bytes)
		return -ENOMEM;
	index->len = index->capacity = trailer->index_bytes;
	index->count = trailer->entry_count;
	if (!index_valid(index, trailer)) {
		contents_release(contents);
		return DATA_BAD;
	}
	contents->end_block = trailer->index_block;
	contents->salt = trailer->salt;
	contents->sealed = true;
	return 0;
}

/* 0: loaded; DATA_BAD: there is no footer that can be read; -errno. */
static int load_footer(struct buckets *buckets, struct bucket *bucket,
		       uint64_t file_bytes, struct bucket_contents *contents)
{
	struct format_trailer trailer;
	struct disk_batch *batch;
	uint64_t blocks = file_bytes / BLOCK_BYTES;
	int64_t n;
	int r;

	if (blocks < 1 || file_bytes % BLOCK_BYTES != 0)
		return DATA_BAD;
	n = disk_read(buckets, bucket, file_bytes - BLOCK_BYTES, BLOCK_BYTES,
		      &batch);
	if (n < 0)
		return n == -EIO ? DATA_BAD : (int)n;
	r = format_decode_trailer(batch->buffer, (size_t)n, bucket->id,
				  &trailer);
	disk_batch_put(batch);
	if (r)
		return DATA_BAD;
	if (trailer.index_bytes == 0 || trailer.index_bytes > INDEX_BYTES_MAX ||
	    trailer.index_block +
			    round_up_block(trailer.index_bytes) / BLOCK_BYTES +
			    1 !=
		    blocks)
		return DATA_BAD;
	return load_index(buckets, bucket, &trailer, contents);
}

/* ---- not sealed, or damaged: the headers ---- */

struct walk {
	struct buckets *buckets;
	struct bucket *bucket;
	struct bucket_contents *contents;
	uint32_t limit_block; /* the file's length */
	/* The blocks at hand. */
	struct disk_batch *window;
	uint32_t window_block;
	uint32_t window_blocks;
	/* Of what can't be read since the last record. */
	bool in_damage;
	uint32_t damage_block;
};

/* Makes `block`, and what follows it, be at hand.  0, DATA_BAD: this block
 * can't be read, -errno. */
static int move_window(struct walk *walk, uint32_t block)
{
	uint32_t blocks = walk->limit_block - block;
	int64_t n = -EIO;

	disk_batch_put(walk->window);
	walk->window = NULL;
	walk->window_blocks = 0;
	if (blocks > WINDOW_BLOCKS)
		blocks = WINDOW_BLOCKS;
	/* Where some of it is damaged, one block at a time. */
	for (; n == -EIO && blocks > 0; blocks = blocks > 1 ? 1 : 0)
		n = disk_read(walk->buckets, walk->bucket,
			      (uint64_t)block * BLOCK_BYTES,
			      blocks * BLOCK_BYTES, &walk->window);
	if (n == -EIO)
		return DATA_BAD;
	if (n < 0)
		return (int)n;
	walk->window_block = block;
	walk->window_blocks = (uint32_t)(n / BLOCK_BYTES);
	return walk->window_blocks > 0 ? 0 : DATA_BAD;
}

/* The header at `block`: 0, an enum format_outcome, or -errno. */
static int header_at(struct walk *walk, uint32_t block,
		     struct format_record *ret, const void **ret_header)
{
	for (bool moved = false;; moved = true) {
		uint32_t skip = block - walk->window_block;
		size_t need;
		int r;

		if (block < walk->window_block || skip >= walk->window_blocks ||
		    moved) {
			r = move_window(walk, block);
			if (r)
				return r < 0 ? r : FORMAT_DAMAGED;
			skip = 0;
		}
		*ret_header = (char *)walk->window->buffer + skip * BLOCK_BYTES;
		r = format_decode_record(*ret_header,
					 (size_t)(walk->window_blocks - skip) *
						 BLOCK_BYTES,
					 walk->bucket->id, block, ret, &need);
		if (r != FORMAT_SHORT || moved || skip == 0)
			return r;
	}
}

/* Does the record belong to this bucket, whole? */
static bool acceptable(const struct walk *walk,
		       const struct format_record *found)
{
	const struct bucket_contents *contents = walk->contents;

	return end_of(found) <= walk->limit_block &&
	       (contents->salt == 0 || contents->salt == found->salt);
}

static int walk_step(struct walk *walk, uint32_t *block)
{
	struct bucket_contents *contents = walk->contents;
	struct format_record found;
	const void *header;
	int r = header_at(walk, *block, &found, &header);

	if (r < 0)
		return r;
	if (r || !acceptable(walk, &found)) {
		if (!walk->in_damage)
			walk->damage_block = *block;
		walk->in_damage = true;
		++*block;
		return 0;
	}
	if (walk->in_damage)
		note_damage(contents, walk->damage_block);
	walk->in_damage = false;
	contents->salt = found.salt;
	if (found.durable_block > contents->durable_block)
		contents->durable_block = found.durable_block;
	*block = end_of(&found);
	return index_add(&contents->index, &found.record, header, found.block);
}

/* Collects all headers.  Where none is, looks for the next at each block. */
static int walk_headers(struct walk *walk)
{
	uint32_t block = 0;
	int error = 0;

	while (block < walk->limit_block && !error)
		error = walk_step(walk, &block);
	walk->contents->torn = walk->in_damage;
	disk_batch_put(walk->window);
	walk->window = NULL;
	return error;
}

/* Leaves out those written since the bucket was last known to be on stable
 * storage whose bytes aren't there: a crash came first. */
static int check_tail(struct buckets *buckets, struct bucket *bucket,
		      struct bucket_contents *contents)
{
	struct bucket_index *index = &contents->index;
	size_t from = 0, to = 0, len;
	uint32_t kept = 0;

	for (; from < index->len; from += len) {
		struct disk_batch *data = NULL;
		struct format_record found;
		int r = format_decode_entry(index->bytes + from,
					    index->len - from, bucket->id,
					    UINT32_MAX, &found, &len);

		assert(r == 0); /* made by index_add */
		if (found.block >= contents->durable_block) {
			r = read_data(buckets, bucket, &found, &data);
			disk_batch_put(data);
			if (r < 0)
				return r;
		}
		if (r != 0) {
			contents->torn = true;
			continue;
		}
		memmove(index->bytes + to, index->bytes + from, len);
		to += len;
		kept++;
		contents->end_block = end_of(&found);
		contents->torn = false;
	}
	index->len = to;
	index->count = kept;
	return 0;
}

/* Whatever somebody made of the file, no more than a bucket is looked at. */
static uint32_t limit_of(uint64_t file_bytes)
{
	if (file_bytes > BUCKET_BYTES)
		file_bytes = BUCKET_BYTES;
	return (uint32_t)(file_bytes / BLOCK_BYTES);
}

int contents_load(struct buckets *buckets, struct bucket *bucket,
		  struct bucket_contents *ret)
{
	struct bucket_contents contents = {0};
	struct walk walk = {
		.buckets = buckets, .bucket = bucket, .contents = &contents};
	uint32_t written = 0;
	bool writing;
	struct stat st;
	int r = DATA_BAD;
	bool torn;

	if (fstat(bucket->fd, &st))
		return -errno;
	pthread_mutex_lock(&buckets->lock);
	writing = bucket->writing;
	if (writing)
		written = bucket->end_block;
	pthread_mutex_unlock(&buckets->lock);
	if (!writing)
		r = load_footer(buckets, bucket, (uint64_t)st.st_size,
				&contents);
	if (r == DATA_BAD) {
		walk.limit_block = limit_of((uint64_t)st.st_size);
		if (writing && written < walk.limit_block)
			walk.limit_block = written;
		r = walk_headers(&walk);
		torn = contents.torn;
		if (!r && !writing)
			r = check_tail(buckets, bucket, &contents);
		contents.torn |= torn;
	}
	if (r < 0) {
		contents_release(&contents);
		return r;
	}
	*ret = contents;
	return 0;
}

/* ---- scanning for the caller ---- */

struct scan {
	struct buckets *buckets;
	struct bucket *bucket;
	struct bucket_contents contents;
	bool verify;
	int (*each)(void *arg, const struct bucket_record *record);
	void *arg;
};

static int scan_entry(struct scan *scan, struct format_record *found)
{
	struct disk_batch *data = NULL;
	int r = 0;

	if (scan->verify || found->record.kind == BUCKET_JOURNAL)
		r = read_data(scan->buckets, scan->bucket, found, &data);
	if (r == DATA_BAD)
		note_damage(&scan->contents, found->block);
	if (r > 0)
		return 0;
	if (r)
		return r;
	if (scan->verify || found->record.kind == BUCKET_JOURNAL)
		found->record.data = data ? data->buffer : "";
	r = scan->each(scan->arg, &found->record);
	disk_batch_put(data);
	return r;
}

static int scan_entries(struct scan *scan)
{
	const struct bucket_index *index = &scan->contents.index;
	struct format_record found;
	size_t at = 0, len;
	int r = 0;

	for (; at < index->len && !r; at += len) {
		r = format_decode_entry(index->bytes + at, index->len - at,
					scan->bucket->id, UINT32_MAX, &found,
					&len);
		assert(r == 0); /* checked when it was loaded */
		r = scan_entry(scan, &found);
	}
	return r;
}

static void report_damage(const struct scan *scan)
{
	const struct bucket_contents *contents = &scan->contents;

	if (contents->damaged == 0)
		return;
	log_warning("disk: %s/%010" PRIu32 ".bucket: %" PRIu64
		    " damaged places, the first at byte %" PRIu64
		    "; the pages in them are misses, all others are kept. "
		    "Look at the disk's health if this comes again",
		    scan->buckets->path, scan->bucket->id, contents->damaged,
		    (uint64_t)contents->damaged_block * BLOCK_BYTES);
	pthread_mutex_lock(&scan->buckets->lock);
	scan->buckets->stats.damaged += contents->damaged;
	pthread_mutex_unlock(&scan->buckets->lock);
}

int bucket_scan(struct buckets *buckets, uint32_t id, bool verify,
		int (*each)(void *arg, const struct bucket_record *record),
		void *arg, uint64_t *ret_damaged)
{
	struct scan scan = {
		.buckets = buckets, .verify = verify, .each = each, .arg = arg};
	bool appending;
	int r = bucket_get(buckets, id, &scan.bucket);

	if (r)
		return r;
	r = contents_load(buckets, scan.bucket, &scan.contents);
	if (!r) {
		pthread_mutex_lock(&buckets->lock);
		appending = scan.bucket->appending;
		pthread_mutex_unlock(&buckets->lock);
		/* What a crash cuts off the end is no damage, but in a bucket
		 * that has a successor it is. */
		if (scan.contents.torn && !appending)
			note_damage(&scan.contents, scan.contents.end_block);
		r = scan_entries(&scan);
		report_damage(&scan);
		if (ret_damaged)
			*ret_damaged = scan.contents.damaged;
		contents_release(&scan.contents);
	}
	bucket_put(scan.bucket);
	return r;
}
