/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rename_page(struct rig *rig, const char *from, const char *to,
		       unsigned flags)
{
	struct cache_name a = rig_name(from), b = rig_name(to);

	return cache_rename(rig->cache, &a, &b, flags);
}

static int unlink_page(struct rig *rig, const char *name)
{
	struct cache_name place = rig_name(name);

	return cache_unlink(rig->cache, &place);
}

static void write_to_temp_then_rename_is_one_page(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(rig_put(rig, "page", 1000, 1), 0);
	assert_int_equal(rig_put(rig, "page.tmp", 5000, 2), 0);
	assert_int_equal(rename_page(rig, "page.tmp", "page", 0), 0);
	rig_assert_page(rig, "page", 5000, 2);
	rig_assert_missing(rig, "page.tmp");
}

static void
renamed_before_its_close_it_is_committed_under_the_new_name(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "temp");

	assert_int_equal(rig_put(rig, "page", 1000, 1), 0);
	rig_write(writer, 0, 3000, 2);
	assert_int_equal(rename_page(rig, "temp", "page", 0), 0);
	rig_assert_missing(rig, "temp");
	/* The version before is there until the new one is whole. */
	rig_assert_page(rig, "page", 1000, 1);
	rig_write(writer, 3000, 3000, 2);
	assert_int_equal(rig_finish(writer), 0);
	rig_assert_page(rig, "page", 6000, 2);
	rig_assert_missing(rig, "temp");
}

static void a_mapping_is_committed_by_the_rename_after_its_close(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "temp");
	bool committed;

	assert_int_equal(
		cache_stage_truncate(cache_writer_staging(writer), 8192), 0);
	rig_write(writer, 0, 4096, 1);
	assert_int_equal(cache_stage_flush(writer, false, &committed), 0);
	assert_false(committed);
	/* RELEASE comes late. */
	assert_int_equal(rename_page(rig, "temp", "page", 0), 0);
	rig_assert_missing(rig, "temp");
	{
		struct meta_entry entry;

		assert_int_equal(rig_lookup(rig, "page", 0, &entry), 0);
		assert_int_equal(entry.size_bytes, 8192);
	}
	rig_release(writer);
}

static void
a_committed_page_renamed_while_open_takes_its_writer_along(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer;

	assert_int_equal(rig_put(rig, "old", 3000, 1), 0);
	writer = rig_writer(rig, "old", 0);
	rig_write(writer, 3000, 100, 1);
	assert_int_equal(rename_page(rig, "old", "new", 0), 0);
	rig_assert_page(rig, "new", 3000, 1);
	assert_int_equal(rig_finish(writer), 0);
	rig_assert_page(rig, "new", 3100, 1);
	rig_assert_missing(rig, "old");
}

static void a_staged_page_that_is_renamed_over_never_comes(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page");
	uint8_t *data;

	rig_write(writer, 0, 1000, 1);
	assert_int_equal(rig_put(rig, "temp", 500, 2), 0);
	assert_int_equal(rename_page(rig, "temp", "page", 0), 0);
	rig_assert_page(rig, "page", 500, 2);
	rig_write(writer, 1000, 1000, 1);
	assert_int_equal(rig_staged(writer, 0, 2000, &data), 2000);
	rig_assert_bytes(data, 0, 2000, 1);
	free(data);
	assert_int_equal(rig_finish(writer), 0);
	rig_assert_page(rig, "page", 500, 2);
}

static void noreplace_meets_what_is_staged(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "staged");

	assert_int_equal(rig_put(rig, "page", 500, 2), 0);
	assert_int_equal(rename_page(rig, "page", "staged", RENAME_NOREPLACE),
			 -EEXIST);
	assert_int_equal(rename_page(rig, "staged", "page", RENAME_NOREPLACE),
			 -EEXIST);
	assert_int_equal(rename_page(rig, "staged", "other", RENAME_NOREPLACE),
			 0);
	assert_int_equal(rig_finish(writer), 0);
	rig_assert_page(rig, "other", 0, 0);
}

static void exchange_takes_staged_and_committed_pages_along(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "a"), *other;

	rig_write(writer, 0, 1000, 1);
	assert_int_equal(rig_put(rig, "b", 500, 2), 0);
	assert_int_equal(rename_page(rig, "a", "b", RENAME_EXCHANGE), 0);
	rig_assert_page(rig, "a", 500, 2);
	rig_assert_missing(rig, "b");
	assert_int_equal(rig_finish(writer), 0);
	rig_assert_page(rig, "b", 1000, 1);

	writer = rig_writer(rig, "a", 0);
	other = rig_writer(rig, "b", 0);
	rig_write(writer, 500, 1, 2);
	rig_write(other, 1000, 1, 1);
	assert_int_equal(rename_page(rig, "a", "b", RENAME_EXCHANGE), 0);
	assert_int_equal(rig_finish(writer), 0);
	assert_int_equal(rig_finish(other), 0);
	rig_assert_page(rig, "b", 501, 2);
	rig_assert_page(rig, "a", 1001, 1);
}

static void an_unlinked_page_goes_on_for_its_writer(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer;
	uint8_t *data;
	char name[NAME_MAX_BYTES + 1];
	uint64_t dir;
	size_t len;

	assert_int_equal(rig_put(rig, "page", 300000, 1), 0);
	writer = rig_writer(rig, "page", 0);
	assert_int_equal(unlink_page(rig, "page"), 0);
	rig_assert_missing(rig, "page");
	assert_false(cache_staging_name(cache_writer_staging(writer), &dir,
					name, &len));
	/* What it stands over is still there for it. */
	rig_write(writer, 300000, 5000, 1);
	assert_int_equal(rig_staged(writer, 0, 400000, &data), 305000);
	rig_assert_bytes(data, 0, 305000, 1);
	free(data);
	assert_int_equal(cache_stage_sync(writer), 0);
	assert_int_equal(rig_finish(writer), 0);
	rig_assert_missing(rig, "page");
}

static void unlinking_what_is_only_staged_works(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page"), *next;

	rig_write(writer, 0, 1000, 1);
	assert_int_equal(unlink_page(rig, "page"), 0);
	assert_int_equal(unlink_page(rig, "page"), CACHE_MISS);
	next = rig_create(rig, "page");
	rig_write(next, 0, 10, 2);
	assert_int_equal(rig_finish(writer), 0);
	rig_assert_missing(rig, "page");
	assert_int_equal(rig_finish(next), 0);
	rig_assert_page(rig, "page", 10, 2);
}

static void a_directory_with_a_staged_page_is_not_empty(void **state)
{
	struct rig *rig = *state;
	struct cache_creator creator = {.mode = 0755};
	struct cache_name dir = rig_name("dir"), name = {0, "page", 4};
	struct cache_writer *writer;
	struct cache_found found;

	assert_int_equal(cache_mkdir(rig->cache, &dir, &creator, &found), 0);
	name.dir = found.entry.object;
	assert_int_equal(cache_stage_open(rig->cache, &name, CACHE_STAGE_CREATE,
					  &creator, RIG_PROCESS, &writer),
			 0);
	assert_int_equal(cache_rmdir(rig->cache, &dir), -ENOTEMPTY);
	assert_int_equal(cache_unlink(rig->cache, &name), 0);
	assert_int_equal(cache_rmdir(rig->cache, &dir), 0);
	assert_int_equal(rig_finish(writer), 0);
}

static void a_page_without_a_name_gets_one(void **state)
{
	struct rig *rig = *state;
	struct cache_creator creator = {.mode = 0600};
	struct cache_name name = rig_name("page");
	struct cache_found found = {.staging = NULL};
	struct cache_writer *writer;
	struct meta_entry entry;

	assert_int_equal(cache_stage_anonymous(rig->cache, META_ROOT, &creator,
					       RIG_PROCESS, &writer),
			 0);
	rig_write(writer, 0, 1000, 1);
	assert_int_equal(
		cache_stage_link(cache_writer_staging(writer), &name, &found),
		CACHE_STAGED);
	assert_int_equal(found.entry.size_bytes, 1000);
	cache_staging_put(found.staging);
	assert_int_equal(rig_lookup(rig, "page", RIG_PROCESS, &entry),
			 CACHE_STAGED);
	assert_int_equal(rig_finish(writer), 0);
	rig_assert_page(rig, "page", 1000, 1);

	assert_int_equal(cache_stage_anonymous(rig->cache, META_ROOT, &creator,
					       RIG_PROCESS, &writer),
			 0);
	rig_write(writer, 0, 1000, 2);
	assert_int_equal(
		cache_stage_link(cache_writer_staging(writer), &name, &found),
		-EEXIST);
	assert_int_equal(rig_finish(writer), 0);
	rig_assert_page(rig, "page", 1000, 1);
}

static void overwriting_one_of_two_hard_links_leaves_the_other(void **state)
{
	struct rig *rig = *state;
	struct cache_name one = rig_name("one"), two = rig_name("two");
	struct cache_found found = {.staging = NULL};
	struct cache_writer *writer;
	uint8_t *data;
	size_t len;

	assert_int_equal(rig_put(rig, "one", 2000000, 1), 0);
	assert_int_equal(cache_link(rig->cache, &one, &two, &found), 0);
	writer = rig_writer(rig, "two", 0);
	rig_write(writer, 1000000, 1000, 2);
	assert_int_equal(rig_finish(writer), 0);
	rig_assert_page(rig, "one", 2000000, 1);
	assert_int_equal(rig_get(rig, "two", &data, &len), 0);
	assert_int_equal(len, 2000000);
	rig_assert_bytes(data, 0, 1000000, 1);
	rig_assert_bytes(data + 1000000, 1000000, 1000, 2);
	rig_assert_bytes(data + 1001000, 1001000, 999000, 1);
	free(data);
	assert_int_equal(unlink_page(rig, "one"), 0);
	assert_int_equal(rig_get(rig, "two", &data, &len), 0);
	free(data);
}

static void a_writer_survives_the_rename_of_its_directory(void **state)
{
	struct rig *rig = *state;
	struct cache_creator creator = {.mode = 0755};
	struct cache_name dir = rig_name("dir"), to = rig_name("there");
	struct cache_name name = {0, "page", 4};
	struct cache_writer *writer;
	struct cache_found found;

	assert_int_equal(cache_mkdir(rig->cache, &dir, &creator, &found), 0);
	name.dir = found.entry.object;
	assert_int_equal(cache_stage_open(rig->cache, &name, CACHE_STAGE_CREATE,
					  &creator, RIG_PROCESS, &writer),
			 0);
	rig_write(writer, 0, 100, 1);
	assert_int_equal(cache_rename(rig->cache, &dir, &to, 0), 0);
	assert_int_equal(rig_finish(writer), 0);
	assert_int_equal(cache_resolve(rig->cache, "there/page", 10, &name), 0);
	assert_int_equal(cache_lookup(rig->cache, &name, RIG_PROCESS, &found),
			 0);
	assert_int_equal(cache_unlink(rig->cache, &name), 0);
}

#define ON_RIG(test)                                                           \
	cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_RIG(write_to_temp_then_rename_is_one_page),
		ON_RIG(renamed_before_its_close_it_is_committed_under_the_new_name),
		ON_RIG(a_mapping_is_committed_by_the_rename_after_its_close),
		ON_RIG(a_committed_page_renamed_while_open_takes_its_writer_along),
		ON_RIG(a_staged_page_that_is_renamed_over_never_comes),
		ON_RIG(noreplace_meets_what_is_staged),
		ON_RIG(exchange_takes_staged_and_committed_pages_along),
		ON_RIG(an_unlinked_page_goes_on_for_its_writer),
		ON_RIG(unlinking_what_is_only_staged_works),
		ON_RIG(a_directory_with_a_staged_page_is_not_empty),
		ON_RIG(a_page_without_a_name_gets_one),
		ON_RIG(overwriting_one_of_two_hard_links_leaves_the_other),
		ON_RIG(a_writer_survives_the_rename_of_its_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
