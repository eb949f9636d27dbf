/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/meta/scratch.h"

/* Readers beside writers, while the maps grow.  A pair of names is changed in
 * one transaction, so each reader sees both of one version.  Threads count
 * what is wrong; the test's own thread asserts. */

#define PAIRS 50u
#define READERS 3
#define WRITERS 2

struct shared {
	struct scratch *s;
	unsigned writes;
	_Atomic bool stop;
	_Atomic uint64_t wrong;
	_Atomic uint64_t reads;
	_Atomic uint64_t clock;
};

static size_t pair_name(char *ret, unsigned pair, char half)
{
	return (size_t)sprintf(ret, "pair-%u-%c", pair, half);
}

static int see_any(void *arg, uint64_t hash, const char *name, size_t len,
		   const struct meta_entry *entry)
{
	unsigned *left = arg;

	(void)hash;
	(void)name;
	(void)len;
	(void)entry;
	return --*left == 0;
}

static bool pair_is_whole(struct shared *shared, unsigned pair)
{
	struct meta_entry a = {0}, b = {0};
	struct meta_chunk chunk;
	struct meta_txn *txn;
	char name[32];
	unsigned left = 20;
	size_t len;
	bool whole;
	int rc_a, rc_b;

	if (meta_begin_read(shared->s->meta, &txn) != 0)
		return false;
	len = pair_name(name, pair, 'a');
	rc_a = meta_name_get(txn, META_ROOT, name, len, &a);
	len = pair_name(name, pair, 'b');
	rc_b = meta_name_get(txn, META_ROOT, name, len, &b);
	whole = rc_a >= 0 && rc_a == rc_b &&
		a.version.clock == b.version.clock &&
		meta_chunk_get(txn, META_MEMORY, pair * 2 + 10, 0, UINT64_MAX,
			       &chunk) >= 0 &&
		meta_list(txn, META_ROOT, a.version.clock, NULL, 0, see_any,
			  &left) == 0;
	meta_abort(txn);
	return whole;
}

static void *read_pairs(void *arg)
{
	struct shared *shared = arg;
	uint64_t random = (uint64_t)(uintptr_t)&random;

	while (!shared->stop) {
		shared->wrong += !pair_is_whole(
			shared, (unsigned)(scratch_random(&random) % PAIRS));
		shared->reads++;
	}
	return NULL;
}

static int put_half(struct meta_txn *txn, unsigned pair, char half,
		    uint64_t clock)
{
	uint64_t object = pair * 2 + 10 + (half == 'b');
	struct meta_entry entry = scratch_entry(object, clock);
	uint64_t check = clock;
	struct meta_chunk chunk = {
		.id = {.object = object, .version = entry.version},
		.len_bytes = 65536,
		.checksums = &check,
	};
	char name[32];
	size_t len = pair_name(name, pair, half);
	int rc = meta_name_put(txn, META_ROOT, name, len, &entry);

	return rc < 0 ? rc : meta_chunk_put(txn, META_MEMORY, &chunk);
}

static int write_pair(struct shared *shared, unsigned pair, bool keep)
{
	static const char value[16384];
	uint64_t clock = ++shared->clock;
	struct meta_txn *txn;
	char name[32];
	size_t len;
	int rc = meta_begin_write(shared->s->meta, &txn);

	if (rc < 0)
		return rc;
	if (keep) {
		rc = put_half(txn, pair, 'a', clock);
		if (rc == 0)
			rc = put_half(txn, pair, 'b', clock);
	} else {
		len = pair_name(name, pair, 'a');
		rc = meta_name_del(txn, META_ROOT, name, len);
		len = pair_name(name, pair, 'b');
		if (rc >= 0)
			rc = meta_name_del(txn, META_ROOT, name, len);
	}
	/* Makes the map grow. */
	if (rc >= 0)
		rc = meta_attr_put(txn, clock, "user.a", 6, value,
				   sizeof(value));
	if (rc < 0) {
		meta_abort(txn);
		return rc;
	}
	return meta_commit(txn);
}

static void *write_pairs(void *arg)
{
	struct shared *shared = arg;
	uint64_t random = (uint64_t)(uintptr_t)&random;

	for (unsigned i = 0; i < shared->writes; i++) {
		unsigned pair = (unsigned)(scratch_random(&random) % PAIRS);

		shared->wrong += write_pair(shared, pair, i % 4 != 0) != 0;
	}
	return NULL;
}

static void readers_see_whole_transactions_while_the_map_grows(void **state)
{
	bool small = getenv("PAGEFS_TEST_SHORT") != NULL;
	struct shared shared = {.s = *state, .writes = small ? 1500 : 3000};
	pthread_t readers[READERS], writers[WRITERS];
	struct meta_stats before, after;

	scratch_open(shared.s);
	assert_int_equal(meta_get_stats(shared.s->meta, &before), 0);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(
			pthread_create(&readers[i], NULL, read_pairs, &shared),
			0);
	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(
			pthread_create(&writers[i], NULL, write_pairs, &shared),
			0);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	shared.stop = true;
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	assert_int_equal(shared.wrong, 0);
	assert_true(shared.reads > 100);
	assert_int_equal(meta_get_stats(shared.s->meta, &after), 0);
	assert_true(after.map_bytes > before.map_bytes);
	assert_in_range(after.readers, 1, READERS + 3);
}

struct ticker {
	struct hlc *hlc;
	uint64_t clocks[20000];
};

static void *tick(void *arg)
{
	struct ticker *ticker = arg;

	for (size_t i = 0; i < 20000; i++)
		ticker->clocks[i] =
			hlc_next(ticker->hlc, 1000 + i / 1000).clock;
	return NULL;
}

static int compare_clocks(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void the_clock_gives_no_two_threads_one_value(void **state)
{
	static struct ticker tickers[3];
	static uint64_t all[3 * 20000];
	pthread_t threads[3];
	struct hlc hlc;

	(void)state;
	hlc_init(&hlc, 1, 0);
	for (int i = 0; i < 3; i++) {
		tickers[i].hlc = &hlc;
		assert_int_equal(
			pthread_create(&threads[i], NULL, tick, &tickers[i]),
			0);
	}
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], NULL);
		memcpy(all + i * 20000, tickers[i].clocks,
		       sizeof(tickers[i].clocks));
	}
	qsort(all, 3 * 20000, sizeof(all[0]), compare_clocks);
	for (size_t i = 1; i < 3 * 20000; i++)
		assert_true(all[i] > all[i - 1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			readers_see_whole_transactions_while_the_map_grows,
			scratch_setup, scratch_teardown),
		cmocka_unit_test(the_clock_gives_no_two_threads_one_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
