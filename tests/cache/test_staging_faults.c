/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/clock.h"
#include "tools/lib/fault.h"

#define LEN 1500000

/* Everything a writer does to a page that is there; the first error. */
static int overwrite(struct rig *rig, unsigned seed)
{
	struct cache_creator creator = {.uid = 1000, .gid = 1000, .mode = 0644};
	struct cache_name name = rig_name("page");
	struct cache_writer *writer;
	bool committed;
	ssize_t done;
	int error = cache_stage_open(rig->cache, &name,
				     CACHE_STAGE_CREATE | CACHE_STAGE_TRUNCATE,
				     &creator, RIG_PROCESS, &writer);

	if (error)
		return error;
	done = rig_try_write(writer, 0, LEN, seed);
	if (done < 0)
		error = (int)done;
	else if (done < LEN)
		error = -ENOSPC;
	if (!error)
		error = cache_stage_flush(writer, false, &committed);
	/* A failed one is given up, as by a process that dies of it. */
	if (error)
		cache_stage_flush(writer, true, &committed);
	rig_release(writer);
	return error;
}

/* Fails the nth call of the point, for n = 1, 2, ... until nothing fails any
 * more: each time the page is as it was, or as it should be, and whole. */
static void walk(struct rig *rig, const char *point, int error)
{
	unsigned before = 1;

	assert_int_equal(rig_put(rig, "page", LEN, before), 0);
	for (unsigned nth = 1; nth < 200; nth++) {
		uint64_t hits;
		int outcome;

		assert_int_equal(cache_sync(rig->cache), 0);
		assert_int_equal(fault_arm(point, nth, error), 0);
		outcome = overwrite(rig, nth + 1);
		hits = fault_hits(point);
		fault_disarm_all();
		if (outcome == 0)
			before = nth + 1;
		rig_assert_page(rig, "page", LEN, before);
		if (hits == 0)
			return;
	}
	fail_msg("%s never passes", point);
}

static void a_failing_transaction_keeps_the_version_before(void **state)
{
	static const char *points[] = {"meta.begin",  "meta.begin_read",
				       "meta.put",    "meta.del",
				       "meta.cursor", "meta.commit"};
	struct rig *rig = *state;

	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++)
		walk(rig, points[i], ENOSPC);
}

static void a_failing_allocation_keeps_the_version_before(void **state)
{
	struct rig *rig = *state;

	walk(rig, "store.arena_fallocate", ENOSPC);
	walk(rig, "store.arena_open", EMFILE);
}

/* Without a disk tier memory is made by dropping pages: what is open stays. */
static void without_a_disk_tier_a_page_too_large_is_refused(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *reader, *writer;
	ssize_t done = 1;
	uint64_t at = 0;
	bool committed;

	assert_int_equal(rig_put(rig, "page", 1000, 1), 0);
	reader = rig_writer(rig, "page", CACHE_STAGE_READ);
	writer = rig_create(rig, "other");
	for (; done > 0 && at < 100 * RIG_MIB; at += RIG_MIB)
		done = rig_try_write(writer, at, RIG_MIB, 2);
	assert_int_equal(done, -ENOSPC);
	assert_true(at > 20 * RIG_MIB);
	assert_int_equal(cache_stage_flush(writer, true, &committed), 0);
	rig_release(writer);
	assert_int_equal(rig_finish(reader), 0);
	rig_assert_page(rig, "page", 1000, 1);
}

static void a_failing_commit_can_be_tried_again(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page");
	bool committed;

	rig_write(writer, 0, LEN, 1);
	assert_int_equal(cache_sync(rig->cache), 0);
	/* Once is not enough: where there is no room, some is made. */
	assert_int_equal(fault_arm("meta.put", FAULT_EVERY, ENOSPC), 0);
	assert_int_equal(cache_stage_flush(writer, false, &committed), -ENOSPC);
	assert_false(committed);
	fault_disarm_all();
	rig_assert_missing(rig, "page");
	rig_write(writer, 100, 1000, 2);
	rig_write(writer, 100, 1000, 1);
	assert_int_equal(cache_stage_flush(writer, false, &committed), 0);
	assert_true(committed);
	rig_release(writer);
	rig_assert_page(rig, "page", LEN, 1);
}

static void a_sync_that_cannot_write_says_so_and_the_page_stays(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page");

	rig_write(writer, 0, LEN, 1);
	assert_int_equal(fault_arm("io.write", FAULT_EVERY, EIO), 0);
	assert_int_equal(cache_stage_sync(writer), -EIO);
	rig_assert_page(rig, "page", LEN, 1);
	fault_disarm_all();
	assert_int_equal(cache_stage_sync(writer), 0);
	assert_int_equal(rig_finish(writer), 0);
	rig_assert_page(rig, "page", LEN, 1);
}

static void a_failing_spill_is_no_space(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page");
	ssize_t done = 1;
	bool committed;

	assert_int_equal(fault_arm("io.write", FAULT_EVERY, EIO), 0);
	for (uint64_t at = 0; done > 0 && at < 100 * RIG_MIB; at += RIG_MIB)
		done = rig_try_write(writer, at, RIG_MIB, 2);
	fault_disarm_all();
	assert_int_equal(done, -ENOSPC);
	assert_int_equal(cache_stage_flush(writer, true, &committed), 0);
	rig_release(writer);
}

static void a_page_with_a_failed_write_waits_until_it_is_mended(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page");
	bool committed;

	rig_write(writer, 0, 1000, 1);
	/* The slot has to grow, and can't. */
	assert_int_equal(fault_arm("store.arena_fallocate", 0, ENOSPC), 0);
	assert_int_equal(fault_arm("store.arena_open", 0, ENOSPC), 0);
	assert_int_equal(rig_try_write(writer, 1000, LEN, 1), -ENOSPC);
	fault_disarm_all();
	assert_int_equal(cache_stage_flush(writer, false, &committed), -ENOSPC);
	rig_assert_missing(rig, "page");
	rig_write(writer, 1000, LEN / 2, 1);
	assert_int_equal(cache_stage_sync(writer), -ENOSPC);
	rig_write(writer, 1000 + LEN / 2, LEN / 2, 1);
	assert_int_equal(rig_finish(writer), 0);
	rig_assert_page(rig, "page", LEN + 1000, 1);
}

static void a_page_whose_write_failed_goes_with_its_writer(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer;

	assert_int_equal(rig_put(rig, "page", 500, 1), 0);
	writer = rig_create(rig, "page");
	rig_write(writer, 0, 1000, 2);
	assert_int_equal(fault_arm("store.arena_fallocate", 0, ENOSPC), 0);
	assert_int_equal(fault_arm("store.arena_open", 0, ENOSPC), 0);
	assert_int_equal(rig_try_write(writer, 1000, LEN, 2), -ENOSPC);
	fault_disarm_all();
	assert_int_equal(rig_finish(writer), -ENOSPC);
	rig_assert_page(rig, "page", 500, 1);
}

/* The nth write to the disk fails, of a page that is spilled as it is written:
 * it waits in memory, or the writer hears of it; never a wrong byte. */
static void a_spill_that_fails_once_loses_nothing(void **state)
{
	struct rig *rig = *state;
	const size_t size = 40 * RIG_MIB;

	for (uint64_t nth = 1; nth <= 6; nth++) {
		int outcome;

		assert_int_equal(fault_arm("io.write", nth, EIO), 0);
		outcome = rig_put(rig, "page", size, (unsigned)nth);
		fault_disarm_all();
		if (outcome == 0)
			rig_assert_page(rig, "page", size, (unsigned)nth);
		assert_int_equal(outcome, 0);
	}
}

#define ON_RIG(test)                                                           \
	cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_RIG(a_failing_transaction_keeps_the_version_before),
		ON_RIG(a_failing_allocation_keeps_the_version_before),
		cmocka_unit_test_setup_teardown(
			without_a_disk_tier_a_page_too_large_is_refused,
			rig_setup_memory_only, rig_teardown),
		ON_RIG(a_failing_commit_can_be_tried_again),
		ON_RIG(a_sync_that_cannot_write_says_so_and_the_page_stays),
		ON_RIG(a_failing_spill_is_no_space),
		ON_RIG(a_page_with_a_failed_write_waits_until_it_is_mended),
		ON_RIG(a_page_whose_write_failed_goes_with_its_writer),
		ON_RIG(a_spill_that_fails_once_loses_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
