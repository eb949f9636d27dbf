/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "meta/internal.h"
#include "tests/meta/scratch.h"

/* ---- names and objects ---- */

static void a_name_that_was_put_is_found_again_after_a_restart(void **state)
{
	struct scratch *s = *state;
	struct meta_txn *txn;
	struct meta_entry entry;

	assert_int_equal(scratch_open(s), META_REBUILD);
	txn = scratch_write(s);
	scratch_put(txn, META_ROOT, "page", 5, 100);
	scratch_commit(txn);
	scratch_close(s);

	assert_int_equal(scratch_open(s), 0);
	txn = scratch_read(s);
	assert_int_equal(meta_name_get(txn, META_ROOT, "page", 4, &entry), 0);
	assert_int_equal(entry.object, 5);
	assert_int_equal(entry.version.clock, 100);
	assert_int_equal(entry.mtime_ns, 1700000000000000002);
	assert_int_equal(meta_name_get(txn, META_ROOT, "pag", 3, &entry),
			 META_ABSENT);
	assert_int_equal(meta_name_get(txn, 2, "page", 4, &entry), META_ABSENT);
	meta_abort(txn);
}

static void an_aborted_write_leaves_nothing(void **state)
{
	struct scratch *s = *state;
	struct meta_totals totals;
	struct meta_entry entry;
	struct meta_txn *txn;

	scratch_open(s);
	txn = scratch_write(s);
	scratch_put(txn, META_ROOT, "page", 5, 100);
	meta_abort(txn);
	txn = scratch_read(s);
	assert_int_equal(meta_name_get(txn, META_ROOT, "page", 4, &entry),
			 META_ABSENT);
	assert_int_equal(meta_get_totals(txn, &totals), 0);
	assert_int_equal(totals.pages, 0);
	meta_abort(txn);
	meta_abort(NULL);
}

static void the_longest_name_works_and_a_longer_one_is_refused(void **state)
{
	struct scratch *s = *state;
	struct meta_entry entry = scratch_entry(9, 1);
	char name[NAME_MAX_BYTES + 1];
	struct meta_txn *txn;

	memset(name, 'x', sizeof(name));
	scratch_open(s);
	txn = scratch_write(s);
	assert_int_equal(meta_name_put(txn, 1, name, NAME_MAX_BYTES, &entry),
			 0);
	assert_int_equal(meta_name_get(txn, 1, name, NAME_MAX_BYTES, &entry),
			 0);
	assert_int_equal(meta_name_put(txn, 1, name, sizeof(name), &entry),
			 -ENAMETOOLONG);
	assert_int_equal(meta_name_del(txn, 1, name, NAME_MAX_BYTES), 0);
	assert_int_equal(meta_name_del(txn, 1, name, NAME_MAX_BYTES),
			 META_ABSENT);
	scratch_commit(txn);
}

static void a_directory_is_empty_when_its_last_name_is_gone(void **state)
{
	struct scratch *s = *state;
	struct meta_txn *txn;

	scratch_open(s);
	txn = scratch_write(s);
	assert_true(meta_dir_empty(txn, 7));
	scratch_put(txn, 8, "beside", 20, 1);
	assert_true(meta_dir_empty(txn, 7));
	scratch_put(txn, 7, "a", 21, 2);
	assert_false(meta_dir_empty(txn, 7));
	assert_int_equal(meta_name_del(txn, 7, "a", 1), 0);
	assert_true(meta_dir_empty(txn, 7));
	scratch_commit(txn);
}

static void put_directory(struct meta_txn *txn, uint64_t dir, const char *name,
			  uint64_t object)
{
	struct meta_entry entry = scratch_entry(object, object);
	struct meta_object row = {.dir = dir,
				  .hash = meta_name_hash(name, strlen(name)),
				  .links = 2};

	entry.type = META_DIR;
	entry.stored_bytes = 0;
	assert_int_equal(meta_name_put(txn, dir, name, strlen(name), &entry),
			 0);
	assert_int_equal(meta_object_put(txn, object, &row), 0);
}

static void an_object_leads_to_its_name_and_a_name_to_its_key(void **state)
{
	struct scratch *s = *state;
	char key[KEY_MAX_BYTES], name[NAME_MAX_BYTES + 1];
	struct meta_entry entry;
	struct meta_txn *txn;
	uint64_t dir;
	size_t len;

	scratch_open(s);
	txn = scratch_write(s);
	put_directory(txn, META_ROOT, "a", 10);
	put_directory(txn, 10, "bb", 11);
	scratch_put(txn, 11, "page", 12, 5);

	assert_int_equal(meta_object_name(txn, 12, &dir, name, &len, &entry),
			 0);
	assert_int_equal(dir, 11);
	assert_string_equal(name, "page");
	assert_int_equal(len, 4);
	assert_int_equal(entry.object, 12);

	assert_int_equal(meta_key(txn, 11, "page", 4, key, &len), 0);
	assert_int_equal(len, 9);
	assert_memory_equal(key, "a/bb/page", 9);
	assert_int_equal(meta_key(txn, META_ROOT, "x", 1, key, &len), 0);
	assert_int_equal(len, 1);

	assert_int_equal(meta_name_del(txn, 10, "bb", 2), 0);
	assert_int_equal(meta_key(txn, 11, "page", 4, key, &len), META_ABSENT);
	assert_int_equal(meta_name_del(txn, 11, "page", 4), 0);
	assert_int_equal(meta_object_name(txn, 12, &dir, name, &len, &entry),
			 META_ABSENT);
	meta_abort(txn);
}

static void a_key_of_4096_bytes_fits_and_a_longer_one_does_not(void **state)
{
	struct scratch *s = *state;
	char key[KEY_MAX_BYTES], name[NAME_MAX_BYTES];
	struct meta_txn *txn;
	uint64_t dir = META_ROOT;
	size_t len;

	memset(name, 'd', sizeof(name));
	scratch_open(s);
	txn = scratch_write(s);
	for (uint64_t object = 10; object < 25; object++) {
		struct meta_entry entry = scratch_entry(object, object);
		struct meta_object row = {
			.dir = dir, .hash = meta_name_hash(name, sizeof(name))};

		entry.type = META_DIR;
		assert_int_equal(
			meta_name_put(txn, dir, name, sizeof(name), &entry), 0);
		assert_int_equal(meta_object_put(txn, object, &row), 0);
		dir = object;
	}
	/* 15 times 256, and 256 more. */
	assert_int_equal(meta_key(txn, dir, name, 255, key, &len), 0);
	assert_int_equal(len, 4095);
	assert_int_equal(meta_key(txn, dir, key, 256, key, &len), 0);
	assert_int_equal(len, 4096);
	assert_int_equal(meta_key(txn, dir, key, 257, key, &len),
			 -ENAMETOOLONG);
	meta_abort(txn);
}

static void directories_that_contain_each_other_end_the_walk(void **state)
{
	struct scratch *s = *state;
	char key[KEY_MAX_BYTES];
	struct meta_txn *txn;
	size_t len;

	scratch_open(s);
	txn = scratch_write(s);
	put_directory(txn, 11, "a", 10);
	put_directory(txn, 10, "b", 11);
	assert_int_equal(meta_key(txn, 10, "page", 4, key, &len),
			 -ENAMETOOLONG);
	meta_abort(txn);
}

/* ---- chunks ---- */

static void put_chunk(struct meta_txn *txn, enum meta_tier tier,
		      uint64_t object, uint32_t index, uint64_t clock,
		      uint32_t len)
{
	uint64_t checks[256];
	struct meta_chunk chunk = {
		.id = {.object = object,
		       .index = index,
		       .version = {.clock = clock, .node = 3}},
		.len_bytes = len,
		.slot = 11,
		.bucket = 12,
		.data_block = 13,
		.flags = 14,
		.checksums = checks,
	};

	for (uint64_t i = 0; i < 256; i++)
		checks[i] = clock + i;
	assert_int_equal(meta_chunk_put(txn, tier, &chunk), 0);
}

static void a_version_sees_the_newest_chunk_not_newer_than_itself(void **state)
{
	static const struct {
		uint32_t index;
		uint64_t at;
		uint64_t found; /* 0: absent */
	} rows[] = {
		{0, 9, 0},	    {0, 10, 10}, {0, 11, 10},
		{0, 19, 10},	    {0, 20, 20}, {0, UINT64_MAX, 20},
		{1, 10, 0},	    {1, 15, 15}, {1, 99, 15},
		{2, 99, 0},	    {3, 30, 30}, {3, 29, 0},
		{4, UINT64_MAX, 0},
	};
	struct scratch *s = *state;
	struct meta_chunk chunk;
	struct meta_txn *txn;

	scratch_open(s);
	for (int tier = 0; tier < 2; tier++) {
		txn = scratch_write(s);
		put_chunk(txn, (enum meta_tier)tier, 5, 0, 20, 100);
		put_chunk(txn, (enum meta_tier)tier, 5, 0, 10, 100);
		put_chunk(txn, (enum meta_tier)tier, 5, 3, 30, 100);
		put_chunk(txn, (enum meta_tier)tier, 5, 1, 15, 100);
		scratch_commit(txn);
		txn = scratch_read(s);
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			int rc = meta_chunk_get(txn, (enum meta_tier)tier, 5,
						rows[i].index, rows[i].at,
						&chunk);

			assert_int_equal(rc,
					 rows[i].found == 0 ? META_ABSENT : 0);
			if (rc == 0)
				assert_int_equal(chunk.id.version.clock,
						 rows[i].found);
		}
		meta_abort(txn);
	}
}

static void a_chunk_comes_back_with_its_place_and_checksums(void **state)
{
	struct scratch *s = *state;
	struct meta_chunk chunk;
	struct meta_txn *txn;

	scratch_open(s);
	txn = scratch_write(s);
	put_chunk(txn, META_MEMORY, 5, 2, 10, 1u << CHUNK_SHIFT_MAX);
	put_chunk(txn, META_DISK, 5, 2, 10, 1);
	scratch_commit(txn);
	txn = scratch_read(s);
	assert_int_equal(meta_chunk_get(txn, META_MEMORY, 5, 2, 10, &chunk), 0);
	assert_int_equal(chunk.id.version.node, 3);
	assert_int_equal(chunk.len_bytes, 1u << CHUNK_SHIFT_MAX);
	assert_int_equal(chunk.slot, 11);
	assert_int_equal(chunk.bucket, 0);
	assert_int_equal(chunk.data_block, 13);
	assert_int_equal(chunk.flags, 14);
	for (uint64_t i = 0; i < 256; i++)
		assert_int_equal(meta_checksum(&chunk, i), 10 + i);
	assert_int_equal(meta_chunk_get(txn, META_DISK, 5, 2, 10, &chunk), 0);
	assert_int_equal(chunk.bucket, 12);
	assert_int_equal(chunk.slot, 0);
	assert_int_equal(meta_checksum(&chunk, 0), 10);
	meta_abort(txn);
}

static int count_chunk(void *arg, const struct meta_chunk *chunk)
{
	uint64_t *seen = arg; /* [0]: how many; [1]: the last, as one number */
	uint64_t at = chunk->id.object << 32 | (uint64_t)chunk->id.index << 16 |
		      chunk->id.version.clock;

	assert_true(at > seen[1]);
	seen[1] = at;
	seen[0]++;
	return 0;
}

static void chunks_of_an_object_come_in_order(void **state)
{
	struct scratch *s = *state;
	uint64_t seen[2] = {0};
	struct chunk_id id = {
		.object = 2, .index = 1, .version = {.clock = 7, .node = 3}};
	struct meta_txn *txn;

	scratch_open(s);
	txn = scratch_write(s);
	for (uint64_t object = 3; object >= 1; object--)
		for (uint32_t index = 0; index < 4; index++)
			for (uint64_t clock = 9; clock >= 7; clock--)
				put_chunk(txn, META_DISK, object, index, clock,
					  10);
	assert_int_equal(meta_chunk_del(txn, META_DISK, &id), 0);
	assert_int_equal(meta_chunk_del(txn, META_DISK, &id), META_ABSENT);
	assert_int_equal(
		meta_chunk_each(txn, META_DISK, 2, 0, count_chunk, seen), 0);
	assert_int_equal(seen[0], 11);
	memset(seen, 0, sizeof(seen));
	assert_int_equal(
		meta_chunk_each(txn, META_DISK, 2, 3, count_chunk, seen), 0);
	assert_int_equal(seen[0], 3);
	memset(seen, 0, sizeof(seen));
	assert_int_equal(
		meta_chunk_each(txn, META_DISK, 0, 0, count_chunk, seen), 0);
	assert_int_equal(seen[0], 35);
	meta_abort(txn);
}

static void without_a_disk_the_disk_has_no_chunks(void **state)
{
	struct scratch *s = *state;
	struct meta_chunk chunk = {.id = {.object = 1}};
	struct meta_txn *txn;
	uint64_t seen[2] = {0};

	assert_int_equal(scratch_open_memory(s), 0);
	txn = scratch_write(s);
	scratch_put(txn, META_ROOT, "page", 5, 100);
	assert_int_equal(meta_chunk_get(txn, META_DISK, 5, 0, 100, &chunk),
			 META_ABSENT);
	assert_int_equal(meta_chunk_del(txn, META_DISK, &chunk.id),
			 META_ABSENT);
	assert_int_equal(meta_chunk_put(txn, META_DISK, &chunk), -EINVAL);
	assert_int_equal(
		meta_chunk_each(txn, META_DISK, 0, 0, count_chunk, seen), 0);
	scratch_commit(txn);
	scratch_close(s);
	assert_int_equal(scratch_open_memory(s), 0);
	txn = scratch_read(s);
	assert_int_equal(meta_chunk_get(txn, META_MEMORY, 5, 0, 100, &chunk),
			 0);
	meta_abort(txn);
}

/* ---- attrs ---- */

static int concat_attr(void *arg, const char *name, size_t name_len,
		       const void *value, size_t len)
{
	char *text = arg;

	strncat(text, name, name_len);
	strcat(text, "=");
	strncat(text, value, len);
	strcat(text, ";");
	return 0;
}

static void attributes_are_kept_copied_and_dropped(void **state)
{
	struct scratch *s = *state;
	char text[256] = "";
	const void *value;
	struct meta_txn *txn;
	size_t len;

	scratch_open(s);
	txn = scratch_write(s);
	assert_int_equal(meta_attr_put(txn, 5, "user.b", 6, "2", 1), 0);
	assert_int_equal(meta_attr_put(txn, 5, "user.a", 6, "1", 1), 0);
	assert_int_equal(meta_attr_put(txn, 5, "", 0, "target", 6), 0);
	assert_int_equal(meta_attr_put(txn, 5, "user.empty", 10, "", 0), 0);
	assert_int_equal(meta_attr_put(txn, 4, "user.x", 6, "other", 5), 0);
	assert_int_equal(meta_attr_put(txn, 7, "user.x", 6, "other", 5), 0);
	assert_int_equal(meta_attr_put(txn, 5, "user.b", 6, "3", 1), 0);
	assert_int_equal(meta_attr_copy(txn, 5, 6), 0);
	assert_int_equal(meta_attr_del(txn, 5, "user.a", 6), 0);
	assert_int_equal(meta_attr_del(txn, 5, "user.a", 6), META_ABSENT);
	assert_int_equal(meta_attr_del_all(txn, 4), 0);
	scratch_commit(txn);

	txn = scratch_read(s);
	assert_int_equal(meta_attr_each(txn, 5, concat_attr, text), 0);
	assert_string_equal(text, "=target;user.b=3;user.empty=;");
	text[0] = '\0';
	assert_int_equal(meta_attr_each(txn, 6, concat_attr, text), 0);
	assert_string_equal(text, "=target;user.a=1;user.b=3;user.empty=;");
	assert_int_equal(meta_attr_get(txn, 4, "user.x", 6, &value, &len),
			 META_ABSENT);
	assert_int_equal(meta_attr_get(txn, 7, "user.x", 6, &value, &len), 0);
	assert_int_equal(len, 5);
	meta_abort(txn);
}

static void the_largest_attribute_fits_and_is_copied(void **state)
{
	struct scratch *s = *state;
	char *bytes = malloc(XATTR_MAX_BYTES + 1);
	const void *value;
	struct meta_txn *txn;
	size_t len;

	assert_non_null(bytes);
	memset(bytes, 'x', XATTR_MAX_BYTES + 1);
	scratch_open(s);
	txn = scratch_write(s);
	for (char name = 'a'; name < 'f'; name++)
		assert_int_equal(
			meta_attr_put(txn, 5, &name, 1, bytes, XATTR_MAX_BYTES),
			0);
	assert_int_equal(
		meta_attr_put(txn, 5, "z", 1, bytes, XATTR_MAX_BYTES + 1),
		-E2BIG);
	assert_int_equal(meta_attr_copy(txn, 5, 6), 0);
	assert_int_equal(meta_attr_get(txn, 6, "e", 1, &value, &len), 0);
	assert_int_equal(len, XATTR_MAX_BYTES);
	assert_memory_equal(value, bytes, len);
	assert_int_equal(meta_attr_del_all(txn, 5), 0);
	assert_int_equal(meta_attr_get(txn, 5, "a", 1, &value, &len),
			 META_ABSENT);
	scratch_commit(txn);
	free(bytes);
}

/* ---- pending, stash ---- */

struct seen_pending {
	uint64_t clocks[8];
	unsigned count;
	unsigned max;
};

static int see_pending(void *arg, const struct meta_pending *row)
{
	struct seen_pending *seen = arg;

	if (row->kind == META_PENDING_PAGE) {
		assert_int_equal(row->object, row->clock * 2);
		assert_int_equal(row->fact_bytes, 0);
	} else {
		assert_int_equal(row->fact_bytes, 5);
		assert_memory_equal(row->fact, "a fact", 5);
	}
	seen->clocks[seen->count++] = row->clock;
	return seen->count == seen->max;
}

static void pending_rows_come_in_the_order_of_their_clocks(void **state)
{
	struct scratch *s = *state;
	static const uint64_t clocks[] = {10, 40, 20, 30, 20};
	struct seen_pending seen = {.max = 8};
	struct meta_txn *txn;

	scratch_open(s);
	txn = scratch_write(s);
	for (size_t i = 0; i < 5; i++) {
		struct meta_pending row = {
			.clock = clocks[i],
			.kind = i % 2 == 0 ? META_PENDING_PAGE
					   : META_PENDING_FACT,
			.object = clocks[i] * 2,
			.fact = "a fact",
			.fact_bytes = 5,
		};
		assert_int_equal(meta_pending_put(txn, &row), 0);
	}
	scratch_commit(txn);
	txn = scratch_write(s);
	assert_int_equal(meta_pending_each(txn, 0, see_pending, &seen), 0);
	assert_int_equal(seen.count, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(seen.clocks[i], 10 * (i + 1));
	seen = (struct seen_pending){.max = 1};
	assert_int_equal(meta_pending_each(txn, 20, see_pending, &seen), 0);
	assert_int_equal(seen.clocks[0], 30);
	assert_int_equal(meta_pending_del(txn, 30), 0);
	assert_int_equal(meta_pending_del(txn, 30), META_ABSENT);
	seen = (struct seen_pending){.max = 8};
	assert_int_equal(meta_pending_each(txn, 20, see_pending, &seen), 0);
	assert_int_equal(seen.count, 1);
	assert_int_equal(meta_pending_each(txn, UINT64_MAX, see_pending, &seen),
			 0);
	scratch_commit(txn);
}

static int take_fact(void *arg, const void *fact, size_t len)
{
	strncat(arg, fact, len);
	return 0;
}

static void a_stash_gives_facts_back_in_order_and_once(void **state)
{
	struct scratch *s = *state;
	struct page_version v1 = {.clock = 1, .node = 9};
	struct page_version v2 = {.clock = 2, .node = 1};
	struct page_version v2b = {.clock = 2, .node = 2};
	char text[16] = "";
	struct meta_txn *txn;

	scratch_open(s);
	txn = scratch_write(s);
	assert_int_equal(meta_stash_put(txn, &v2b, 0, "e", 1), 0);
	assert_int_equal(meta_stash_put(txn, &v2, 1, "d", 1), 0);
	assert_int_equal(meta_stash_put(txn, &v2, 0, "c", 1), 0);
	assert_int_equal(meta_stash_put(txn, &v1, 3, "b", 1), 0);
	assert_int_equal(meta_stash_put(txn, &v1, 2, "a", 1), 0);
	assert_int_equal(meta_stash_take(txn, 2, take_fact, text), 1);
	assert_string_equal(text, "ab");
	scratch_commit(txn);
	txn = scratch_write(s);
	assert_int_equal(meta_stash_take(txn, 9, take_fact, text), 0);
	assert_string_equal(text, "abcde");
	assert_int_equal(meta_stash_take(txn, 9, take_fact, text), 0);
	scratch_commit(txn);
	assert_string_equal(text, "abcde");
}

/* ---- orphans, tombs, buckets, values ---- */

static int sum_object(void *arg, uint64_t object)
{
	*(uint64_t *)arg += object;
	return 0;
}

static int drop_object(void *arg, uint64_t object)
{
	return meta_orphan_del(arg, object);
}

static void orphans_can_be_dropped_while_they_are_walked(void **state)
{
	struct scratch *s = *state;
	uint64_t sum = 0;
	struct meta_txn *txn;

	scratch_open(s);
	txn = scratch_write(s);
	for (uint64_t object = 1; object <= 100; object++)
		assert_int_equal(meta_orphan_put(txn, object), 0);
	assert_int_equal(meta_orphan_put(txn, 100), 0);
	assert_int_equal(meta_orphan_each(txn, sum_object, &sum), 0);
	assert_int_equal(sum, 5050);
	assert_int_equal(meta_orphan_each(txn, drop_object, txn), 0);
	sum = 0;
	assert_int_equal(meta_orphan_each(txn, sum_object, &sum), 0);
	assert_int_equal(sum, 0);
	scratch_commit(txn);
}

static void a_tombstone_keeps_the_newest_version_until_it_is_old(void **state)
{
	struct scratch *s = *state;
	struct page_version version = {.clock = 5, .node = 1};
	struct page_version older = {.clock = 4, .node = 9}, got;
	struct meta_txn *txn;
	int dropped = 0;

	scratch_open(s);
	txn = scratch_write(s);
	for (uint64_t i = 1; i <= 5000; i++) {
		struct key_id id = {.lo = i, .hi = i * 0x9E3779B97F4A7C15u};

		assert_int_equal(meta_tomb_put(txn, &id, &version, (int64_t)i),
				 0);
		assert_int_equal(meta_tomb_put(txn, &id, &older, 1), 0);
	}
	for (int calls = 0; calls < 400; calls++) {
		int rc = meta_tomb_sweep(txn, 2501, 20);

		assert_in_range(rc, 0, 20);
		dropped += rc;
	}
	assert_int_equal(dropped, 2500);
	for (uint64_t i = 1; i <= 5000; i++) {
		struct key_id id = {.lo = i, .hi = i * 0x9E3779B97F4A7C15u};
		int rc = meta_tomb_get(txn, &id, &got);

		assert_int_equal(rc, i <= 2500 ? META_ABSENT : 0);
		if (rc == 0)
			assert_int_equal(got.clock, 5);
	}
	scratch_commit(txn);
}

static int see_bucket(void *arg, uint32_t bucket, uint64_t live)
{
	uint64_t *seen = arg;

	seen[bucket] = live + 1;
	return 0;
}

static void live_bytes_of_a_bucket_never_fall_below_zero(void **state)
{
	struct scratch *s = *state;
	uint64_t seen[8] = {0};
	struct meta_txn *txn;

	scratch_open(s);
	txn = scratch_write(s);
	assert_int_equal(meta_bucket_add(txn, 3, 100), 0);
	assert_int_equal(meta_bucket_add(txn, 3, -40), 0);
	assert_int_equal(meta_bucket_add(txn, 4, 0), 0);
	assert_int_equal(meta_bucket_add(txn, 5, 10), 0);
	assert_int_equal(meta_bucket_add(txn, 5, -11), 0);
	assert_int_equal(meta_bucket_add(txn, 6, 10), 0);
	assert_int_equal(meta_bucket_del(txn, 6), 0);
	assert_int_equal(meta_bucket_del(txn, 6), META_ABSENT);
	assert_int_equal(meta_bucket_each(txn, see_bucket, seen), 0);
	assert_int_equal(seen[3], 61);
	assert_int_equal(seen[4], 1);
	assert_int_equal(seen[5], 1);
	assert_int_equal(seen[6], 0);
	scratch_commit(txn);
}

static void a_value_comes_back_only_in_its_own_length(void **state)
{
	struct scratch *s = *state;
	uint64_t v = 42, got = 0;
	struct meta_txn *txn;

	scratch_open(s);
	txn = scratch_write(s);
	assert_int_equal(meta_value_get(txn, "node", &got, sizeof(got)),
			 META_ABSENT);
	assert_int_equal(meta_value_put(txn, "node", &v, sizeof(v)), 0);
	assert_int_equal(meta_value_get(txn, "node", &got, sizeof(got)), 0);
	assert_int_equal(got, 42);
	assert_int_equal(meta_value_get(txn, "node", &got, 4), META_ABSENT);
	scratch_commit(txn);
}

static void a_damaged_row_counts_as_absent(void **state)
{
	struct scratch *s = *state;
	MDB_val garbage = {.mv_size = 7, .mv_data = (char[]){"garbage"}};
	struct meta_object object;
	struct meta_entry entry;
	uint64_t seen[2] = {0};
	uint8_t key[24] = {0};
	struct meta_txn *txn;

	scratch_open(s);
	txn = scratch_write(s);
	scratch_put(txn, META_ROOT, "page", 5, 100);
	key[7] = 1;
	assert_int_equal(
		db_put(txn, META_DISK, TABLE_NAMES, key, 20, &garbage, 0), 0);
	key[7] = 9;
	assert_int_equal(
		db_put(txn, META_DISK, TABLE_OBJECTS, key, 8, &garbage, 0), 0);
	assert_int_equal(
		db_put(txn, META_DISK, TABLE_CHUNKS, key, 20, &garbage, 0), 0);
	assert_int_equal(meta_object_get(txn, 9, &object), META_ABSENT);
	assert_int_equal(
		meta_chunk_each(txn, META_DISK, 0, 0, count_chunk, seen), 0);
	assert_int_equal(seen[0], 0);
	assert_int_equal(meta_name_get(txn, META_ROOT, "page", 4, &entry), 0);
	scratch_commit(txn);
}

int main(void)
{
#define T(test)                                                                \
	cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)
	const struct CMUnitTest tests[] = {
		T(a_name_that_was_put_is_found_again_after_a_restart),
		T(an_aborted_write_leaves_nothing),
		T(the_longest_name_works_and_a_longer_one_is_refused),
		T(a_directory_is_empty_when_its_last_name_is_gone),
		T(an_object_leads_to_its_name_and_a_name_to_its_key),
		T(a_key_of_4096_bytes_fits_and_a_longer_one_does_not),
		T(directories_that_contain_each_other_end_the_walk),
		T(a_version_sees_the_newest_chunk_not_newer_than_itself),
		T(a_chunk_comes_back_with_its_place_and_checksums),
		T(chunks_of_an_object_come_in_order),
		T(without_a_disk_the_disk_has_no_chunks),
		T(attributes_are_kept_copied_and_dropped),
		T(the_largest_attribute_fits_and_is_copied),
		T(pending_rows_come_in_the_order_of_their_clocks),
		T(a_stash_gives_facts_back_in_order_and_once),
		T(orphans_can_be_dropped_while_they_are_walked),
		T(a_tombstone_keeps_the_newest_version_until_it_is_old),
		T(live_bytes_of_a_bucket_never_fall_below_zero),
		T(a_value_comes_back_only_in_its_own_length),
		T(a_damaged_row_counts_as_absent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
