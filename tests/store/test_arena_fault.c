/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "arena_fixture.h"
#include "store/arena_format.h"
#include "tools/lib/checksum.h"
#include "tools/lib/fault.h"

static const struct slot_class half_mib = {KIB(512), 0, 0, 0600};
static const struct slot_class small = {KIB(64), 0, 0, 0600};

/* ---- the n-th call fails ---- */

static unsigned open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static unsigned mappings_below(const char *dir)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned count = 0;
	char line[512];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		count += strstr(line, dir) != NULL;
	fclose(file);
	return count;
}

#define PAGES 90

/* Which pages are where; those that could not be put are not there. */
struct shelf {
	bool there[PAGES];
	slot_t slots[PAGES];
	uint32_t bytes[PAGES];
};

static void put_pages(struct arena *arena, struct shelf *shelf, unsigned from,
		      unsigned to, const struct slot_class *class)
{
	for (unsigned i = from; i < to; i++) {
		shelf->there[i] =
			!chunk_put(arena, class, 1 + i, &shelf->slots[i]);
		shelf->bytes[i] = class->slot_bytes;
	}
}

/* A page is there with its own bytes, or it is gone. */
static unsigned right_pages(struct arena *arena, struct shelf *shelf)
{
	unsigned count = 0;

	for (unsigned i = 0; i < PAGES; i++) {
		struct chunk_id id = chunk_of(1 + i);

		if (!shelf->there[i] || arena_pin(arena, shelf->slots[i], &id))
			continue;
		assert_true(chunk_check(arena_data(arena, shelf->slots[i]),
					shelf->bytes[i], &id));
		arena_unpin(arena, shelf->slots[i]);
		count++;
	}
	return count;
}

static void claim_pages(struct arena *arena, struct shelf *shelf)
{
	for (unsigned i = 0; i < PAGES; i++) {
		struct chunk_id id = chunk_of(1 + i);

		if (shelf->there[i])
			(void)arena_claim(arena, shelf->slots[i], &id,
					  shelf->bytes[i], false);
	}
	arena_sweep(arena);
}

/* Fills, evicts, changes a region's class, closes and opens again. */
static unsigned life_of_an_arena(struct arena_fixture *fixture)
{
	struct shelf shelf = {0};
	struct arena_stats stats;
	struct arena_victim victim;
	unsigned right;

	if (arena_open(&fixture->config, &fixture->arena) < 0)
		return 0;
	/* The life before may have ended between its two halves. */
	arena_sweep(fixture->arena);
	put_pages(fixture->arena, &shelf, 0, 70, &half_mib);
	put_pages(fixture->arena, &shelf, 70, PAGES, &small);
	right_pages(fixture->arena, &shelf);
	arena_close(fixture->arena, true);
	fixture->arena = NULL;
	if (arena_open(&fixture->config, &fixture->arena) < 0)
		return 0;
	claim_pages(fixture->arena, &shelf);
	right = right_pages(fixture->arena, &shelf);
	while (arena_victims(fixture->arena, 1, NULL, &victim, 1))
		arena_free(fixture->arena, victim.slot);
	arena_get_stats(fixture->arena, &stats);
	assert_int_equal(stats.used_bytes, 0);
	assert_int_equal(stats.pinned_bytes, 0);
	arena_close(fixture->arena, false);
	fixture->arena = NULL;
	return right;
}

static void any_failing_call_costs_pages_and_nothing_else(void **state)
{
	static const struct {
		const char *point;
		int error;
	} rows[] = {
		{"store.arena_open", EMFILE},
		{"store.arena_truncate", EIO},
		{"store.arena_fallocate", ENOSPC},
		{"store.arena_mmap", ENOMEM},
		{"store.arena_unmap", ENOMEM},
		{"store.arena_reserve", ENOMEM},
		{"store.arena_calloc", ENOMEM},
	};
	struct arena_fixture *fixture = *state;
	unsigned all = life_of_an_arena(fixture);
	unsigned files = open_files(), walked = 0;

	assert_int_equal(all, 75); /* two regions of the first 70 went */
	for (unsigned row = 0; row < sizeof(rows) / sizeof(*rows); row++) {
		for (uint64_t nth = 1;; nth++) {
			unsigned right;
			uint64_t hits;

			assert_int_equal(fault_arm(rows[row].point, nth,
						   rows[row].error),
					 0);
			right = life_of_an_arena(fixture);
			hits = fault_hits(rows[row].point);
			fault_disarm_all();
			assert_int_equal(open_files(), files);
			assert_int_equal(mappings_below(fixture->dir), 0);
			if (!hits) {
				assert_int_equal(right, all);
				break;
			}
			walked++;
		}
	}
	print_message("%u failures walked\n", walked);
	assert_true(walked > 200);
}

static void a_class_works_again_after_its_calls_have_failed(void **state)
{
	struct arena_fixture *fixture = *state;
	slot_t slot;

	assert_int_equal(arena_open(&fixture->config, &fixture->arena),
			 ARENA_FRESH);
	fault_arm("store.arena_fallocate", FAULT_EVERY, ENOSPC);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(arena_alloc(fixture->arena, &half_mib, &slot),
				 -ENOSPC);
	fault_disarm_all();
	for (unsigned i = 0; i < 60; i++)
		assert_int_equal(arena_alloc(fixture->arena, &half_mib, &slot),
				 0);
}

/* ---- a file system that is full ---- */

static void a_full_file_system_is_an_error_and_no_signal(void **state)
{
	struct arena_fixture *fixture = *state;
	slot_t slots[64];
	unsigned count = 0;
	int rc;

	if (mount("none", fixture->dir, "tmpfs", 0, "size=6m"))
		skip();
	assert_int_equal(arena_open(&fixture->config, &fixture->arena),
			 ARENA_FRESH);
	while (!(rc = arena_alloc(fixture->arena, &half_mib, &slots[count]))) {
		memset(arena_data(fixture->arena, slots[count]), 1, KIB(512));
		count++;
	}
	assert_int_equal(rc, -ENOSPC);
	assert_in_range(count, 9, 11);
	/* What is there can be used on. */
	arena_free(fixture->arena, slots[0]);
	assert_int_equal(arena_alloc(fixture->arena, &half_mib, &slots[0]), 0);
	assert_int_equal(arena_alloc(fixture->arena, &half_mib, &slots[count]),
			 -ENOSPC);
	for (unsigned i = 0; i < count; i++)
		arena_free(fixture->arena, slots[i]);
	arena_close(fixture->arena, false);
	fixture->arena = NULL;
	umount(fixture->dir);
}

static void
a_file_system_without_room_for_the_first_block_is_said_at_once(void **state)
{
	struct arena_fixture *fixture = *state;

	if (mount("none", fixture->dir, "tmpfs", 0, "size=4k"))
		skip();
	assert_int_equal(arena_open(&fixture->config, &fixture->arena),
			 -ENOSPC);
	umount(fixture->dir);
}

/* ---- what is found is not what was left ---- */

static void write_at(struct arena_fixture *fixture, const char *name,
		     off_t offset, const void *bytes, size_t len)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", fixture->dir, name);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, len, offset), len);
	close(fd);
}

static void cut(struct arena_fixture *fixture, const char *name, off_t len)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/%s", fixture->dir, name);
	assert_int_equal(truncate(path, len), 0);
}

/* Four pages in region 0 (slot files) and four in region 1 (one file). */
static void leave_pages(struct arena_fixture *fixture, struct shelf *shelf)
{
	memset(shelf, 0, sizeof(*shelf));
	assert_int_equal(arena_open(&fixture->config, &fixture->arena),
			 ARENA_FRESH);
	put_pages(fixture->arena, shelf, 0, 4, &half_mib);
	put_pages(fixture->arena, shelf, 4, 8, &small);
	arena_close(fixture->arena, true);
	fixture->arena = NULL;
}

static unsigned find_pages(struct arena_fixture *fixture, struct shelf *shelf,
			   int expected)
{
	unsigned right;

	assert_int_equal(arena_open(&fixture->config, &fixture->arena),
			 expected);
	claim_pages(fixture->arena, shelf);
	right = right_pages(fixture->arena, shelf);
	/* Whatever was found: it serves. */
	put_pages(fixture->arena, shelf, 10, PAGES, &half_mib);
	assert_true(right_pages(fixture->arena, shelf) > 50);
	arena_close(fixture->arena, false);
	fixture->arena = NULL;
	assert_int_equal(arena_fixture_files(fixture), 0);
	return right;
}

static void a_superblock_of_a_newer_version_empties_the_arena(void **state)
{
	struct arena_fixture *fixture = *state;
	struct arena_superblock superblock;
	struct shelf shelf;
	char path[96];
	int fd;

	leave_pages(fixture, &shelf);
	snprintf(path, sizeof(path), "%s/arena", fixture->dir);
	fd = open(path, O_RDONLY);
	assert_int_equal(read(fd, &superblock, sizeof(superblock)),
			 sizeof(superblock));
	close(fd);
	superblock.version = le32_put(ARENA_FORMAT_VERSION + 1);
	superblock.checksum = le64_put(checksum_bytes(
		&superblock, offsetof(struct arena_superblock, checksum), 0));
	write_at(fixture, "arena", 0, &superblock, sizeof(superblock));
	assert_int_equal(find_pages(fixture, &shelf, ARENA_FRESH), 0);
}

static void damage_costs_what_it_touches(void **state)
{
	static const struct {
		const char *what;
		const char *file;
		off_t offset; /* of a byte that is overwritten, or -1 */
		off_t length; /* what the file is cut to, or -1 */
		int outcome;
		unsigned right;
	} rows[] = {
		{"nothing", "arena", 4000, -1, ARENA_FRESH, 0},
		{"magic", "arena", 0, -1, ARENA_FRESH, 0},
		{"size", "arena", 17, -1, ARENA_FRESH, 0},
		{"checksum", "arena", 40, -1, ARENA_FRESH, 0},
		{"superblock cut", "arena", -1, 100, ARENA_FRESH, 0},
		{"superblock empty", "arena", -1, 0, ARENA_FRESH, 0},
		{"records cut", "arena", -1, 4096, ARENA_KEPT, 0},
		{"record 0", "arena", 4096 + 9, -1, ARENA_KEPT, 4},
		{"record 1", "arena", 4096 + 64 + 30, -1, ARENA_KEPT, 4},
		{"record 7's state", "arena", 4096 + 7 * 64, -1, ARENA_KEPT, 8},
		{"header's tag", "h0000", 0, -1, ARENA_KEPT, 7},
		{"header's clock", "h0001", 17, -1, ARENA_KEPT, 7},
		{"header's length", "h0001", 39, -1, ARENA_KEPT, 7},
		{"headers cut", "h0000", -1, 64, ARENA_KEPT, 4},
		{"slot cut", "r0000.0002", -1, 4096, ARENA_KEPT, 7},
		{"slot longer", "r0000.0002", -1, KIB(512) + 1, ARENA_KEPT, 7},
		{"slots cut", "r0001", -1, 4096, ARENA_KEPT, 4},
	};
	struct arena_fixture *fixture = *state;
	struct shelf shelf;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		unsigned right;

		leave_pages(fixture, &shelf);
		if (rows[i].offset >= 0)
			write_at(fixture, rows[i].file, rows[i].offset, "\x5a",
				 1);
		else
			cut(fixture, rows[i].file, rows[i].length);
		right = find_pages(fixture, &shelf, rows[i].outcome);
		if (right != rows[i].right)
			fail_msg("%s: %u pages", rows[i].what, right);
	}
}

static void a_sparse_slot_is_gone_not_a_signal(void **state)
{
	struct arena_fixture *fixture = *state;
	struct shelf shelf;

	leave_pages(fixture, &shelf);
	cut(fixture, "r0000.0001", 0);
	cut(fixture, "r0000.0001", KIB(512));
	cut(fixture, "r0001", 0);
	cut(fixture, "r0001", 63 * KIB(64));
	assert_int_equal(find_pages(fixture, &shelf, ARENA_KEPT), 3);
}

static void files_that_are_not_ours_are_left_alone(void **state)
{
	static const char *const names[] = {"data.mdb",	   "r00",
					    "h00001",	   "r0000.00",
					    "r0000.00000", "rabbit"};
	struct arena_fixture *fixture = *state;
	struct shelf shelf;
	char path[96];

	for (unsigned i = 0; i < 6; i++) {
		snprintf(path, sizeof(path), "%s/%s", fixture->dir, names[i]);
		close(open(path, O_CREAT | O_WRONLY, 0600));
	}
	snprintf(path, sizeof(path), "%s/r0003.0001", fixture->dir);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	leave_pages(fixture, &shelf);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_equal(arena_open(&fixture->config, &fixture->arena),
			 ARENA_KEPT);
	arena_close(fixture->arena, false);
	fixture->arena = NULL;
	assert_int_equal(arena_fixture_files(fixture), 6);
}

static void another_size_empties_the_arena(void **state)
{
	struct arena_fixture *fixture = *state;
	struct shelf shelf;

	leave_pages(fixture, &shelf);
	fixture->config.bytes = MIB(64);
	assert_int_equal(find_pages(fixture, &shelf, ARENA_FRESH), 0);
}

static int disarm_and_teardown(void **state)
{
	struct arena_fixture *fixture = *state;

	fault_disarm_all();
	arena_close(fixture->arena, false);
	fixture->arena = NULL;
	umount(fixture->dir);
	return arena_fixture_teardown(state);
}

#define CLOSED(test)                                                           \
	cmocka_unit_test_setup_teardown(test, arena_fixture_setup_closed,      \
					disarm_and_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CLOSED(any_failing_call_costs_pages_and_nothing_else),
		CLOSED(a_class_works_again_after_its_calls_have_failed),
		CLOSED(a_full_file_system_is_an_error_and_no_signal),
		CLOSED(a_file_system_without_room_for_the_first_block_is_said_at_once),
		CLOSED(a_superblock_of_a_newer_version_empties_the_arena),
		CLOSED(damage_costs_what_it_touches),
		CLOSED(a_sparse_slot_is_gone_not_a_signal),
		CLOSED(files_that_are_not_ours_are_left_alone),
		CLOSED(another_size_empties_the_arena),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
