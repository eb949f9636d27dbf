/* SPDX-License-Identifier: Apache-2.0 */
#include "store/bucket.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/format.h"
#include "tools/lib/checksum.h"
#include "tools/lib/clock.h"
#include "tools/lib/fault.h"

/* Every test that moves bytes runs on both engines. */
static enum io_mode RING = IO_AUTO, THREADS = IO_URING_OFF;

#define LIMIT_NS (20 * CLOCK_NS_PER_SECOND)

struct fixture {
	char dir[64];
	struct io *io;
	struct buckets *buckets;
	struct buckets_config config;
};

static uint64_t soon(void)
{
	return clock_monotonic_ns() + LIMIT_NS;
}

static int remove_one(const char *path, const struct stat *st, int flag,
		      struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static void remove_tree(const char *dir)
{
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void open_in(struct fixture *f, enum io_mode mode)
{
	struct io_config io_config = {.mode = mode, .depth = 32};
	char reason[256];

	assert_int_equal(io_open(&io_config, &f->io), 0);
	f->config.dir = f->dir;
	f->config.io = f->io;
	if (!f->config.node)
		f->config.node = 7;
	if (buckets_open(&f->config, &f->buckets, reason) != 0)
		fail_msg("%s", reason);
}

static struct fixture begin(void **state)
{
	struct fixture f = {.dir = "/var/tmp/pagefs-bucket-XXXXXX"};

	fault_disarm_all();
	assert_non_null(mkdtemp(f.dir));
	open_in(&f, state && *state ? *(enum io_mode *)*state : IO_AUTO);
	return f;
}

static void shut(struct fixture *f)
{
	buckets_close(f->buckets);
	io_close(f->io);
	f->buckets = NULL;
}

static void end(struct fixture *f)
{
	fault_disarm_all();
	shut(f);
	remove_tree(f->dir);
}

static void reopen(struct fixture *f, void **state)
{
	fault_disarm_all();
	shut(f);
	open_in(f, state && *state ? *(enum io_mode *)*state : IO_AUTO);
}

/* ---- chunks whose bytes follow from their number ---- */

struct chunk {
	struct bucket_record record;
	char key[64];
	uint64_t *sums;
	unsigned char *data;
};

static void fill(unsigned char *data, uint32_t len, uint64_t number)
{
	uint64_t x = number * 0x9E3779B97F4A7C15ull + 1;

	for (uint32_t i = 0; i < len; i++) {
		if (i % 8 == 0)
			x = x * 6364136223846793005ull + 1442695040888963407ull;
		data[i] = (unsigned char)(x >> (8 * (i % 8)));
	}
}

static struct chunk chunk_make(uint64_t number, uint32_t len)
{
	struct chunk c = {0};
	size_t room = round_up_block(len) + BLOCK_BYTES;

	c.data = aligned_alloc(BLOCK_BYTES, room);
	memset(c.data, 0, room);
	fill(c.data, len, number);
	snprintf(c.key, sizeof(c.key), "some/key/%llu",
		 (unsigned long long)number);
	c.record.kind = BUCKET_CHUNK;
	c.record.id = (struct chunk_id){
		.object = number,
		.index = (uint32_t)(number % 3),
		.version = {.clock = number << 16, .node = 7}};
	c.record.key_bytes = strlen(c.key);
	c.record.len_bytes = len;
	c.record.data = c.data;
	c.sums = calloc(FORMAT_CHECKSUMS_MAX, sizeof(*c.sums));
	checksum_blocks(c.data, len, chunk_seed(&c.record.id), c.sums);
	return c;
}

/* Once the chunk has its final address. */
static struct bucket_record chunk_record(struct chunk *c)
{
	c->record.key = c->key;
	c->record.checksums = c->sums;
	return c->record;
}

static void chunk_free(struct chunk *c)
{
	free(c->data);
	free(c->sums);
}

struct waiter {
	struct io_request request;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int64_t res;
	bool done, settled;
};

static void on_done(struct io_request *request, int64_t res)
{
	struct waiter *w = request->arg;

	pthread_mutex_lock(&w->lock);
	w->res = res;
	w->done = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static void on_settled(struct io_request *request)
{
	struct waiter *w = request->arg;

	pthread_mutex_lock(&w->lock);
	w->settled = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static void waiter_init(struct waiter *w, uint64_t deadline_ns)
{
	*w = (struct waiter){.lock = PTHREAD_MUTEX_INITIALIZER,
			     .changed = PTHREAD_COND_INITIALIZER};
	w->request.done = on_done;
	w->request.settled = on_settled;
	w->request.arg = w;
	w->request.deadline_ns = deadline_ns;
}

static void wait_for(struct waiter *w, bool *what)
{
	pthread_mutex_lock(&w->lock);
	while (!*what)
		pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

/* What io says, BUCKET_GONE, or -EBADMSG if the bytes aren't the chunk's. */
static int64_t read_back(struct fixture *f, struct chunk *c)
{
	uint32_t room = (uint32_t)round_up_block(c->record.len_bytes);
	unsigned char *data = aligned_alloc(BLOCK_BYTES, room + BLOCK_BYTES);
	struct waiter w;
	int64_t r;

	waiter_init(&w, soon());
	r = bucket_read(f->buckets, &c->record.place, data, &w.request);
	if (r == 0) {
		wait_for(&w, &w.settled);
		r = w.res;
		if (r >= (int64_t)c->record.len_bytes &&
		    memcmp(data, c->data, c->record.len_bytes) != 0)
			r = -EBADMSG;
	}
	free(data);
	return r;
}

static int append(struct fixture *f, struct chunk *chunks, unsigned count)
{
	struct bucket_record *records = calloc(count, sizeof(*records));
	int r;

	for (unsigned i = 0; i < count; i++)
		records[i] = chunk_record(&chunks[i]);
	r = bucket_append(f->buckets, records, count, soon());
	for (unsigned i = 0; i < count && !r; i++)
		chunks[i].record.place = records[i].place;
	free(records);
	return r;
}

/* ---- scans ---- */

struct seen {
	unsigned chunks, journals, wrong;
	uint64_t last_object;
	uint64_t objects[4096]; /* counts */
	char journal[4096];
	size_t journal_bytes;
};

static int see(void *arg, const struct bucket_record *record)
{
	struct seen *seen = arg;
	char key[64];

	if (record->kind == BUCKET_JOURNAL) {
		seen->journals++;
		if (record->len_bytes <= sizeof(seen->journal)) {
			memcpy(seen->journal, record->data, record->len_bytes);
			seen->journal_bytes = record->len_bytes;
		}
		return 0;
	}
	seen->chunks++;
	seen->last_object = record->id.object;
	if (record->id.object < 4096)
		seen->objects[record->id.object]++;
	snprintf(key, sizeof(key), "some/key/%llu",
		 (unsigned long long)record->id.object);
	if (record->key_bytes != strlen(key) ||
	    memcmp(record->key, key, record->key_bytes) != 0)
		seen->wrong++;
	if (record->data) {
		unsigned char *expected = malloc(record->len_bytes + 1);

		fill(expected, record->len_bytes, record->id.object);
		if (memcmp(expected, record->data, record->len_bytes) != 0)
			seen->wrong++;
		free(expected);
	}
	return 0;
}

static struct seen scan_all(struct fixture *f, bool verify, uint64_t *damaged)
{
	struct seen seen = {0};
	uint32_t *ids;
	size_t count;

	*damaged = 0;
	assert_int_equal(bucket_list(f->buckets, &ids, &count), 0);
	for (size_t i = 0; i < count; i++) {
		uint64_t d = 0;

		assert_int_equal(
			bucket_scan(f->buckets, ids[i], verify, see, &seen, &d),
			0);
		*damaged += d;
	}
	free(ids);
	assert_int_equal(seen.wrong, 0);
	return seen;
}

static void bucket_path(struct fixture *f, uint32_t id, char path[128])
{
	snprintf(path, 128, "%s/buckets/%010u.bucket", f->dir, id);
}

static off_t bucket_size(struct fixture *f, uint32_t id)
{
	char path[128];
	struct stat st;

	bucket_path(f, id, path);
	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

static void overwrite(struct fixture *f, uint32_t id, off_t at,
		      const void *bytes, size_t len)
{
	char path[128];
	int fd;

	bucket_path(f, id, path);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, len, at), (ssize_t)len);
	close(fd);
}

static void flip(struct fixture *f, uint32_t id, off_t at)
{
	char path[128], byte;
	int fd;

	bucket_path(f, id, path);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte = (char)(byte ^ 0x10);
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

/* ---- tests ---- */

static void chunks_of_all_sizes_come_back_as_they_were(void **state)
{
	static const uint32_t sizes[] = {0,	  1,	   4095,   4096,
					 4097,	  65536,   262144, 262145,
					 3670016, 64 << 20};
	enum {
		COUNT = sizeof(sizes) / sizeof(sizes[0])
	};
	struct fixture f = begin(state);
	struct chunk chunks[COUNT];
	uint64_t damaged;
	struct seen seen;

	for (unsigned i = 0; i < COUNT; i++)
		chunks[i] = chunk_make(i + 1, sizes[i]);
	assert_int_equal(append(&f, chunks, COUNT), 0);
	assert_int_equal(bucket_sync(f.buckets, soon()), 0);
	for (int round = 0; round < 2; round++) {
		for (unsigned i = 0; i < COUNT; i++)
			assert_int_equal(read_back(&f, &chunks[i]),
					 round_up_block(sizes[i]));
		seen = scan_all(&f, round == 1, &damaged);
		assert_int_equal(seen.chunks, COUNT);
		assert_int_equal(damaged, 0);
		reopen(&f, state);
	}
	for (unsigned i = 0; i < COUNT; i++)
		chunk_free(&chunks[i]);
	end(&f);
}

static void journals_and_long_headers_come_back(void **state)
{
	struct fixture f = begin(state);
	struct chunk c = chunk_make(1, 5000);
	static char extra[FORMAT_EXTRA_MAX], key[KEY_MAX_BYTES];
	struct bucket_record records[3] = {
		{.kind = BUCKET_JOURNAL, .data = "abc", .len_bytes = 3},
		chunk_record(&c),
		{.kind = BUCKET_JOURNAL, .data = "unlink x", .len_bytes = 8}};
	uint64_t damaged;
	struct seen seen;

	memset(key, 'k', sizeof(key));
	records[1].extra = extra;
	records[1].extra_bytes = sizeof(extra);
	assert_int_equal(bucket_append(f.buckets, records, 3, soon()), 0);
	seen = scan_all(&f, false, &damaged);
	assert_int_equal(seen.journals, 2);
	assert_int_equal(seen.chunks, 1);
	assert_int_equal(seen.journal_bytes, 8);
	assert_memory_equal(seen.journal, "unlink x", 8);
	c.record.place = records[1].place;
	assert_int_equal(read_back(&f, &c), 8192);
	chunk_free(&c);
	end(&f);
}

/* Small buckets: 8 MiB, by the cap. */
static struct fixture begin_small(void **state)
{
	struct fixture f = {
		.dir = "/var/tmp/pagefs-bucket-XXXXXX",
		.config = {.cap_bytes = 64 << 20, .reserve_bytes = 1}};

	fault_disarm_all();
	assert_non_null(mkdtemp(f.dir));
	open_in(&f, state && *state ? *(enum io_mode *)*state : IO_AUTO);
	return f;
}

#define MEGABYTE (1u << 20)

static struct chunk *append_many(struct fixture *f, unsigned count,
				 unsigned batch, uint32_t len)
{
	struct chunk *chunks = calloc(count, sizeof(*chunks));

	for (unsigned i = 0; i < count; i++)
		chunks[i] = chunk_make(i + 1, len);
	for (unsigned i = 0; i < count; i += batch)
		assert_int_equal(append(f, chunks + i,
					i + batch < count ? batch : count - i),
				 0);
	return chunks;
}

static void free_many(struct chunk *chunks, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		chunk_free(&chunks[i]);
	free(chunks);
}

static void full_buckets_are_sealed_and_read_by_their_footer(void **state)
{
	struct fixture f = begin_small(state);
	struct chunk *chunks = append_many(&f, 30, 4, MEGABYTE);
	struct buckets_stats stats;
	uint64_t damaged;
	struct seen seen;

	for (int round = 0; round < 2; round++) {
		buckets_get_stats(f.buckets, &stats);
		assert_true(stats.buckets >= 4);
		assert_true(stats.file_bytes > 30 * MEGABYTE);
		assert_true(stats.file_bytes < 31 * MEGABYTE);
		seen = scan_all(&f, round, &damaged);
		assert_int_equal(seen.chunks, 30);
		assert_int_equal(damaged, 0);
		for (unsigned i = 0; i < 30; i++)
			assert_int_equal(read_back(&f, &chunks[i]), MEGABYTE);
		reopen(&f, state);
	}
	/* A header that is lost does not matter where there is a footer. */
	overwrite(&f, 0, 0, "gone", 4);
	seen = scan_all(&f, true, &damaged);
	assert_int_equal(seen.chunks, 30);
	free_many(chunks, 30);
	end(&f);
}

static void a_batch_may_span_several_buckets(void **state)
{
	struct fixture f = begin_small(state);
	struct chunk *chunks = append_many(&f, 30, 30, MEGABYTE);
	struct buckets_stats stats;

	buckets_get_stats(f.buckets, &stats);
	assert_true(stats.buckets >= 4);
	assert_int_equal(stats.records_written, 30);
	assert_int_equal(stats.live_bytes, 30 * MEGABYTE);
	for (unsigned i = 0; i < 30; i++)
		assert_int_equal(read_back(&f, &chunks[i]), MEGABYTE);
	free_many(chunks, 30);
	end(&f);
}

static void du_says_what_is_there(void **state)
{
	struct fixture f = begin(state);
	struct chunk *chunks = append_many(&f, 5, 2, MEGABYTE);
	struct buckets_stats stats;
	char path[128];
	struct stat st;

	bucket_path(&f, 0, path);
	assert_int_equal(stat(path, &st), 0);
	buckets_get_stats(f.buckets, &stats);
	assert_int_equal(st.st_size, 5 * (MEGABYTE + BLOCK_BYTES));
	assert_in_range(st.st_blocks * 512, st.st_size, st.st_size + 65536);
	assert_int_equal(stats.file_bytes, st.st_size);
	free_many(chunks, 5);
	end(&f);
}

static void small_chunks_share_writes(void **state)
{
	struct fixture f = begin(state);
	struct io_stats before, after;
	struct chunk *chunks;

	io_get_stats(f.io, &before);
	chunks = append_many(&f, 200, 200, 4096);
	io_get_stats(f.io, &after);
	assert_int_equal(after.writes - before.writes, 1);
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(read_back(&f, &chunks[i]), 4096);
	free_many(chunks, 200);
	end(&f);
}

static void many_reads_overlap_and_each_gets_its_own_bytes(void **state)
{
	enum {
		COUNT = 64
	};
	struct fixture f = begin(state);
	struct chunk *chunks = append_many(&f, COUNT, 16, 300000);
	static struct waiter waiters[COUNT];
	static unsigned char *data[COUNT];

	for (unsigned i = 0; i < COUNT; i++) {
		data[i] = aligned_alloc(BLOCK_BYTES, round_up_block(300000));
		waiter_init(&waiters[i], soon());
		assert_int_equal(bucket_read(f.buckets, &chunks[i].record.place,
					     data[i], &waiters[i].request),
				 0);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		wait_for(&waiters[i], &waiters[i].settled);
		assert_true(waiters[i].res >= 300000);
		assert_memory_equal(data[i], chunks[i].data, 300000);
		free(data[i]);
	}
	free_many(chunks, COUNT);
	end(&f);
}

static void an_open_bucket_is_continued_after_a_restart(void **state)
{
	struct fixture f = begin(state);
	struct chunk *chunks = append_many(&f, 3, 3, 100000);
	struct chunk more = chunk_make(4, 100000);
	uint64_t damaged;

	reopen(&f, state);
	assert_int_equal(append(&f, &more, 1), 0);
	assert_int_equal(more.record.place.bucket, 0);
	for (unsigned i = 0; i < 3; i++)
		assert_true(read_back(&f, &chunks[i]) > 0);
	assert_true(read_back(&f, &more) > 0);
	assert_int_equal(scan_all(&f, true, &damaged).chunks, 4);
	assert_int_equal(damaged, 0);
	chunk_free(&more);
	free_many(chunks, 3);
	end(&f);
}

static void a_torn_tail_is_cut_off(void **state)
{
	struct fixture f = begin(state);
	struct chunk *chunks = append_many(&f, 3, 1, 100000);
	struct chunk more = chunk_make(4, 5000);
	off_t size = bucket_size(&f, 0);
	uint64_t damaged;
	char path[128];

	bucket_path(&f, 0, path);
	shut(&f);
	/* The last record lost its end, and something was being written. */
	assert_int_equal(truncate(path, size - 8192), 0);
	assert_int_equal(truncate(path, size + 123456), 0);
	open_in(&f, *(enum io_mode *)*state);
	assert_int_equal(scan_all(&f, false, &damaged).chunks, 2);
	assert_int_equal(damaged, 0);
	assert_int_equal(append(&f, &more, 1), 0);
	assert_int_equal(more.record.place.data_block,
			 chunks[2].record.place.data_block);
	assert_int_equal(bucket_size(&f, 0), 2 * size / 3 + 12288);
	assert_true(read_back(&f, &more) > 0);
	assert_int_equal(scan_all(&f, true, &damaged).chunks, 3);
	chunk_free(&more);
	free_many(chunks, 3);
	end(&f);
}

static void what_a_power_cut_left_out_is_not_shown(void **state)
{
	struct fixture f = begin(state);
	struct chunk chunks[3] = {chunk_make(1, 70000), chunk_make(2, 70000),
				  chunk_make(3, 70000)};
	char zeros[4096] = {0};
	uint64_t damaged;
	struct seen seen;

	assert_int_equal(append(&f, &chunks[0], 1), 0);
	assert_int_equal(bucket_sync(f.buckets, soon()), 0);
	assert_int_equal(append(&f, &chunks[1], 1), 0);
	assert_int_equal(append(&f, &chunks[2], 1), 0);
	shut(&f);
	overwrite(&f, 0, chunks[1].record.place.data_block * 4096ll, zeros,
		  sizeof(zeros));
	open_in(&f, *(enum io_mode *)*state);
	seen = scan_all(&f, false, &damaged);
	assert_int_equal(seen.chunks, 2);
	assert_int_equal(seen.objects[2], 0);
	for (int i = 0; i < 3; i++)
		chunk_free(&chunks[i]);
	end(&f);
}

static void a_failing_write_undoes_the_whole_batch(void **state)
{
	static const char *const points[] = {"io.write", "io.allocate"};
	static const int errors[] = {EIO, ENOSPC};
	struct fixture f = begin_small(state);
	struct chunk *first = append_many(&f, 3, 3, MEGABYTE);
	struct buckets_stats before, after;
	uint64_t damaged;
	unsigned failed = 0;

	buckets_get_stats(f.buckets, &before);
	for (unsigned i = 0; i < 4; i++) {
		/* Twenty: two new buckets are begun on the way. */
		for (uint64_t nth = 1;; nth++) {
			struct chunk chunks[20];
			int r;

			for (unsigned c = 0; c < 20; c++)
				chunks[c] = chunk_make(100 + c, MEGABYTE);
			fault_arm(points[i / 2], nth, errors[i % 2]);
			r = append(&f, chunks, 20);
			for (unsigned c = 0; c < 20; c++)
				chunk_free(&chunks[c]);
			if (fault_hits(points[i / 2]) == 0 || r == 0) {
				assert_int_equal(r, 0);
				break;
			}
			fault_disarm_all();
			assert_int_equal(r, -errors[i % 2]);
			failed++;
			buckets_get_stats(f.buckets, &after);
			assert_int_equal(after.buckets, before.buckets);
			assert_int_equal(after.file_bytes, before.file_bytes);
			assert_int_equal(after.live_bytes, before.live_bytes);
			assert_int_equal(scan_all(&f, true, &damaged).chunks,
					 3);
			assert_int_equal(damaged, 0);
		}
		fault_disarm_all();
		for (unsigned c = 0; c < 3; c++)
			assert_int_equal(read_back(&f, &first[c]), MEGABYTE);
		/* Back to three, for the next kind of failure. */
		end(&f);
		free_many(first, 3);
		f = begin_small(state);
		first = append_many(&f, 3, 3, MEGABYTE);
	}
	assert_true(failed >= 12);
	free_many(first, 3);
	end(&f);
}

static void after_a_failure_the_next_batch_takes_its_place(void **state)
{
	struct fixture f = begin(state);
	struct chunk chunks[2] = {chunk_make(1, 70000), chunk_make(2, 70000)};
	uint64_t damaged;

	fault_arm("io.write", 1, EIO);
	assert_int_equal(append(&f, &chunks[0], 1), -EIO);
	assert_int_equal(append(&f, &chunks[1], 1), 0);
	assert_int_equal(chunks[1].record.place.data_block, 1);
	assert_true(read_back(&f, &chunks[1]) > 0);
	reopen(&f, state);
	assert_int_equal(scan_all(&f, true, &damaged).chunks, 1);
	chunk_free(&chunks[0]);
	chunk_free(&chunks[1]);
	end(&f);
}

static void a_write_that_comes_too_late_spoils_nothing(void **state)
{
	struct fixture f = begin(state);
	struct chunk chunks[3] = {chunk_make(1, 70000), chunk_make(2, 70000),
				  chunk_make(3, 70000)};
	struct bucket_record record;
	uint64_t damaged;

	assert_int_equal(append(&f, &chunks[0], 1), 0);
	fault_arm("io.write.late", 1, 300);
	record = chunk_record(&chunks[1]);
	assert_int_equal(
		bucket_append(f.buckets, &record, 1,
			      clock_monotonic_ns() + 30 * CLOCK_NS_PER_MS),
		-ETIMEDOUT);
	assert_int_equal(append(&f, &chunks[2], 1), 0);
	assert_int_not_equal(chunks[2].record.place.bucket,
			     chunks[0].record.place.bucket);
	usleep(400000);
	assert_true(read_back(&f, &chunks[0]) > 0);
	assert_true(read_back(&f, &chunks[2]) > 0);
	/* The given-up bucket is ended by the next append. */
	assert_int_equal(append(&f, &chunks[1], 1), 0);
	assert_int_equal(scan_all(&f, true, &damaged).chunks, 3);
	assert_int_equal(damaged, 0);
	reopen(&f, state);
	assert_int_equal(scan_all(&f, true, &damaged).chunks, 3);
	assert_int_equal(damaged, 0);
	for (int i = 0; i < 3; i++)
		chunk_free(&chunks[i]);
	end(&f);
}

static void
a_read_past_its_deadline_keeps_its_memory_until_it_settles(void **state)
{
	struct fixture f = begin(state);
	struct chunk c = chunk_make(1, 8192);
	unsigned char *slot = aligned_alloc(BLOCK_BYTES, 8192);
	struct waiter w;

	assert_int_equal(append(&f, &c, 1), 0);
	memset(slot, 0xee, 8192);
	fault_arm("io.read.late", 1, 300);
	waiter_init(&w, clock_monotonic_ns() + 30 * CLOCK_NS_PER_MS);
	assert_int_equal(
		bucket_read(f.buckets, &c.record.place, slot, &w.request), 0);
	wait_for(&w, &w.done);
	assert_int_equal(w.res, -ETIMEDOUT);
#ifndef __SANITIZE_THREAD__ /* which rightly sees that this is a race */
	assert_int_equal(slot[0], 0xee);
#endif
	wait_for(&w, &w.settled);
	assert_memory_equal(slot, c.data, 8192); /* late, but then it came */
	free(slot);
	chunk_free(&c);
	end(&f);
}

static void a_sync_that_fails_is_told_and_tried_again(void **state)
{
	struct fixture f = begin(state);
	struct chunk c = chunk_make(1, 8192);
	struct io_stats before, after;

	assert_int_equal(append(&f, &c, 1), 0);
	fault_arm("io.sync", 1, EIO);
	assert_int_equal(bucket_sync(f.buckets, soon()), -EIO);
	assert_int_equal(bucket_sync(f.buckets, soon()), 0);
	io_get_stats(f.io, &before);
	assert_int_equal(bucket_sync(f.buckets, soon()), 0);
	io_get_stats(f.io, &after);
	assert_int_equal(before.syncs, after.syncs); /* nothing to do */
	chunk_free(&c);
	end(&f);
}

static void damage_costs_only_the_records_it_hits(void **state)
{
	struct fixture f = begin(state);
	struct chunk *chunks = append_many(&f, 10, 10, 50000);
	uint64_t damaged;
	struct seen seen;
	char zeros[3 * BLOCK_BYTES] = {0};

	assert_int_equal(bucket_sync(f.buckets, soon()), 0);
	/* So that a header says that what comes before it is durable. */
	{
		struct chunk last = chunk_make(11, 50000);

		assert_int_equal(append(&f, &last, 1), 0);
		chunk_free(&last);
	}
	shut(&f);
	flip(&f, 0, chunks[2].record.place.data_block * 4096ll - 4000);
	flip(&f, 0, chunks[4].record.place.data_block * 4096ll + 40000);
	overwrite(&f, 0, chunks[7].record.place.data_block * 4096ll - 4096,
		  zeros, sizeof(zeros));
	open_in(&f, IO_AUTO);

	seen = scan_all(&f, false, &damaged);
	assert_int_equal(seen.chunks, 9); /* headers of 3 and 8 are gone */
	assert_int_equal(damaged, 2);
	seen = scan_all(&f, true, &damaged);
	assert_int_equal(seen.chunks, 8); /* and the bytes of 5 are wrong */
	assert_int_equal(damaged, 3);
	assert_int_equal(seen.objects[3], 0);
	assert_int_equal(seen.objects[5], 0);
	assert_int_equal(seen.objects[8], 0);
	assert_int_equal(seen.objects[11], 1);
	/* Going on after it loses nothing more. */
	{
		struct chunk more = chunk_make(12, 50000);

		assert_int_equal(append(&f, &more, 1), 0);
		chunk_free(&more);
	}
	assert_int_equal(scan_all(&f, true, &damaged).chunks, 9);
	free_many(chunks, 10);
	end(&f);
}

static void
a_sealed_bucket_without_its_footer_is_read_by_its_headers(void **state)
{
	struct fixture f = begin_small(state);
	struct chunk *chunks = append_many(&f, 10, 5, MEGABYTE);
	off_t size = bucket_size(&f, 0);
	uint64_t damaged;
	unsigned in_first = 0;
	char path[128];

	for (unsigned i = 0; i < 10; i++)
		in_first += chunks[i].record.place.bucket == 0;
	bucket_path(&f, 0, path);
	shut(&f);
	flip(&f, 0, size - 4096 + 20); /* trailer */
	open_in(&f, IO_AUTO);
	assert_int_equal(scan_all(&f, true, &damaged).chunks, 10);
	assert_int_equal(damaged, 1);
	shut(&f);
	flip(&f, 0, size - 4096 + 20);
	flip(&f, 0, size - 8192 + 20); /* index */
	open_in(&f, IO_AUTO);
	assert_int_equal(scan_all(&f, true, &damaged).chunks, 10);
	shut(&f);
	assert_int_equal(truncate(path, size - MEGABYTE), 0); /* cut short */
	open_in(&f, IO_AUTO);
	assert_int_equal(scan_all(&f, true, &damaged).chunks, 9);
	assert_int_equal(damaged, 1);
	assert_true(in_first >= 2);
	for (unsigned i = 0; i < 10; i++) {
		int64_t n = read_back(&f, &chunks[i]);

		if (i + 1 == in_first)
			assert_true(n >= 0 && n < MEGABYTE);
		else
			assert_int_equal(n, MEGABYTE);
	}
	free_many(chunks, 10);
	end(&f);
}

static void a_missing_bucket_is_gone_and_the_rest_is_not(void **state)
{
	struct fixture f = begin_small(state);
	struct chunk *chunks = append_many(&f, 20, 5, MEGABYTE);
	char path[128];

	bucket_path(&f, 0, path);
	shut(&f);
	unlink(path);
	open_in(&f, IO_AUTO);
	assert_int_equal(read_back(&f, &chunks[0]), BUCKET_GONE);
	assert_int_equal(read_back(&f, &chunks[19]), MEGABYTE);
	free_many(chunks, 20);
	end(&f);
}

static void a_read_in_flight_outlives_the_drop(void **state)
{
	struct fixture f = begin_small(state);
	struct chunk *chunks = append_many(&f, 10, 5, MEGABYTE);
	unsigned char *data = aligned_alloc(BLOCK_BYTES, MEGABYTE);
	struct waiter w;

	fault_arm("io.read.late", 1, 200);
	waiter_init(&w, soon());
	assert_int_equal(bucket_read(f.buckets, &chunks[0].record.place, data,
				     &w.request),
			 0);
	assert_int_equal(bucket_drop(f.buckets, 0), 0);
	assert_int_equal(read_back(&f, &chunks[0]), BUCKET_GONE);
	wait_for(&w, &w.settled);
	assert_int_equal(w.res, MEGABYTE);
	assert_memory_equal(data, chunks[0].data, MEGABYTE);
	assert_int_equal(bucket_drop(f.buckets, 0), -ENOENT);
	free(data);
	free_many(chunks, 10);
	end(&f);
}

static void the_emptiest_bucket_goes_first_then_the_coldest(void **state)
{
	struct fixture f = begin_small(state);
	struct chunk *chunks = append_many(&f, 28, 7, MEGABYTE);
	uint32_t id;

	assert_int_equal(chunks[27].record.place.bucket, 3);
	assert_int_equal(bucket_coldest(f.buckets, &id), 0);
	assert_int_equal(id, 0);
	bucket_touch(f.buckets, &chunks[0].record.place);
	assert_int_equal(bucket_coldest(f.buckets, &id), 0);
	assert_int_equal(id, 1);
	for (unsigned i = 14; i < 17; i++)
		bucket_forget(f.buckets, &chunks[i].record.place);
	assert_int_equal(bucket_coldest(f.buckets, &id), 0);
	assert_int_equal(id, 2);
	bucket_set_live(f.buckets, 0, 0);
	assert_int_equal(bucket_coldest(f.buckets, &id), 0);
	assert_int_equal(id, 0);
	assert_int_equal(bucket_drop(f.buckets, 3), -EBUSY);
	while (bucket_coldest(f.buckets, &id) == 0)
		assert_int_equal(bucket_drop(f.buckets, id), 0);
	assert_int_equal(read_back(&f, &chunks[27]), MEGABYTE);
	free_many(chunks, 28);
	end(&f);
}

/* 7 chunks of a MiB a bucket: buckets 0, 1 and 2 are sealed. */
static void bytes_of_forgotten_chunks_are_given_back(void **state)
{
	struct fixture f = begin_small(state);
	struct chunk *chunks = append_many(&f, 22, 7, MEGABYTE);
	uint64_t now_ns = clock_monotonic_ns(), damaged;
	struct buckets_stats before, after;
	uint32_t id;

	buckets_get_stats(f.buckets, &before);
	for (unsigned i = 7; i < 15; i++)
		bucket_forget(f.buckets, &chunks[i].record.place);
	bucket_forget(f.buckets, &chunks[21].record.place);
	/* A read may be under way still. */
	bucket_reclaim(f.buckets, now_ns);
	assert_int_equal(read_back(&f, &chunks[7]), MEGABYTE);

	bucket_reclaim(f.buckets, now_ns + 60 * CLOCK_NS_PER_SECOND);
	buckets_get_stats(f.buckets, &after);
	/* Less what the file system takes to remember the holes. */
	assert_true(before.file_bytes - after.file_bytes >
		    8 * MEGABYTE - 65536);
	assert_int_equal(bucket_spent(f.buckets, &id), 0);
	assert_int_equal(id, 1);
	assert_int_equal(bucket_drop(f.buckets, id), 0);
	assert_int_equal(bucket_spent(f.buckets, &id), -ENOENT);
	/* What is left is whole: one hole in bucket 2 is no damage, and the
	 * bucket that is open is left alone. */
	assert_int_equal(scan_all(&f, true, &damaged).chunks, 14);
	assert_int_equal(damaged, 0);
	assert_int_equal(read_back(&f, &chunks[15]), MEGABYTE);
	assert_int_equal(read_back(&f, &chunks[21]), MEGABYTE);
	free_many(chunks, 22);
	end(&f);
}

static void a_bucket_that_died_before_the_start_is_given_back(void **state)
{
	struct fixture f = begin_small(state);
	struct chunk *chunks = append_many(&f, 15, 7, MEGABYTE);
	struct buckets_stats stats;
	uint32_t id;

	reopen(&f, state);
	bucket_set_live(f.buckets, 0, 0);
	bucket_reclaim(f.buckets, clock_monotonic_ns());
	assert_int_equal(bucket_spent(f.buckets, &id), 0);
	assert_int_equal(id, 0);
	buckets_get_stats(f.buckets, &stats);
	assert_true(stats.file_bytes < 9 * MEGABYTE);
	free_many(chunks, 15);
	end(&f);
}

static void at_the_cap_appends_fail_until_a_bucket_goes(void **state)
{
	struct fixture f = begin_small(state);
	unsigned full = 0, drops = 0;
	uint32_t id;

	for (unsigned i = 0; i < 100; i++) {
		struct chunk c = chunk_make(i, MEGABYTE);
		int r = append(&f, &c, 1);
		struct buckets_stats stats;

		if (r) {
			assert_int_equal(r, -ENOSPC);
			assert_true(bucket_excess(f.buckets, MEGABYTE + 4096) >
				    0);
			assert_int_equal(bucket_coldest(f.buckets, &id), 0);
			assert_int_equal(bucket_drop(f.buckets, id), 0);
			drops++;
			assert_int_equal(append(&f, &c, 1), 0);
		}
		full += r != 0;
		buckets_get_stats(f.buckets, &stats);
		assert_true(stats.file_bytes <= (64 << 20) + 65536);
		chunk_free(&c);
	}
	assert_true(full >= 4 && drops == full);
	end(&f);
}

static void numbers_are_not_given_out_twice(void **state)
{
	struct fixture f = begin_small(state);
	struct chunk *chunks = append_many(&f, 10, 5, MEGABYTE);
	struct chunk more = chunk_make(99, 5000);
	uint32_t *ids;
	size_t count;

	/* After a restart nothing is open, so that all can go. */
	reopen(&f, state);
	assert_int_equal(bucket_list(f.buckets, &ids, &count), 0);
	assert_int_equal(count, 2);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(bucket_drop(f.buckets, ids[i]), 0);
	free(ids);
	reopen(&f, state);
	assert_int_equal(append(&f, &more, 1), 0);
	assert_int_equal(more.record.place.bucket, 2);
	chunk_free(&more);
	free_many(chunks, 10);
	end(&f);
}

static void a_read_error_while_scanning_costs_at_most_one_record(void **state)
{
	struct fixture f = begin_small(state);
	struct chunk *chunks = append_many(&f, 12, 6, MEGABYTE);
	uint64_t damaged;
	bool failed = true;

	for (uint64_t nth = 1; failed; nth++) {
		struct seen seen;

		fault_arm("io.read", nth, EIO);
		seen = scan_all(&f, nth % 2, &damaged);
		failed = fault_hits("io.read") > 0;
		fault_disarm_all();
		assert_in_range(seen.chunks, 11, 12);
		if (seen.chunks < 12)
			assert_int_equal(damaged, 1);
	}
	assert_int_equal(scan_all(&f, true, &damaged).chunks, 12);
	free_many(chunks, 12);
	end(&f);
}

static void a_sync_has_a_deadline(void **state)
{
	struct fixture f = begin(state);
	struct chunk c = chunk_make(1, 5000);

	assert_int_equal(append(&f, &c, 1), 0);
	fault_arm("io.sync.late", 1, 300);
	assert_int_equal(bucket_sync(f.buckets, clock_monotonic_ns() +
							30 * CLOCK_NS_PER_MS),
			 -ETIMEDOUT);
	assert_int_equal(bucket_sync(f.buckets, soon()), 0);
	chunk_free(&c);
	end(&f);
}

/* ---- readers beside the writer ---- */

#define SHARED_MAX 400

struct shared {
	struct fixture *f;
	pthread_mutex_t lock;
	struct chunk *chunks; /* numbers 0 to count - 1 are written */
	unsigned count;
	bool stop;
	_Atomic unsigned read, gone, wrong;
};

static void *read_at_random(void *arg)
{
	struct shared *shared = arg;
	unsigned seed = 99;
	bool stop = false;

	while (!stop) {
		unsigned count;
		struct chunk c;
		int64_t n;

		pthread_mutex_lock(&shared->lock);
		count = shared->count;
		stop = shared->stop;
		if (count > 0) {
			seed = seed * 1103515245 + 12345;
			c = shared->chunks[(seed >> 8) % count];
		}
		pthread_mutex_unlock(&shared->lock);
		if (count == 0)
			continue;
		n = read_back(shared->f, &c);
		if (n == BUCKET_GONE)
			shared->gone++;
		else if (n < (int64_t)c.record.len_bytes)
			shared->wrong++;
		else
			shared->read++;
		bucket_touch(shared->f->buckets, &c.record.place);
	}
	return NULL;
}

static void readers_go_on_while_buckets_come_and_go(void **state)
{
	struct fixture f = begin_small(state);
	struct shared shared = {
		.f = &f,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.chunks = calloc(SHARED_MAX, sizeof(struct chunk))};
	pthread_t threads[4];
	uint32_t id;

	for (unsigned i = 0; i < SHARED_MAX; i++)
		shared.chunks[i] = chunk_make(i, 300000);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, read_at_random, &shared);
	for (unsigned i = 0; i < SHARED_MAX; i += 8) {
		while (bucket_excess(f.buckets, 8 * 400000) > 0) {
			assert_int_equal(bucket_coldest(f.buckets, &id), 0);
			assert_int_equal(bucket_drop(f.buckets, id), 0);
		}
		assert_int_equal(append(&f, shared.chunks + i, 8), 0);
		if (i % 5 == 0)
			assert_int_equal(bucket_sync(f.buckets, soon()), 0);
		pthread_mutex_lock(&shared.lock);
		shared.count = i + 8;
		pthread_mutex_unlock(&shared.lock);
	}
	pthread_mutex_lock(&shared.lock);
	shared.stop = true;
	pthread_mutex_unlock(&shared.lock);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(shared.wrong, 0);
	assert_true(shared.read > 0);
	free_many(shared.chunks, SHARED_MAX);
	end(&f);
}

/* ---- kill -9 ---- */

#define ROUNDS 50
#define CHUNKS_MAX 4096

/* What the child has done, in memory that outlives it. */
struct journal {
	_Atomic unsigned started;   /* chunks handed to bucket_append */
	_Atomic unsigned appended;  /* that it said were written */
	_Atomic unsigned confirmed; /* that bucket_sync said were safe */
	struct bucket_place places[CHUNKS_MAX];
};

static uint32_t len_of(unsigned number)
{
	return (number * 2654435761u >> 7) % 400000;
}

static int append_until_killed(struct fixture *f, struct journal *journal)
{
	unsigned next = journal->started;
	struct io_config io_config = {.mode = next % 2 ? IO_AUTO : IO_URING_OFF,
				      .depth = 32};

	if (io_open(&io_config, &f->io))
		return 1;
	f->config.io = f->io;
	f->config.dir = f->dir;
	if (buckets_open(&f->config, &f->buckets, NULL))
		return 2;
	while (next + 8 < CHUNKS_MAX) {
		unsigned count = 1 + next % 7;
		struct chunk chunks[8];

		for (unsigned i = 0; i < count; i++)
			chunks[i] = chunk_make(next + i, len_of(next + i));
		journal->started = next + count;
		if (append(f, chunks, count))
			return 3;
		for (unsigned i = 0; i < count; i++) {
			journal->places[next + i] = chunks[i].record.place;
			chunk_free(&chunks[i]);
		}
		journal->appended = next + count;
		next += count;
		if (next % 3 != 0) {
			if (bucket_sync(f->buckets, soon()))
				return 4;
			journal->confirmed = next;
		}
	}
	return 0;
}

/* Whatever was appended is there, with its own bytes (kill -9 takes no disk
 * cache with it, so that holds without a sync, too). */
static void check_after_kill(struct fixture *f, struct journal *journal,
			     const bool *lost)
{
	uint64_t damaged;
	struct seen seen;

	open_in(f, IO_AUTO);
	seen = scan_all(f, true, &damaged);
	assert_int_equal(damaged, 0);
	for (unsigned i = 0; i < journal->appended; i++) {
		struct chunk c;

		if (lost[i])
			continue;
		assert_int_equal(seen.objects[i], 1);
		c = chunk_make(i, len_of(i));
		c.record.place = journal->places[i];
		assert_true(read_back(f, &c) >= (int64_t)len_of(i));
		chunk_free(&c);
	}
	shut(f);
}

static void await_batch(struct journal *journal)
{
	for (int i = 0; i < 50000 && journal->started == journal->appended; i++)
		usleep(100);
}

static void killed_at_any_moment_it_loses_nothing_confirmed(void **state)
{
	struct fixture f = {.dir = "/var/tmp/pagefs-bucket-XXXXXX",
			    .config = {.cap_bytes = 1 << 30, .node = 7}};
	struct journal *journal =
		mmap(NULL, sizeof(*journal), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	static bool lost[CHUNKS_MAX];
	unsigned interrupted = 0, seed = 12345;

	(void)state;
	fault_disarm_all();
	assert_non_null(mkdtemp(f.dir));
	for (int round = 0; round < ROUNDS; round++) {
		struct fixture child = f;
		pid_t pid = fork();
		int status;

		if (pid == 0)
			_exit(append_until_killed(&child, journal));
		/* From its first batch on, and in the middle of one. */
		await_batch(journal);
		seed = seed * 1103515245 + 12345;
		usleep(seed / 65536 % 20000);
		await_batch(journal);
		usleep(seed / 65536 % 1000);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		assert_true(WIFSIGNALED(status));
		interrupted += journal->started > journal->appended;
		assert_true(journal->confirmed <= journal->appended);
		/* What was under way may or may not be there. */
		for (unsigned i = journal->appended; i < journal->started; i++)
			lost[i] = true;
		journal->appended = journal->started;
		if (round % 5 == 4)
			check_after_kill(&f, journal, lost);
	}
	/* Else the test would not have tested anything. */
	assert_true(interrupted > ROUNDS / 5);
	assert_true(journal->confirmed > 0);
	munmap(journal, sizeof(*journal));
	remove_tree(f.dir);
}

/* ---- the directory ---- */

static int open_again(struct fixture *f, char reason[256])
{
	struct buckets *second = NULL;
	int r;

	f->config.dir = f->dir;
	r = buckets_open(&f->config, &second, reason);

	if (r == 0)
		buckets_close(second);
	return r;
}

static void two_of_us_cannot_have_one_directory(void **state)
{
	struct fixture f = begin(state);
	char reason[256], pid[32];
	int status;
	pid_t child;

	snprintf(pid, sizeof(pid), "pid %ld", (long)getpid());
	assert_int_equal(open_again(&f, reason), -EWOULDBLOCK);
	assert_non_null(strstr(reason, pid));
	child = fork();
	if (child == 0)
		_exit(open_again(&f, reason) == -EWOULDBLOCK &&
				      strstr(reason, pid)
			      ? 0
			      : 1);
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	end(&f);
}

static void write_file(const char *dir, const void *bytes, size_t len)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/pagefs", dir);
	fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0600);
	assert_int_equal(write(fd, bytes, len), (ssize_t)len);
	close(fd);
}

static void a_superblock_that_cannot_be_trusted_is_refused(void **state)
{
	struct fixture f = begin(state);
	struct chunk c = chunk_make(1, 5000);
	struct format_superblock superblock = {
		.version = 1, .node = 7, .next_bucket = 1};
	unsigned char block[BLOCK_BYTES];
	char reason[256], path[128];

	assert_int_equal(append(&f, &c, 1), 0);
	buckets_close(f.buckets);
	format_encode_superblock(&superblock, block);

	block[16] ^= 1;
	write_file(f.dir, block, sizeof(block));
	assert_int_equal(open_again(&f, reason), -EPROTO);
	assert_non_null(strstr(reason, "damaged"));
	write_file(f.dir, block, 100);
	assert_int_equal(open_again(&f, reason), -EPROTO);
	write_file(f.dir, "#!/bin/sh", 9);
	assert_int_equal(open_again(&f, reason), -EPROTO);
	memset(block, 'x', sizeof(block));
	write_file(f.dir, block, sizeof(block));
	assert_int_equal(open_again(&f, reason), -EPROTO);
	assert_non_null(strstr(reason, "not a pagefs"));

	/* Taken away, as the message says, it is made anew. */
	snprintf(path, sizeof(path), "%s/pagefs", f.dir);
	unlink(path);
	f.config.dir = f.dir;
	assert_int_equal(buckets_open(&f.config, &f.buckets, reason), 0);
	assert_true(read_back(&f, &c) > 0);
	chunk_free(&c);
	end(&f);
}

static void a_newer_format_is_refused_and_says_so(void **state)
{
	struct fixture f = begin(state);
	struct format_superblock superblock = {.version = 1, .node = 7};
	unsigned char block[BLOCK_BYTES];
	struct disk_superblock disk;
	char reason[256];
	uint64_t check;

	buckets_close(f.buckets);
	format_encode_superblock(&superblock, block);
	block[8] = 2;
	check = checksum_bytes(block + 128, BLOCK_BYTES - 128,
			       checksum_bytes(block, 120, 0));
	memcpy(&disk, block, sizeof(disk));
	disk.check = le64_put(check);
	memcpy(block, &disk, sizeof(disk));
	write_file(f.dir, block, sizeof(block));
	assert_int_equal(open_again(&f, reason), -EPROTO);
	assert_non_null(strstr(reason, "newer"));
	f.buckets = NULL;
	io_close(f.io);
	remove_tree(f.dir);
}

static void
the_directory_is_made_with_its_parents_for_its_owner_only(void **state)
{
	struct fixture f = begin(state);
	struct buckets_config config = f.config;
	struct buckets *buckets;
	char dir[128];
	struct stat st;

	snprintf(dir, sizeof(dir), "%s/a/b/c", f.dir);
	config.dir = dir;
	config.node = 0;
	assert_int_equal(buckets_open(&config, &buckets, NULL), 0);
	assert_int_not_equal(buckets_node(buckets), 0);
	buckets_close(buckets);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	end(&f);
}

static void without_permission_the_reason_names_the_directory(void **state)
{
	struct fixture f = begin(state);
	int status;
	pid_t child = fork();

	if (child == 0) {
		char reason[256];
		struct buckets *buckets;
		struct buckets_config config = f.config;

		config.dir = f.dir;

		if (setuid(65534) != 0)
			_exit(0);
		_exit(buckets_open(&config, &buckets, reason) == -EACCES &&
				      strstr(reason, f.dir)
			      ? 0
			      : 1);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	end(&f);
}

/* ---- a file system that others fill, and that takes no O_DIRECT ---- */

static bool mount_small(char *dir)
{
	return mkdtemp(dir) && mount("none", dir, "tmpfs", 0, "size=32m") == 0;
}

static void a_file_system_without_o_direct_or_room_is_dealt_with(void **state)
{
	struct fixture f = {.dir = "/tmp/pagefs-small-XXXXXX"};
	char other[128];
	unsigned written = 0;
	uint64_t damaged, excess;
	int fd, r;

	if (!mount_small(f.dir)) {
		rmdir(f.dir);
		skip();
	}
	open_in(&f, *(enum io_mode *)*state);
	for (r = 0; r == 0 && written < 64;) {
		struct chunk c = chunk_make(written, MEGABYTE);

		r = append(&f, &c, 1);
		written += r == 0;
		if (r == 0)
			assert_int_equal(read_back(&f, &c), MEGABYTE);
		chunk_free(&c);
	}
	assert_int_equal(r, -ENOSPC); /* 90% of it, and 5% for others */
	assert_in_range(written, 20, 29);

	/* Others take the rest: what fitted does not any more. */
	assert_int_equal(bucket_drop(f.buckets, 0), 0);
	usleep(120000);
	excess = bucket_excess(f.buckets, MEGABYTE);
	assert_int_equal(excess, 0);
	snprintf(other, sizeof(other), "%s/other", f.dir);
	fd = open(other, O_RDWR | O_CREAT, 0600);
	assert_int_equal(posix_fallocate(fd, 0, 6 << 20), 0);
	usleep(120000);
	assert_true(bucket_excess(f.buckets, 4 * MEGABYTE) > 0);

	/* And past what statvfs could tell: the file system itself says no. */
	fault_arm("io.write", 1, ENOSPC);
	close(fd);
	unlink(other);
	usleep(120000);
	{
		struct chunk c = chunk_make(1000, MEGABYTE);

		assert_int_equal(append(&f, &c, 1), -ENOSPC);
		assert_int_equal(append(&f, &c, 1), 0);
		assert_int_equal(read_back(&f, &c), MEGABYTE);
		chunk_free(&c);
	}
	scan_all(&f, true, &damaged);
	assert_int_equal(damaged, 0);
	shut(&f);
	umount(f.dir);
	rmdir(f.dir);
}

static void a_full_file_system_undoes_the_batch(void **state)
{
	/* The cap is out of the way: only the file system itself refuses. */
	struct fixture f = {
		.dir = "/tmp/pagefs-small-XXXXXX",
		.config = {.cap_bytes = 1 << 30, .reserve_bytes = 1}};
	struct chunk *chunks = calloc(20, sizeof(*chunks));
	char other[128];
	uint64_t damaged;
	int fd, r;

	if (!mount_small(f.dir)) {
		rmdir(f.dir);
		free(chunks);
		skip();
	}
	open_in(&f, *(enum io_mode *)*state);
	for (unsigned i = 0; i < 20; i++)
		chunks[i] = chunk_make(i, MEGABYTE);
	assert_int_equal(append(&f, chunks, 3), 0);
	snprintf(other, sizeof(other), "%s/other", f.dir);
	fd = open(other, O_RDWR | O_CREAT, 0600);
	/* Within the 100 ms for which the last look at the room holds. */
	assert_int_equal(bucket_excess(f.buckets, 20 * MEGABYTE), 0);
	assert_int_equal(posix_fallocate(fd, 0, 22 << 20), 0);
	r = append(&f, chunks + 3, 17);
	assert_int_equal(r, -ENOSPC);
	assert_int_equal(scan_all(&f, true, &damaged).chunks, 3);
	assert_int_equal(damaged, 0);
	assert_int_equal(append(&f, chunks + 3, 2), 0);
	assert_int_equal(scan_all(&f, true, &damaged).chunks, 5);
	close(fd);
	free_many(chunks, 20);
	shut(&f);
	umount(f.dir);
	rmdir(f.dir);
}

#define ON(engine, test)                                                       \
	{                                                                      \
#test "[" #engine "]", test, NULL, NULL, &engine               \
	}
#define ON_BOTH(test) ON(RING, test), ON(THREADS, test)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(chunks_of_all_sizes_come_back_as_they_were),
		ON_BOTH(journals_and_long_headers_come_back),
		ON_BOTH(full_buckets_are_sealed_and_read_by_their_footer),
		ON_BOTH(a_batch_may_span_several_buckets),
		ON_BOTH(du_says_what_is_there),
		ON_BOTH(small_chunks_share_writes),
		ON_BOTH(many_reads_overlap_and_each_gets_its_own_bytes),
		ON_BOTH(an_open_bucket_is_continued_after_a_restart),
		ON_BOTH(a_torn_tail_is_cut_off),
		ON_BOTH(what_a_power_cut_left_out_is_not_shown),
		ON_BOTH(a_failing_write_undoes_the_whole_batch),
		ON_BOTH(after_a_failure_the_next_batch_takes_its_place),
		ON_BOTH(a_write_that_comes_too_late_spoils_nothing),
		ON_BOTH(a_read_past_its_deadline_keeps_its_memory_until_it_settles),
		ON_BOTH(a_sync_that_fails_is_told_and_tried_again),
		ON(RING, damage_costs_only_the_records_it_hits),
		ON(RING,
		   a_sealed_bucket_without_its_footer_is_read_by_its_headers),
		ON(RING, a_missing_bucket_is_gone_and_the_rest_is_not),
		ON_BOTH(a_read_in_flight_outlives_the_drop),
		ON(RING, a_read_error_while_scanning_costs_at_most_one_record),
		ON_BOTH(a_sync_has_a_deadline),
		ON_BOTH(readers_go_on_while_buckets_come_and_go),
		ON(RING, the_emptiest_bucket_goes_first_then_the_coldest),
		ON(RING, bytes_of_forgotten_chunks_are_given_back),
		ON(RING, a_bucket_that_died_before_the_start_is_given_back),
		ON(RING, at_the_cap_appends_fail_until_a_bucket_goes),
		ON(RING, numbers_are_not_given_out_twice),
		cmocka_unit_test(
			killed_at_any_moment_it_loses_nothing_confirmed),
		ON(RING, two_of_us_cannot_have_one_directory),
		ON(RING, a_superblock_that_cannot_be_trusted_is_refused),
		ON(RING, a_newer_format_is_refused_and_says_so),
		ON(RING,
		   the_directory_is_made_with_its_parents_for_its_owner_only),
		ON(RING, without_permission_the_reason_names_the_directory),
		ON_BOTH(a_file_system_without_o_direct_or_room_is_dealt_with),
		ON_BOTH(a_full_file_system_undoes_the_batch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
