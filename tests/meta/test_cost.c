/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "meta/internal.h"
#include "tests/meta/scratch.h"
#include "tools/lib/clock.h"

/* What a page costs, in bytes and in time.  Bytes are asserted (with room to
 * spare), times are only printed: machines differ. */

#define NAME_BYTES 100
#define PAGES_A_TXN 10

/* 64 pages a ms, at the time that scratch_entry() has for mtime. */
#define CLOCK_OF(object) ((UINT64_C(1700000000000) << 16) + ((object) << 10))

static uint64_t page_count(void)
{
	return getenv("PAGEFS_TEST_SHORT") != NULL ? 50000 : 200000;
}

/* As SGLang's file backend makes them: a hash in hex, and a suffix. */
static void name_of(char *ret, uint64_t n)
{
	uint64_t random = n;
	int len = 0;

	while (len < 64)
		len += sprintf(ret + len, "%016jx",
			       (uintmax_t)scratch_random(&random));
	memset(ret + len, 's', (size_t)(NAME_BYTES - len));
	ret[NAME_BYTES] = '\0';
}

static void put_page(struct meta_txn *txn, const char *name, uint64_t object,
		     bool disk)
{
	uint64_t check = 1;
	struct meta_chunk chunk = {
		.id = {.object = object,
		       .version = {.clock = CLOCK_OF(object), .node = 7}},
		.len_bytes = 65536,
		.bucket = 1,
		.checksums = &check,
	};

	scratch_put(txn, META_ROOT, name, object, CLOCK_OF(object));
	if (disk)
		assert_int_equal(meta_chunk_put(txn, META_DISK, &chunk), 0);
}

static void put_pages(struct scratch *s, uint64_t count)
{
	char name[NAME_BYTES + 1];

	for (uint64_t n = 0; n < count;) {
		struct meta_txn *txn = scratch_write(s);

		for (int i = 0; i < PAGES_A_TXN && n < count; i++, n++) {
			name_of(name, n);
			put_page(txn, name, n + 2, true);
		}
		scratch_commit(txn);
	}
}

static double table_bytes(struct scratch *s, enum meta_tier tier,
			  enum table table, uint64_t count)
{
	struct meta_txn *txn = scratch_read(s);
	struct side *side;
	MDB_stat stat;

	assert_int_equal(txn_side(txn, tier, &side), 0);
	assert_int_equal(
		mdb_stat(side->mdb, s->meta->env[tier].dbi[table], &stat), 0);
	meta_abort(txn);
	return (double)(stat.ms_branch_pages + stat.ms_leaf_pages +
			stat.ms_overflow_pages) *
	       stat.ms_psize / (double)count;
}

static void a_page_costs_few_bytes(void **state)
{
	struct scratch *s = *state;
	uint64_t count = page_count();
	struct meta_stats stats;
	double names, objects, memory, disk;

	scratch_open(s);
	put_pages(s, count);
	names = table_bytes(s, META_DISK, TABLE_NAMES, count);
	objects = table_bytes(s, META_DISK, TABLE_OBJECTS, count);
	disk = table_bytes(s, META_DISK, TABLE_CHUNKS, count);
	memory = table_bytes(s, META_MEMORY, TABLE_CHUNKS, count);
	assert_int_equal(meta_get_stats(s->meta, &stats), 0);
	print_message("bytes a page: names %.0f, objects %.0f, chunks %.0f in "
		      "memory, %.0f on disk; files %.0f in memory, %.0f on "
		      "disk\n",
		      names, objects, memory, disk,
		      (double)stats.memory_bytes / (double)count,
		      (double)stats.disk_bytes / (double)count);
	assert_true(names + objects < 300);
	assert_true(memory < 80);
	assert_true(disk < 80);
	/* Free pages included. */
	assert_true((double)(stats.memory_bytes + stats.disk_bytes) <
		    600 * (double)count);
}

/* ---- times ---- */

static double ns_each(uint64_t start_ns, uint64_t count)
{
	return (double)(clock_monotonic_ns() - start_ns) / (double)count;
}

static void get_names(struct scratch *s, uint64_t count, uint64_t tries)
{
	uint64_t random = 5, start, found = 0;
	char(*names)[NAME_BYTES + 1] = calloc(1000, sizeof(*names));
	struct meta_entry entry;

	assert_non_null(names);
	for (int i = 0; i < 1000; i++)
		name_of(names[i], scratch_random(&random) % count);
	start = clock_monotonic_ns();
	for (uint64_t i = 0; i < tries; i++) {
		struct meta_txn *txn = scratch_read(s);

		found += meta_name_get(txn, META_ROOT, names[i % 1000],
				       NAME_BYTES, &entry) == 0;
		meta_abort(txn);
	}
	print_message("begin, name_get, end: %.0f ns\n", ns_each(start, tries));
	assert_int_equal(found, tries);
	free(names);
}

static void get_chunks(struct scratch *s, uint64_t count, uint64_t tries)
{
	uint64_t random = 6, start, found = 0;
	struct meta_chunk chunk;

	start = clock_monotonic_ns();
	for (uint64_t i = 0; i < tries; i++) {
		struct meta_txn *txn = scratch_read(s);

		found += meta_chunk_get(txn, META_MEMORY,
					scratch_random(&random) % count + 2, 0,
					UINT64_MAX, &chunk) == 0;
		meta_abort(txn);
	}
	print_message("begin, chunk_get, end: %.0f ns\n",
		      ns_each(start, tries));
	assert_int_equal(found, tries);
}

static void put_one_by_one(struct scratch *s, uint64_t count, uint64_t tries)
{
	uint64_t start = clock_monotonic_ns();
	char name[NAME_BYTES + 1];

	for (uint64_t i = 0; i < tries; i++) {
		uint64_t object = count + 10 + i;
		struct meta_pending row = {.clock = CLOCK_OF(object),
					   .kind = META_PENDING_PAGE,
					   .object = object};
		struct meta_txn *txn = scratch_write(s);

		name_of(name, object);
		put_page(txn, name, object, false);
		assert_int_equal(meta_pending_put(txn, &row), 0);
		scratch_commit(txn);
	}
	print_message("put of a page, committed: %.1f us\n",
		      ns_each(start, tries) / 1000);
}

static void times_are_printed(void **state)
{
	struct scratch *s = *state;
	uint64_t count = page_count(), start;
	struct meta_txn *txn;

	scratch_open(s);
	put_pages(s, count);
	start = clock_monotonic_ns();
	for (int i = 0; i < 1000000; i++) {
		txn = scratch_read(s);
		meta_abort(txn);
	}
	print_message("begin, end: %.0f ns\n", ns_each(start, 1000000));
	get_names(s, count, 300000);
	get_chunks(s, count, 300000);
	put_one_by_one(s, count, 10000);
	start = clock_monotonic_ns();
	scratch_close(s);
	print_message("close: %.1f ms\n", ns_each(start, 1000000));
	start = clock_monotonic_ns();
	assert_int_equal(scratch_open(s), 0);
	print_message("open after a close: %.1f ms\n", ns_each(start, 1000000));
}

int main(void)
{
#define T(test)                                                                \
	cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)
	const struct CMUnitTest tests[] = {
		T(a_page_costs_few_bytes),
		T(times_are_printed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
