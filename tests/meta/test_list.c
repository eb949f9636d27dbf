/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "meta/internal.h"
#include "tests/meta/scratch.h"

#define DIR_OBJECT 50u

static bool is_short(void)
{
	return getenv("PAGEFS_TEST_SHORT") != NULL;
}

static void put_name(struct meta_txn *txn, const char *name, uint64_t object)
{
	struct meta_entry entry = scratch_entry(object, object);

	assert_int_equal(
		meta_name_put(txn, DIR_OBJECT, name, strlen(name), &entry), 0);
}

/* A listing as readdir makes it: a piece at a time, each in a transaction of
 * its own, resumed by hash and name. */
struct listing {
	uint64_t hash;
	char name[NAME_MAX_BYTES + 1];
	size_t len;
	bool begun;
	unsigned left;
	void (*see)(struct listing *listing, const struct meta_entry *entry);
	void *arg;
	uint64_t seen;
};

static int list_one(void *arg, uint64_t hash, const char *name, size_t len,
		    const struct meta_entry *entry)
{
	struct listing *l = arg;

	assert_true(hash >= l->hash);
	assert_int_equal(hash, meta_name_hash(name, len));
	l->hash = hash;
	memcpy(l->name, name, len);
	l->name[len] = '\0';
	l->len = len;
	l->begun = true;
	l->seen++;
	if (l->see != NULL)
		l->see(l, entry);
	return --l->left == 0;
}

/* Whether there is more. */
static bool list_piece(struct scratch *s, struct listing *l, unsigned count)
{
	struct meta_txn *txn = scratch_read(s);

	l->left = count;
	assert_int_equal(meta_list(txn, DIR_OBJECT, l->hash,
				   l->begun ? l->name : NULL, l->len, list_one,
				   l),
			 0);
	meta_abort(txn);
	return l->left == 0;
}

static uint64_t hash_few(const void *bytes, size_t len)
{
	const uint8_t *b = bytes;

	return len > 0 ? (uint64_t)(b[len - 1] % 3) << 40 : 0;
}

static void mark_number(struct listing *l, const struct meta_entry *entry)
{
	uint8_t *marks = l->arg;

	marks[entry->object]++;
}

static void names_with_one_hash_are_listed_once_each(void **state)
{
	uint64_t (*real)(const void *, size_t) = meta_hash_function;
	struct scratch *s = *state;

	meta_hash_function = hash_few;
	scratch_open(s);
	for (unsigned piece = 1; piece <= 7; piece++) {
		uint8_t marks[101] = {0};
		struct listing l = {.see = mark_number, .arg = marks};
		struct meta_txn *txn = scratch_write(s);
		char name[32];

		for (unsigned i = 1; i <= 100; i++) {
			snprintf(name, sizeof(name), "n%u", i);
			put_name(txn, name, i);
		}
		scratch_commit(txn);
		while (list_piece(s, &l, piece)) {
			/* The one listed last may be gone by now. */
			txn = scratch_write(s);
			assert_int_equal(
				meta_name_del(txn, DIR_OBJECT, l.name, l.len),
				0);
			scratch_commit(txn);
		}
		assert_int_equal(l.seen, 100);
		for (unsigned i = 1; i <= 100; i++)
			assert_int_equal(marks[i], 1);
	}
	meta_hash_function = real;
}

static void a_cookie_alone_skips_all_names_of_its_hash(void **state)
{
	uint64_t (*real)(const void *, size_t) = meta_hash_function;
	struct scratch *s = *state;
	struct listing l = {0};
	struct meta_txn *txn;

	meta_hash_function = hash_few;
	scratch_open(s);
	txn = scratch_write(s);
	put_name(txn, "a0", 1);
	put_name(txn, "b0", 2);
	put_name(txn, "a1", 3);
	scratch_commit(txn);
	assert_true(list_piece(s, &l, 1));
	txn = scratch_read(s);
	l.left = 99;
	l.seen = 0;
	assert_int_equal(
		meta_list(txn, DIR_OBJECT, l.hash, NULL, 0, list_one, &l), 0);
	meta_abort(txn);
	assert_int_equal(l.seen, 1);
	assert_string_equal(l.name, "a1");
	meta_hash_function = real;
}

static void a_listing_stays_in_its_directory(void **state)
{
	struct scratch *s = *state;
	struct listing l = {0};
	struct meta_txn *txn;

	scratch_open(s);
	txn = scratch_write(s);
	scratch_put(txn, DIR_OBJECT - 1, "before", 2, 1);
	scratch_put(txn, DIR_OBJECT + 1, "after", 3, 1);
	scratch_put(txn, DIR_OBJECT, "in", 4, 1);
	scratch_commit(txn);
	assert_false(list_piece(s, &l, 99));
	assert_int_equal(l.seen, 1);
	assert_string_equal(l.name, "in");
	txn = scratch_read(s);
	assert_int_equal(
		meta_list(txn, DIR_OBJECT, UINT64_MAX, NULL, 0, list_one, &l),
		0);
	meta_abort(txn);
}

static void hashes_are_cookies_that_a_kernel_takes(void **state)
{
	char name[32];

	(void)state;
	for (int i = 0; i < 100000; i++) {
		int len = snprintf(name, sizeof(name), "%d", i);
		uint64_t hash = meta_name_hash(name, (size_t)len);

		assert_true(hash >= 3);
		assert_true(hash < UINT64_C(1) << 63);
	}
}

/* Objects 1..stable are there throughout, and must be seen exactly once; those
 * above come and go, and must be seen at most once. */
static void names_come_and_go(struct scratch *s, uint64_t stable,
			      uint64_t *random)
{
	struct meta_txn *txn = scratch_write(s);
	char name[64];

	for (int i = 0; i < 300; i++) {
		uint64_t object = stable + 1 + scratch_random(random) % stable;
		int len = snprintf(name, sizeof(name), "flux-%ju",
				   (uintmax_t)object);

		if (scratch_random(random) & 1)
			put_name(txn, name, object);
		else
			assert_true(meta_name_del(txn, DIR_OBJECT, name,
						  (size_t)len) >= 0);
	}
	scratch_commit(txn);
}

static void a_long_listing_misses_and_doubles_nothing_under_change(void **state)
{
	struct scratch *s = *state;
	uint64_t stable = is_short() ? 20000 : 100000;
	uint8_t *marks = calloc(stable * 2 + 1, 1);
	struct listing l = {.see = mark_number, .arg = marks};
	uint64_t random = 1;
	struct meta_txn *txn;
	char name[64];

	assert_non_null(marks);
	scratch_open(s);
	for (uint64_t object = 1; object <= stable;) {
		txn = scratch_write(s);
		for (int i = 0; i < 1000 && object <= stable; i++, object++) {
			snprintf(name, sizeof(name), "stable-%ju",
				 (uintmax_t)object);
			put_name(txn, name, object);
		}
		scratch_commit(txn);
	}
	for (int i = 0; i < 100; i++)
		names_come_and_go(s, stable, &random);
	while (list_piece(s, &l, 500))
		names_come_and_go(s, stable, &random);
	for (uint64_t object = 1; object <= stable; object++)
		assert_int_equal(marks[object], 1);
	for (uint64_t object = stable + 1; object <= stable * 2; object++)
		assert_in_range(marks[object], 0, 1);
	free(marks);
}

int main(void)
{
#define T(test)                                                                \
	cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)
	const struct CMUnitTest tests[] = {
		T(names_with_one_hash_are_listed_once_each),
		T(a_cookie_alone_skips_all_names_of_its_hash),
		T(a_listing_stays_in_its_directory),
		cmocka_unit_test(hashes_are_cookies_that_a_kernel_takes),
		T(a_long_listing_misses_and_doubles_nothing_under_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
