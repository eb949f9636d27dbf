/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Every call below the daemon fails now and then, at its start and while it
 * works.  It never crashes or hangs; a read is right or ENOENT; a write that
 * fails says so and leaves the version before; and once nothing fails any
 * more, what was acknowledged is there.
 */

#include "tests/mounted/fault_rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE (200u << 10)
#define PAGES 24u
#define ROUNDS 3u

/* What each page may hold: the version that was acknowledged last, or one that
 * was refused after it: a close that failed is tried again at the release of
 * the file, when nobody is left to hear of it. */
struct model {
	unsigned seeds[PAGES][ROUNDS];
	unsigned count[PAGES];
	bool acknowledged[PAGES];
};

static bool is_alive(struct rig *rig)
{
	return rig_stat(rig, "pid") == rig->daemon;
}

static void put_all(struct rig *rig, struct model *model, unsigned round)
{
	char name[32];

	for (unsigned n = 0; n < PAGES; n++) {
		unsigned seed = 1 + n + 1000 * round;
		int error = rig_put(rig, rig_name(name, n), seed, PAGE);

		if (!error) {
			model->count[n] = 0;
			model->acknowledged[n] = true;
		}
		model->seeds[n][model->count[n]++] = seed;
		if (!error)
			continue;
		if (error != -ENOSPC && error != -EIO && error != -ENOMEM &&
		    error != -EBUSY)
			fail_msg("put: %s", strerror(-error));
	}
}

static int get(struct rig *rig, const struct model *model, unsigned n)
{
	char name[32];

	return rig_get_one_of(rig, rig_name(name, n), model->seeds[n],
			      model->count[n], PAGE);
}

/* How many of them are there; whatever is, is right. */
static unsigned get_all(struct rig *rig, const struct model *model)
{
	unsigned right = 0;

	for (unsigned n = 0; n < PAGES; n++) {
		int error = get(rig, model, n);

		if (error && error != -ENOENT)
			fail_msg("get: %s", strerror(-error));
		right += !error;
	}
	return right;
}

static void all_there(struct rig *rig, const struct model *model)
{
	unsigned count = 0;

	for (unsigned n = 0; n < PAGES; n++) {
		if (!model->acknowledged[n])
			continue;
		assert_int_equal(get(rig, model, n), 0);
		count++;
	}
	assert_true(count > 0);
}

/* Works with these faults; then without them all must be there. */
static void survive(struct rig *rig, const char *faults)
{
	struct model model = {0};

	rig->faults = faults;
	rig_serve(rig, "--memory 64M --stop-timeout 1s -o "
		       "failed_get_ttl_seconds=0.05");
	for (unsigned round = 0; round < ROUNDS; round++) {
		put_all(rig, &model, round);
		rig_run(rig, "evict --all %s", rig->mount);
		get_all(rig, &model);
		rig_listed(rig, "page-0");
	}
	assert_true(is_alive(rig));
	/* As after a crash, so that what is in memory only counts, too. */
	rig_kill(rig);
	rig->faults = NULL;
	rig_serve(rig, "--memory 64M");
	all_there(rig, &model);
	rig_umount(rig);
	rig_serve(rig, "--memory 64M");
	all_there(rig, &model);
}

static void disk_reads_that_fail_now_and_then(void **state)
{
	survive(*state, "io.read:every/3:EIO,io.read.short:every/5");
}

static void disk_writes_that_fail_now_and_then(void **state)
{
	survive(*state, "io.write:every/3:EIO,io.write.short:every/5,"
			"io.allocate:every/7:ENOSPC");
}

static void disk_syncs_that_fail_now_and_then(void **state)
{
	survive(*state, "io.sync:every/2:EIO");
}

static void index_commits_that_fail_now_and_then(void **state)
{
	survive(*state, "meta.commit:every/11:EIO");
}

static void an_index_that_has_no_room_now_and_then(void **state)
{
	survive(*state, "meta.put:every/23:ENOSPC,meta.commit:every/7:ENOSPC");
}

static void an_index_that_cannot_be_read_now_and_then(void **state)
{
	survive(*state, "meta.begin_read:every/7:EIO,meta.cursor:every/19:EIO");
}

static void memory_that_cannot_be_had_now_and_then(void **state)
{
	survive(*state, "store.arena_fallocate:every/5:ENOSPC,"
			"store.arena_mmap:every/5:ENOMEM,"
			"store.arena_open:every/5:EMFILE");
}

static void all_of_it_now_and_then(void **state)
{
	survive(*state, "io.read:every/7:EIO,io.write:every/5:EIO,"
			"io.sync:every/3:EIO,meta.commit:every/11:EIO,"
			"meta.put:every/53:ENOSPC,"
			"store.arena_fallocate:every/5:ENOSPC,"
			"meta.begin_read:every/31:EIO");
}

/* ---- starts ---- */

static void start_fails_or_serves(struct rig *rig, const struct model *model,
				  const char *point, unsigned nth,
				  unsigned *ret_failed)
{
	char faults[128];
	int code;

	snprintf(faults, sizeof(faults), "%s:%u:ENOMEM", point, nth);
	rig->faults = faults;
	code = rig_mount(rig, "--memory 16M");
	rig->faults = NULL;
	*ret_failed += code != 0;
	if (code > 1 ||
	    (code == 1 && rig_log_count(rig, "pagefs mount: ") != 1))
		fail_msg("%s: exit code %d: %s", faults, code, rig_log(rig));
	if (code == 0) {
		get_all(rig, model);
		if (!is_alive(rig))
			fail_msg("%s: died: %s", faults, rig_log(rig));
		rig_umount(rig);
	}
}

static void
each_call_of_a_start_may_fail_and_the_next_start_has_all(void **state)
{
	static const char *const points[] = {
		"meta.open",
		"meta.state",
		"meta.begin",
		"meta.begin_read",
		"meta.commit",
		"meta.put",
		"meta.cursor",
		"io.read",
		"io.ring.init",
		"store.arena_open",
		"store.arena_mmap",
		"store.arena_fallocate",
		"store.arena_truncate",
		"store.arena_reserve",
	};
	struct rig *rig = *state;
	struct model model = {0};
	unsigned failed = 0;

	rig_serve(rig, "--memory 16M");
	put_all(rig, &model, 0);
	rig_umount(rig);
	for (size_t i = 0; i < sizeof(points) / sizeof(*points); i++)
		for (unsigned nth = 1; nth <= 2; nth++)
			start_fails_or_serves(rig, &model, points[i], nth,
					      &failed);
	assert_true(failed > 5);
	rig_serve(rig, "--memory 16M");
	all_there(rig, &model);
}

static int tests(void)
{
	const struct CMUnitTest all[] = {
		rig_test(disk_reads_that_fail_now_and_then),
		rig_test(disk_writes_that_fail_now_and_then),
		rig_test(disk_syncs_that_fail_now_and_then),
		rig_test(index_commits_that_fail_now_and_then),
		rig_test(an_index_that_has_no_room_now_and_then),
		rig_test(an_index_that_cannot_be_read_now_and_then),
		rig_test(memory_that_cannot_be_had_now_and_then),
		rig_test(all_of_it_now_and_then),
		rig_test(
			each_call_of_a_start_may_fail_and_the_next_start_has_all),
	};

	return cmocka_run_group_tests(all, NULL, NULL);
}

int main(void)
{
	return rig_main(tests);
}
