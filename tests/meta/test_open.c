/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "meta/internal.h"
#include "tests/meta/scratch.h"

#define PAGES 2000

static void fill(struct scratch *s, unsigned from, unsigned to)
{
	struct meta_txn *txn = scratch_write(s);
	char name[32], value[8000] = "";

	for (unsigned i = from; i < to; i++) {
		snprintf(name, sizeof(name), "page-%u", i);
		scratch_put(txn, META_ROOT, name, i + 10, i + 1);
	}
	assert_int_equal(
		meta_attr_put(txn, from + 10, "user.x", 6, value, 8000), 0);
	scratch_commit(txn);
}

static bool has_page(struct scratch *s, unsigned i)
{
	struct meta_txn *txn = scratch_read(s);
	struct meta_entry entry;
	char name[32];
	int len = snprintf(name, sizeof(name), "page-%u", i);
	int rc = meta_name_get(txn, META_ROOT, name, (size_t)len, &entry);

	meta_abort(txn);
	assert_true(rc >= 0);
	return rc == 0;
}

static bool has_memory_chunk(struct scratch *s, unsigned i)
{
	struct meta_txn *txn = scratch_read(s);
	struct meta_chunk chunk;
	int rc = meta_chunk_get(txn, META_MEMORY, i + 10, 0, i + 1, &chunk);

	meta_abort(txn);
	return rc == 0;
}

/* Runs `what` in a process that ends without closing anything. */
static void in_process_that_is_killed(struct scratch *s,
				      void (*what)(struct scratch *s))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		what(s);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void open_and_fill(struct scratch *s)
{
	scratch_open(s);
	fill(s, 0, PAGES);
}

/* Replaces the first `from` in the state file. */
static void edit_state(struct scratch *s, bool disk, const char *from,
		       const char *to)
{
	char path[SCRATCH_PATH * 2], text[512] = "", edited[512];
	FILE *file;
	char *at;
	size_t got;

	scratch_path(s, disk, "state", path);
	file = fopen(path, "r");
	assert_non_null(file);
	got = fread(text, 1, sizeof(text) - 1, file);
	assert_true(got > 0);
	fclose(file);
	at = strstr(text, from);
	assert_non_null(at);
	snprintf(edited, sizeof(edited), "%.*s%s%s", (int)(at - text), text, to,
		 at + strlen(from));
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(edited, file);
	fclose(file);
}

static unsigned count_kept(struct scratch *s)
{
	DIR *stream = opendir(s->disk);
	struct dirent *d;
	unsigned count = 0;

	assert_non_null(stream);
	while ((d = readdir(stream)) != NULL)
		count += strncmp(d->d_name, "index.damaged-", 14) == 0;
	closedir(stream);
	return count;
}

static void a_killed_process_leaves_a_whole_index(void **state)
{
	struct scratch *s = *state;

	in_process_that_is_killed(s, open_and_fill);
	assert_int_equal(scratch_open(s), 0);
	assert_true(has_page(s, 0));
	assert_true(has_page(s, PAGES - 1));
	assert_true(has_memory_chunk(s, 7));
	fill(s, PAGES, PAGES + 10);
}

static void another_boot_without_a_close_is_not_trusted(void **state)
{
	struct scratch *s = *state;
	char boot[40];

	in_process_that_is_killed(s, open_and_fill);
	state_boot_id(boot);
	edit_state(s, true, boot, "00000000-1111-2222-3333-444444444444");
	assert_int_equal(scratch_open(s), META_REBUILD);
	assert_false(has_page(s, 0));
	/* Its numbers would mean other pages. */
	assert_false(has_memory_chunk(s, 7));
	assert_int_equal(count_kept(s), 1);
}

static void another_boot_after_a_close_is_trusted(void **state)
{
	struct scratch *s = *state;
	char boot[40];

	open_and_fill(s);
	scratch_close(s);
	state_boot_id(boot);
	edit_state(s, true, boot, "00000000-1111-2222-3333-444444444444");
	assert_int_equal(scratch_open(s), 0);
	assert_true(has_page(s, 0));
}

static void a_rebuild_that_was_not_finished_begins_again(void **state)
{
	struct scratch *s = *state;
	struct meta_config config = {.memory_dir = s->memory,
				     .disk_dir = s->disk};

	for (int i = 0; i < 3; i++) {
		assert_int_equal(meta_open(&config, &s->meta), META_REBUILD);
		assert_false(has_page(s, 0));
		fill(s, 0, 10);
		scratch_close(s);
	}
	assert_int_equal(count_kept(s), 0);
	assert_int_equal(scratch_open(s), META_REBUILD);
	fill(s, 0, 10);
	scratch_close(s);
	assert_int_equal(scratch_open(s), 0);
	assert_true(has_page(s, 0));
}

static void a_newer_state_is_refused_and_left_alone(void **state)
{
	struct scratch *s = *state;

	open_and_fill(s);
	scratch_close(s);
	edit_state(s, true, "pagefs-index 1", "pagefs-index 2");
	assert_int_equal(scratch_open(s), -EPROTO);
	edit_state(s, true, "pagefs-index 2", "pagefs-index 1");
	assert_int_equal(scratch_open(s), 0);
	assert_true(has_page(s, 0));
}

static void newer_tables_are_refused_and_left_alone(void **state)
{
	struct scratch *s = *state;
	uint8_t newer[4] = {META_FORMAT + 1}, ours[4] = {META_FORMAT};
	struct meta_txn *txn;

	open_and_fill(s);
	txn = scratch_write(s);
	assert_int_equal(meta_value_put(txn, "meta.format", newer, 4), 0);
	scratch_commit(txn);
	scratch_close(s);
	for (int i = 0; i < 2; i++)
		assert_int_equal(scratch_open(s), -EPROTO);
	assert_int_equal(count_kept(s), 0);
	(void)ours;
}

static void a_missing_or_garbled_state_is_not_trusted(void **state)
{
	static const char *const texts[] = {
		NULL, "", "pagefs-index", "pagefs-index 1\nboot x\nclean 7\n"};
	struct scratch *s = *state;
	char path[SCRATCH_PATH * 2];

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		FILE *file;

		assert_int_equal(scratch_open(s), META_REBUILD);
		fill(s, 0, 10);
		scratch_close(s);
		scratch_path(s, true, "state", path);
		assert_int_equal(unlink(path), 0);
		if (texts[i] != NULL) {
			file = fopen(path, "w");
			assert_non_null(file);
			fputs(texts[i], file);
			fclose(file);
		}
		assert_int_equal(scratch_open(s), META_REBUILD);
		assert_int_equal(count_kept(s), 1);
		scratch_close(s);
		assert_int_equal(unlink(path), 0);
	}
}

/* ---- damage ---- */

struct damage {
	const char *what;
	void (*make)(const char *path, uint64_t bytes, uint64_t *random);
	bool found; /* surely; else: either it is, or it does no harm */
};

static void no_magic(const char *path, uint64_t bytes, uint64_t *random)
{
	(void)bytes;
	(void)random;
	scratch_file_write(path, 16, "\0\0\0\0", 4);
}

static void zero_meta_pages(const char *path, uint64_t bytes, uint64_t *random)
{
	static const char zeros[8192];

	(void)bytes;
	(void)random;
	scratch_file_write(path, 0, zeros, sizeof(zeros));
}

static void no_page_size(const char *path, uint64_t bytes, uint64_t *random)
{
	(void)bytes;
	(void)random;
	scratch_file_write(path, 40, "\0\0\0\0", 4);
	scratch_file_write(path, 4096 + 40, "\0\0\0\0", 4);
}

static void wild_roots(const char *path, uint64_t bytes, uint64_t *random)
{
	(void)bytes;
	(void)random;
	scratch_file_write(path, 80, "\1\2\3\4\5\6\7\0", 8);
	scratch_file_write(path, 128, "\1\2\3\4\5\6\7\0", 8);
	scratch_file_write(path, 4096 + 80, "\1\2\3\4\5\6\7\0", 8);
	scratch_file_write(path, 4096 + 128, "\1\2\3\4\5\6\7\0", 8);
}

static void cut_to_nothing(const char *path, uint64_t bytes, uint64_t *random)
{
	(void)bytes;
	(void)random;
	assert_int_equal(truncate(path, 0), 0);
}

static void cut_in_half(const char *path, uint64_t bytes, uint64_t *random)
{
	(void)random;
	assert_int_equal(truncate(path, (off_t)(bytes / 2)), 0);
}

static void cut_somewhere(const char *path, uint64_t bytes, uint64_t *random)
{
	assert_int_equal(
		truncate(path, (off_t)(scratch_random(random) % bytes)), 0);
}

static void zero_all_pages(const char *path, uint64_t bytes, uint64_t *random)
{
	static const char zeros[4096];

	(void)random;
	for (uint64_t at = 8192; at < bytes; at += 4096)
		scratch_file_write(path, at, zeros, 4096);
}

static void flip_bytes(const char *path, uint64_t bytes, uint64_t *random)
{
	for (int i = 0; i < 20; i++) {
		uint8_t byte = (uint8_t)scratch_random(random);

		scratch_file_write(path, scratch_random(random) % bytes, &byte,
				   1);
	}
}

static void flip_page_headers(const char *path, uint64_t bytes,
			      uint64_t *random)
{
	for (int i = 0; i < 10; i++) {
		uint64_t page = scratch_random(random) % (bytes / 4096);
		uint64_t noise = scratch_random(random);

		scratch_file_write(path,
				   page * 4096 + scratch_random(random) % 32,
				   &noise, scratch_random(random) % 8 + 1);
	}
}

static void garbage_page(const char *path, uint64_t bytes, uint64_t *random)
{
	uint64_t page[512];

	for (int i = 0; i < 512; i++)
		page[i] = scratch_random(random);
	scratch_file_write(path, scratch_random(random) % (bytes / 4096) * 4096,
			   page, 4096);
}

static const struct damage damages[] = {
	{"no magic", no_magic, true},
	{"meta pages of zeros", zero_meta_pages, true},
	{"no page size", no_page_size, true},
	{"wild roots", wild_roots, true},
	{"cut to nothing", cut_to_nothing, true},
	{"cut in half", cut_in_half, true},
	{"cut somewhere", cut_somewhere, false},
	{"pages of zeros", zero_all_pages, true},
	{"flipped bytes", flip_bytes, false},
	{"flipped page headers", flip_page_headers, false},
	{"a page of garbage", garbage_page, false},
};

/* Whatever is still there can be used: in a process of its own, for LMDB may
 * crash where the walk's few seconds or checks did not reach. */
static void use_it(struct scratch *s)
{
	for (unsigned i = 0; i < PAGES; i += 7)
		has_page(s, i);
	fill(s, PAGES, PAGES + 100);
	assert_true(has_page(s, PAGES));
}

static void damage_once(struct scratch *s, const struct damage *damage,
			bool disk, bool closed, uint64_t *random)
{
	char path[SCRATCH_PATH * 2];
	int rc;

	if (closed) {
		open_and_fill(s);
		scratch_close(s);
	} else {
		in_process_that_is_killed(s, open_and_fill);
	}
	scratch_path(s, disk, "data.mdb", path);
	damage->make(path, scratch_file_bytes(path), random);
	rc = scratch_open(s);
	if (damage->found && disk)
		assert_int_equal(rc, META_REBUILD);
	else if (damage->found)
		assert_false(has_memory_chunk(s, 3));
	assert_true(rc == 0 || rc == META_REBUILD);
	if (rc == META_REBUILD)
		assert_false(has_page(s, 0));
	use_it(s);
	scratch_close(s);
	/* For the next round. */
	scratch_path(s, true, "state", path);
	assert_int_equal(unlink(path), 0);
	assert_in_range(count_kept(s), 0, 1);
}

static void a_damaged_disk_index_is_rebuilt(void **state)
{
	uint64_t random = 7;

	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		int rounds = damages[i].found ? 1 : 10;

		for (int round = 0; round < rounds; round++)
			for (int closed = 0; closed < 2; closed++)
				damage_once(*state, &damages[i], true,
					    closed == 1, &random);
	}
}

static void a_damaged_memory_index_is_emptied(void **state)
{
	uint64_t random = 8;

	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		int rounds = damages[i].found ? 1 : 10;

		for (int round = 0; round < rounds; round++)
			damage_once(*state, &damages[i], false, round & 1,
				    &random);
	}
}

static void a_damaged_lock_file_does_no_harm(void **state)
{
	struct scratch *s = *state;
	char path[SCRATCH_PATH * 2];
	static const char garbage[64] = "garbage";

	open_and_fill(s);
	scratch_close(s);
	scratch_path(s, true, "lock.mdb", path);
	scratch_file_write(path, 0, garbage, sizeof(garbage));
	assert_int_equal(scratch_open(s), 0);
	assert_true(has_page(s, 0));
	scratch_close(s);
	assert_int_equal(truncate(path, 3), 0);
	assert_int_equal(scratch_open(s), 0);
	use_it(s);
}

static void damage_found_in_use_is_an_error_and_then_a_rebuild(void **state)
{
	struct scratch *s = *state;
	char path[SCRATCH_PATH * 2];
	struct meta_entry entry = scratch_entry(5, 5);
	struct meta_txn *txn;
	int bad = 0;

	open_and_fill(s);
	scratch_path(s, true, "data.mdb", path);
	zero_all_pages(path, scratch_file_bytes(path), NULL);
	for (int i = 0; i < 3; i++) {
		txn = scratch_read(s);
		bad += meta_name_get(txn, META_ROOT, "page-1", 6, &entry) < 0;
		meta_abort(txn);
		if (meta_begin_write(s->meta, &txn) != 0)
			continue;
		bad += meta_name_put(txn, META_ROOT, "page-1", 6, &entry) < 0;
		bad += meta_commit(txn) < 0;
	}
	assert_true(bad > 0);
	scratch_close(s);
	assert_int_equal(scratch_open(s), META_REBUILD);
	use_it(s);
}

/* ---- the two environments ---- */

static void a_fresh_arena_forgets_memory_only(void **state)
{
	struct scratch *s = *state;
	struct meta_config config = {.memory_dir = s->memory,
				     .disk_dir = s->disk,
				     .memory_fresh = true};

	open_and_fill(s);
	scratch_close(s);
	assert_int_equal(meta_open(&config, &s->meta), 0);
	assert_true(has_page(s, 0));
	assert_false(has_memory_chunk(s, 7));
}

static void memory_of_another_disk_is_forgotten(void **state)
{
	struct scratch *s = *state;
	char command[SCRATCH_PATH * 3];

	open_and_fill(s);
	scratch_close(s);
	snprintf(command, sizeof(command), "rm -r '%s/index'", s->disk);
	assert_int_equal(system(command), 0);
	assert_int_equal(scratch_open(s), META_REBUILD);
	assert_false(has_memory_chunk(s, 7));
	fill(s, 0, 10);
	scratch_close(s);
	assert_int_equal(scratch_open(s), 0);
	assert_true(has_memory_chunk(s, 7));
	scratch_close(s);
	/* And when the disk tier is taken away, or comes back. */
	assert_int_equal(scratch_open_memory(s), 0);
	assert_false(has_memory_chunk(s, 7));
	fill(s, 0, 10);
	scratch_close(s);
	assert_int_equal(scratch_open_memory(s), 0);
	assert_true(has_page(s, 7));
	scratch_close(s);
	assert_int_equal(scratch_open(s), 0);
	assert_false(has_memory_chunk(s, 7));
}

static void a_directory_that_is_not_there_is_an_error(void **state)
{
	struct scratch *s = *state;
	struct meta_config config = {.memory_dir = s->memory,
				     .disk_dir = "/nowhere/at/all"};

	assert_int_equal(meta_open(&config, &s->meta), -ENOENT);
	s->meta = NULL;
}

int main(void)
{
#define T(test)                                                                \
	cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)
	const struct CMUnitTest tests[] = {
		T(a_killed_process_leaves_a_whole_index),
		T(another_boot_without_a_close_is_not_trusted),
		T(another_boot_after_a_close_is_trusted),
		T(a_rebuild_that_was_not_finished_begins_again),
		T(a_newer_state_is_refused_and_left_alone),
		T(newer_tables_are_refused_and_left_alone),
		T(a_missing_or_garbled_state_is_not_trusted),
		T(a_damaged_disk_index_is_rebuilt),
		T(a_damaged_memory_index_is_emptied),
		T(a_damaged_lock_file_does_no_harm),
		T(damage_found_in_use_is_an_error_and_then_a_rebuild),
		T(a_fresh_arena_forgets_memory_only),
		T(memory_of_another_disk_is_forgotten),
		T(a_directory_that_is_not_there_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
