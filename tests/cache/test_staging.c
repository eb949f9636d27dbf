/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/clock.h"

#define PAGE 3670016

static void a_page_is_invisible_until_its_flush(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page");
	struct meta_entry entry;
	bool committed;

	rig_write(writer, 0, PAGE, 1);
	rig_assert_missing(rig, "page");
	assert_int_equal(rig_lookup(rig, "page", RIG_STRANGER, &entry),
			 CACHE_MISS);
	assert_int_equal(rig_lookup(rig, "page", RIG_PROCESS, &entry),
			 CACHE_STAGED);
	assert_int_equal(entry.size_bytes, PAGE);
	assert_int_equal(cache_stage_flush(writer, false, &committed), 0);
	assert_true(committed);
	rig_assert_page(rig, "page", PAGE, 1);
	rig_release(writer);
	rig_assert_page(rig, "page", PAGE, 1);
}

static void pages_of_any_size_come_back(void **state)
{
	static const size_t sizes[] = {
		0,	    1,	     27,      4095,   4096,
		4097,	    65536,   262143,  262144, 262145,
		1048575,    1048576, 1048577, PAGE,   2 * 1048576 + 12345,
		6 * 1048576};
	struct rig *rig = *state;

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(rig_put(rig, "page", sizes[i], i), 0);
		rig_assert_page(rig, "page", sizes[i], i);
	}
}

static void a_flush_that_finds_nothing_new_does_nothing(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page");
	struct meta_entry first, second;
	bool committed;

	rig_write(writer, 0, 1000, 1);
	assert_int_equal(cache_stage_flush(writer, false, &committed), 0);
	assert_true(committed);
	assert_int_equal(rig_lookup(rig, "page", 0, &first), 0);
	assert_int_equal(cache_stage_flush(writer, false, &committed), 0);
	assert_false(committed);
	rig_release(writer);
	assert_int_equal(rig_lookup(rig, "page", 0, &second), 0);
	assert_int_equal(first.version.clock, second.version.clock);
}

static void a_flush_waits_for_other_writers(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *one = rig_create(rig, "page");
	struct cache_writer *two = rig_writer(rig, "page", CACHE_STAGE_CREATE);
	bool committed;

	rig_write(one, 0, 5000, 1);
	assert_int_equal(cache_stage_flush(one, false, &committed), 0);
	assert_false(committed);
	rig_assert_missing(rig, "page");
	rig_write(two, 5000, 5000, 1);
	assert_int_equal(cache_stage_flush(two, false, &committed), 0);
	assert_true(committed);
	rig_assert_page(rig, "page", 10000, 1);
	rig_release(one);
	rig_release(two);
	rig_assert_page(rig, "page", 10000, 1);
}

static void a_reader_keeps_no_commit_waiting(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page");
	struct cache_writer *peek = rig_writer(rig, "page", CACHE_STAGE_PEEK);
	uint8_t *data;
	bool committed;

	rig_write(writer, 0, 5000, 1);
	assert_int_equal(rig_staged(peek, 1000, 9000, &data), 4000);
	rig_assert_bytes(data, 1000, 4000, 1);
	free(data);
	assert_int_equal(rig_try_write(peek, 0, 1, 1), -EBADF);
	assert_int_equal(cache_stage_flush(writer, false, &committed), 0);
	assert_true(committed);
	rig_release(writer);
	assert_int_equal(rig_staged(peek, 0, 5000, &data), 5000);
	rig_assert_bytes(data, 0, 5000, 1);
	free(data);
	rig_release(peek);
}

static void an_exclusive_create_meets_what_is_staged_or_committed(void **state)
{
	unsigned flags = CACHE_STAGE_CREATE | CACHE_STAGE_EXCLUSIVE;
	struct cache_creator creator = {.mode = 0600};
	struct cache_name name = rig_name("page");
	struct rig *rig = *state;
	struct cache_writer *writer = rig_writer(rig, "page", flags), *other;

	assert_int_equal(
		cache_stage_open(rig->cache, &name, flags, &creator, 1, &other),
		-EEXIST);
	assert_int_equal(rig_finish(writer), 0);
	assert_int_equal(
		cache_stage_open(rig->cache, &name, flags, &creator, 1, &other),
		-EEXIST);
}

static void opening_what_is_not_there_is_a_miss(void **state)
{
	struct cache_name name = rig_name("page"), below = {77, "page", 4};
	struct cache_creator creator = {.mode = 0600};
	struct rig *rig = *state;
	struct cache_writer *writer;

	assert_int_equal(
		cache_stage_open(rig->cache, &name, 0, NULL, 1, &writer),
		CACHE_MISS);
	assert_int_equal(cache_stage_open(rig->cache, &below,
					  CACHE_STAGE_CREATE, &creator, 1,
					  &writer),
			 -ENOENT);
}

static void a_file_created_and_closed_is_an_empty_page(void **state)
{
	struct rig *rig = *state;
	struct meta_entry entry;

	assert_int_equal(rig_finish(rig_create(rig, "page")), 0);
	assert_int_equal(rig_lookup(rig, "page", 0, &entry), 0);
	assert_int_equal(entry.size_bytes, 0);
	assert_int_equal(entry.chunks, 0);
	assert_int_equal(entry.mode, 0644);
	rig_assert_page(rig, "page", 0, 0);
}

static void opening_read_write_and_only_reading_changes_nothing(void **state)
{
	struct rig *rig = *state;
	struct meta_entry before, after;
	struct cache_writer *writer;
	uint8_t *data;

	assert_int_equal(rig_put(rig, "page", PAGE, 1), 0);
	assert_int_equal(rig_lookup(rig, "page", 0, &before), 0);
	writer = rig_writer(rig, "page", CACHE_STAGE_READ);
	assert_int_equal(rig_staged(writer, 100, 1000, &data), 1000);
	rig_assert_bytes(data, 100, 1000, 1);
	free(data);
	assert_int_equal(rig_finish(writer), 0);
	assert_int_equal(rig_lookup(rig, "page", 0, &after), 0);
	assert_int_equal(before.version.clock, after.version.clock);
	assert_int_equal(before.object, after.object);
}

static void an_open_reader_keeps_the_version_before(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer;
	uint8_t *data;
	size_t len;

	assert_int_equal(rig_put(rig, "page", PAGE, 1), 0);
	writer = rig_writer(rig, "page", 0);
	rig_write(writer, 1000, 50, 2);
	/* Until the flush, the version before is there for all. */
	rig_assert_page(rig, "page", PAGE, 1);
	assert_int_equal(rig_finish(writer), 0);
	assert_int_equal(rig_get(rig, "page", &data, &len), 0);
	assert_int_equal(len, PAGE);
	rig_assert_bytes(data, 0, 1000, 1);
	rig_assert_bytes(data + 1000, 1000, 50, 2);
	rig_assert_bytes(data + 1050, 1050, PAGE - 1050, 1);
	free(data);
}

static void append_writes_at_the_end(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer;
	uint64_t offset = 0;
	uint8_t data[500];

	assert_int_equal(rig_put(rig, "page", 1000, 1), 0);
	writer = rig_writer(rig, "page", CACHE_STAGE_APPEND);
	rig_fill(data, 1000, sizeof(data), 1);
	assert_int_equal(cache_stage_write(writer, data, 500, &offset), 500);
	assert_int_equal(offset, 1000);
	assert_int_equal(rig_finish(writer), 0);
	rig_assert_page(rig, "page", 1500, 1);
}

static void a_killed_writer_leaves_nothing(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page"), *next;
	bool committed;

	rig_write(writer, 0, PAGE, 1);
	assert_int_equal(cache_stage_flush(writer, true, &committed), 0);
	assert_false(committed);
	/* Whoever comes next begins anew, while the handle is still there. */
	next = rig_create(rig, "page");
	rig_write(next, 0, 1000, 2);
	rig_release(writer);
	rig_assert_missing(rig, "page");
	assert_int_equal(rig_finish(next), 0);
	rig_assert_page(rig, "page", 1000, 2);
}

static void a_killed_writer_leaves_the_version_before(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer;
	bool committed;

	assert_int_equal(rig_put(rig, "page", PAGE, 1), 0);
	writer = rig_writer(rig, "page", 0);
	rig_write(writer, 0, 1000, 2);
	assert_int_equal(cache_stage_flush(writer, true, &committed), 0);
	rig_release(writer);
	rig_assert_page(rig, "page", PAGE, 1);
}

static void killing_one_that_wrote_nothing_spares_the_others(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *one = rig_create(rig, "page");
	struct cache_writer *two = rig_writer(rig, "page", 0);
	bool committed;

	rig_write(one, 0, 1000, 1);
	assert_int_equal(cache_stage_flush(two, true, &committed), 0);
	rig_release(two);
	assert_int_equal(rig_finish(one), 0);
	rig_assert_page(rig, "page", 1000, 1);
}

static void what_comes_after_a_flush_is_a_version_of_its_own(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page");
	bool committed;

	rig_write(writer, 0, 10000, 1);
	assert_int_equal(cache_stage_flush(writer, false, &committed), 0);
	rig_write(writer, 10000, 10000, 1);
	rig_assert_page(rig, "page", 10000, 1);
	cache_stage_close(writer, &committed);
	assert_true(committed);
	rig_assert_page(rig, "page", 20000, 1);
}

static void a_mapping_is_committed_at_its_last_close(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page");
	bool committed;

	assert_int_equal(
		cache_stage_truncate(cache_writer_staging(writer), 65536), 0);
	assert_int_equal(cache_stage_flush(writer, false, &committed), 0);
	assert_false(committed);
	rig_assert_missing(rig, "page");
	rig_write(writer, 0, 65536, 1);
	rig_assert_missing(rig, "page");
	cache_stage_close(writer, &committed);
	assert_true(committed);
	rig_assert_page(rig, "page", 65536, 1);
}

static void a_truncated_page_is_a_new_object(void **state)
{
	struct rig *rig = *state;
	struct meta_entry before, after;

	assert_int_equal(rig_put(rig, "page", PAGE, 1), 0);
	assert_int_equal(rig_lookup(rig, "page", 0, &before), 0);
	assert_int_equal(rig_put(rig, "page", 100, 2), 0);
	assert_int_equal(rig_lookup(rig, "page", 0, &after), 0);
	assert_true(before.object != after.object);
	rig_assert_page(rig, "page", 100, 2);
	/* Rows of memory go with the transaction after. */
	assert_int_equal(rig_put(rig, "other", 1, 1), 0);
	assert_int_equal(rig_rows(rig, META_MEMORY, before.object), 0);
}

static void so_is_one_that_is_cut_to_nothing(void **state)
{
	struct rig *rig = *state;
	struct meta_entry before, after;
	struct cache_writer *writer;

	assert_int_equal(rig_put(rig, "page", PAGE, 1), 0);
	assert_int_equal(rig_lookup(rig, "page", 0, &before), 0);
	writer = rig_writer(rig, "page", 0);
	assert_int_equal(cache_stage_truncate(cache_writer_staging(writer), 0),
			 0);
	rig_write(writer, 0, 100, 2);
	rig_assert_page(rig, "page", PAGE, 1);
	assert_int_equal(rig_finish(writer), 0);
	rig_assert_page(rig, "page", 100, 2);
	assert_int_equal(rig_lookup(rig, "page", 0, &after), 0);
	assert_true(before.object != after.object);
	assert_int_equal(after.mode, before.mode);
}

static void pages_of_a_process_name_each_other(void **state)
{
	struct rig *rig = *state;
	struct meta_entry one, two, three;

	assert_int_equal(rig_put(rig, "one", 100, 1), 0);
	assert_int_equal(rig_put(rig, "two", 100, 2), 0);
	assert_int_equal(rig_put(rig, "three", 100, 3), 0);
	assert_int_equal(rig_lookup(rig, "one", 0, &one), 0);
	assert_int_equal(rig_lookup(rig, "two", 0, &two), 0);
	assert_int_equal(rig_lookup(rig, "three", 0, &three), 0);
	assert_int_equal(one.successor, two.object);
	assert_int_equal(two.successor, three.object);
}

static void attributes_set_while_writing_survive(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page");
	struct cache_staging *staging = cache_writer_staging(writer);
	struct meta_entry values = {
		.mode = 0600, .uid = 7, .gid = 8, .mtime_ns = 12345};
	struct meta_entry entry;
	char list[16], value[8];

	rig_write(writer, 0, 1000, 1);
	assert_int_equal(cache_stage_set_attributes(
				 staging,
				 CACHE_SET_MODE | CACHE_SET_UID |
					 CACHE_SET_GID | CACHE_SET_MTIME,
				 &values),
			 0);
	assert_int_equal(cache_stage_xattr_set(staging, "user.a", "xyz", 3, 0),
			 0);
	assert_int_equal(cache_stage_xattr_set(staging, "user.b", "", 0, 0), 0);
	assert_int_equal(cache_stage_xattr_set(staging, "user.b", NULL, 0, 0),
			 0);
	assert_int_equal(cache_stage_xattr_set(staging, "user.b", NULL, 0, 0),
			 -ENODATA);
	assert_int_equal(rig_finish(writer), 0);
	assert_int_equal(rig_lookup(rig, "page", 0, &entry), 0);
	assert_int_equal(entry.mode, 0600);
	assert_int_equal(entry.uid, 7);
	assert_int_equal(entry.gid, 8);
	assert_int_equal(entry.mtime_ns, 12345);
	assert_int_equal(cache_xattr_get(rig->cache, entry.object, "user.a",
					 value, sizeof(value)),
			 3);
	assert_memory_equal(value, "xyz", 3);
	assert_int_equal(
		cache_xattr_list(rig->cache, entry.object, list, sizeof(list)),
		7);
}

static void an_overwrite_keeps_mode_and_xattrs(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page");
	struct cache_staging *staging = cache_writer_staging(writer);
	struct meta_entry values = {.mode = 0640}, entry;
	char value[8];

	assert_int_equal(rig_finish(writer), 0);
	writer = rig_create(rig, "page");
	staging = cache_writer_staging(writer);
	rig_write(writer, 0, 1000, 1);
	/* At once, although the new version isn't there yet. */
	assert_int_equal(
		cache_stage_set_attributes(staging, CACHE_SET_MODE, &values),
		0);
	assert_int_equal(cache_stage_xattr_set(staging, "user.a", "xyz", 3, 0),
			 0);
	assert_int_equal(rig_lookup(rig, "page", 0, &entry), 0);
	assert_int_equal(entry.mode, 0640);
	assert_int_equal(rig_finish(writer), 0);
	assert_int_equal(rig_lookup(rig, "page", 0, &entry), 0);
	assert_int_equal(entry.mode, 0640);
	assert_int_equal(cache_xattr_get(rig->cache, entry.object, "user.a",
					 value, sizeof(value)),
			 3);
}

static void a_commit_makes_the_key_known_again(void **state)
{
	struct rig *rig = *state;
	struct key_id key = negative_key(META_ROOT, "page", 4);
	struct meta_entry entry;

	assert_int_equal(rig_put(rig, "page", 10, 1), 0);
	assert_true(negative_insert(rig->cache->negative, key,
				    clock_monotonic_ns(), false));
	assert_int_equal(rig_lookup(rig, "page", 0, &entry), CACHE_HIDDEN);
	assert_int_equal(rig_put(rig, "page", 20, 2), 0);
	rig_assert_page(rig, "page", 20, 2);
}

static void partial_pages_are_shown_where_that_is_wanted(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer;
	struct meta_entry entry;

	rig_close(rig, true);
	rig->config.show_partial = true;
	rig_open(rig);
	assert_int_equal(rig_put(rig, "page", 10, 1), 0);
	writer = rig_writer(rig, "page", 0);
	rig_write(writer, 10, 90, 1);
	assert_int_equal(rig_lookup(rig, "page", RIG_STRANGER, &entry),
			 CACHE_STAGED);
	assert_int_equal(entry.size_bytes, 100);
	assert_int_equal(rig_finish(writer), 0);
	rig_assert_page(rig, "page", 100, 1);
}

#define ON_RIG(test)                                                           \
	cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_RIG(a_page_is_invisible_until_its_flush),
		ON_RIG(pages_of_any_size_come_back),
		ON_RIG(a_flush_that_finds_nothing_new_does_nothing),
		ON_RIG(a_flush_waits_for_other_writers),
		ON_RIG(a_reader_keeps_no_commit_waiting),
		ON_RIG(an_exclusive_create_meets_what_is_staged_or_committed),
		ON_RIG(opening_what_is_not_there_is_a_miss),
		ON_RIG(a_file_created_and_closed_is_an_empty_page),
		ON_RIG(opening_read_write_and_only_reading_changes_nothing),
		ON_RIG(an_open_reader_keeps_the_version_before),
		ON_RIG(append_writes_at_the_end),
		ON_RIG(a_killed_writer_leaves_nothing),
		ON_RIG(a_killed_writer_leaves_the_version_before),
		ON_RIG(killing_one_that_wrote_nothing_spares_the_others),
		ON_RIG(what_comes_after_a_flush_is_a_version_of_its_own),
		ON_RIG(a_mapping_is_committed_at_its_last_close),
		ON_RIG(a_truncated_page_is_a_new_object),
		ON_RIG(so_is_one_that_is_cut_to_nothing),
		ON_RIG(pages_of_a_process_name_each_other),
		ON_RIG(attributes_set_while_writing_survive),
		ON_RIG(an_overwrite_keeps_mode_and_xattrs),
		ON_RIG(a_commit_makes_the_key_known_again),
		ON_RIG(partial_pages_are_shown_where_that_is_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
