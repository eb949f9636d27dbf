/* SPDX-License-Identifier: Apache-2.0 */
#include "store/bucket.h"

#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/lib/checksum.h"
#include "tools/lib/clock.h"

#define MIB (1u << 20)
#define CAP (64ull * MIB)

struct fixture {
	char dir[64];
	struct io *io;
	struct buckets *buckets;
	void *data; /* 1 MiB */
};

static int setup(void **state)
{
	static struct fixture f;
	struct io_config io = {.mode = IO_AUTO, .depth = 8};
	struct buckets_config config = {
		.dir = f.dir, .cap_bytes = CAP, .reserve_bytes = 1};

	strcpy(f.dir, "/var/tmp/pagefs-room-XXXXXX");
	assert_non_null(mkdtemp(f.dir));
	assert_int_equal(0, io_open(&io, &f.io));
	config.io = f.io;
	assert_int_equal(0, buckets_open(&config, &f.buckets, NULL));
	f.data = aligned_alloc(BLOCK_BYTES, MIB);
	memset(f.data, 7, MIB);
	*state = &f;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag,
		      struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	buckets_close(f->buckets);
	io_close(f->io);
	free(f->data);
	nftw(f->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}

static int append_chunk(struct fixture *f, uint64_t object,
			struct bucket_place *ret)
{
	struct bucket_record record = {
		.kind = BUCKET_CHUNK,
		.id = {.object = object, .version = {.clock = 1, .node = 1}},
		.key = "key",
		.key_bytes = 3,
		.data = f->data,
		.len_bytes = MIB,
	};
	uint64_t sums[MIB / CHECK_BYTES] = {0};
	int error;

	record.checksums = sums;
	error = bucket_append(f->buckets, &record, 1, clock_deadline_ns(MIB));
	if (!error && ret)
		*ret = record.place;
	return error;
}

static int append_journal(struct fixture *f, const char *text)
{
	struct bucket_record record = {
		.kind = BUCKET_JOURNAL,
		.data = text,
		.len_bytes = (uint32_t)strlen(text),
	};

	return bucket_append(f->buckets, &record, 1, clock_deadline_ns(MIB));
}

static uint64_t file_bytes(struct fixture *f)
{
	struct buckets_stats stats;

	buckets_get_stats(f->buckets, &stats);
	return stats.file_bytes;
}

static void at_the_cap_facts_still_fit_but_no_more_than_a_bucket(void **state)
{
	struct fixture *f = *state;
	static char text[MIB];
	int error = 0, journals = 0;

	memset(text, 'x', sizeof(text) - 1);
	for (uint64_t i = 0; !error; i++)
		error = append_chunk(f, i, NULL);
	assert_int_equal(-ENOSPC, error);
	assert_true(file_bytes(f) <= CAP);
	while (!append_journal(f, text))
		journals++;
	assert_in_range(journals, 6, 9);
	assert_true(file_bytes(f) <= CAP + bucket_limit_bytes(f->buckets));
}

static int see(void *arg, const struct bucket_record *record)
{
	unsigned *seen = arg;

	seen[record->kind]++;
	if (record->kind == BUCKET_JOURNAL)
		assert_memory_equal("renamed", record->data, 7);
	return 0;
}

static void a_hollow_bucket_has_its_journals_and_no_chunks(void **state)
{
	struct fixture *f = *state;
	unsigned seen[3] = {0};
	struct bucket_place first, last;
	uint64_t damaged = 0, before, i = 0;

	assert_int_equal(0, append_chunk(f, i++, &first));
	assert_int_equal(0, append_journal(f, "renamed"));
	do
		assert_int_equal(0, append_chunk(f, i++, &last));
	while (last.bucket == first.bucket);
	before = file_bytes(f);
	assert_int_equal(0, bucket_hollow(f->buckets, first.bucket));
	assert_true(before - file_bytes(f) >= (i - 2) * MIB);
	assert_int_equal(0, bucket_scan(f->buckets, first.bucket, false, see,
					seen, &damaged));
	assert_int_equal(1, seen[BUCKET_JOURNAL]);
	assert_int_equal(0, damaged);
	assert_int_equal(0, bucket_drop(f->buckets, first.bucket));
	assert_true(file_bytes(f) <= 2 * MIB);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(at_the_cap_facts_still_fit_but_no_more_than_a_bucket),
		TEST(a_hollow_bucket_has_its_journals_and_no_chunks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
