/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/mountpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <mntent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/lib/strbuf.h"

/* A table of mounts of our own, over directories that are really there. */
static char root[64], table[128];

FILE *__real_setmntent(const char *path, const char *mode);
FILE *__wrap_setmntent(const char *path, const char *mode);
FILE *__wrap_setmntent(const char *path, const char *mode)
{
	(void)path;
	return __real_setmntent(table, mode);
}

static void make(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	assert_int_equal(mkdir(path, 0755), 0);
}

static void add_mount(const char *name, const char *type)
{
	FILE *file = fopen(table, "a");

	assert_non_null(file);
	fprintf(file, "none %s%s %s rw 0 0\n", root, name, type);
	fclose(file);
}

static int set_up(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/pagefs-test.XXXXXX");
	if (!mkdtemp(root))
		return -1;
	snprintf(table, sizeof(table), "%s/table", root);
	make("kv");
	make("kv/model");
	make("kv/other");
	make("kvx");
	make("a b");
	add_mount("", "ext4");
	add_mount("/kv", "fuse.pagefs");
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *where)
{
	(void)st, (void)type, (void)where;
	return remove(path);
}

static int tear_down(void **state)
{
	(void)state;
	return nftw(root, remove_one, 16, FTW_PHYS | FTW_DEPTH);
}

/* Looks `name` below root up: the key, or NULL and *ret_error. */
static const char *key_of(const char *name, int *ret_error)
{
	static struct mountpoint found;
	char path[PATH_MAX], mount[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	snprintf(mount, sizeof(mount), "%s/kv", root);
	*ret_error = mountpoint_find(path, &found);
	if (*ret_error)
		return NULL;
	assert_string_equal(found.path, mount);
	return found.key;
}

static void the_key_is_what_follows_the_mount(void **state)
{
	static const struct {
		const char *path, *key;
	} rows[] = {
		{"kv", ""},
		{"kv/", ""},
		{"kv/.", ""},
		{"kv/model/..", ""},
		{"kv/model", "model"},
		{"kv/model/", "model"},
		{"kv/model/page", "model/page"},
		{"kv//model///page", "model/page"},
		{"kv/./model/../model/page", "model/page"},
		{"kvx/../kv/page", "page"},
		{"kv/not/there/yet", "not/there/yet"},
		{"kv/not//there//", "not/there"},
	};
	int error;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *key = key_of(rows[i].path, &error);

		if (!key)
			print_error("%s: %d\n", rows[i].path, error);
		assert_int_equal(error, 0);
		assert_string_equal(key, rows[i].key);
	}
}

static void paths_beside_the_mount_are_not_in_it(void **state)
{
	const char *const rows[] = {"",	     ".",   "kvx",
				    "kvx/a", "kv2", "kv/missing/../page"};
	int error;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_null(key_of(rows[i], &error));
		assert_int_equal(error, -ENOENT);
	}
}

static void a_relative_path_starts_at_the_current_directory(void **state)
{
	char path[PATH_MAX], old[PATH_MAX];
	struct mountpoint found;

	(void)state;
	assert_non_null(getcwd(old, sizeof(old)));
	snprintf(path, sizeof(path), "%s/kv/model", root);
	assert_int_equal(chdir(path), 0);
	assert_int_equal(mountpoint_find("page", &found), 0);
	assert_string_equal(found.key, "model/page");
	assert_int_equal(mountpoint_find("new/page", &found), 0);
	assert_string_equal(found.key, "model/new/page");
	assert_int_equal(mountpoint_find(".", &found), 0);
	assert_string_equal(found.key, "model");
	assert_int_equal(mountpoint_find("..", &found), 0);
	assert_string_equal(found.key, "");
	assert_int_equal(chdir(old), 0);
}

static void
a_link_in_the_mount_is_a_key_and_one_outside_is_followed(void **state)
{
	char from[PATH_MAX], to[PATH_MAX];
	int error;

	(void)state;
	snprintf(from, sizeof(from), "%s/kv/link", root);
	assert_int_equal(symlink("/etc", from), 0);
	snprintf(from, sizeof(from), "%s/door", root);
	snprintf(to, sizeof(to), "%s/kv", root);
	assert_int_equal(symlink(to, from), 0);
	assert_string_equal(key_of("kv/link", &error), "link");
	assert_string_equal(key_of("door", &error), "");
	assert_string_equal(key_of("door/model/page", &error), "model/page");
}

static void what_is_mounted_over_a_part_of_the_mount_is_not_ours(void **state)
{
	int error;

	(void)state;
	add_mount("/kv/other", "tmpfs");
	assert_null(key_of("kv/other/page", &error));
	assert_int_equal(error, -ENOENT);
	assert_string_equal(key_of("kv/model/page", &error), "model/page");
}

static void of_two_mounts_at_one_place_the_upper_one_counts(void **state)
{
	int error;

	(void)state;
	add_mount("/kv", "tmpfs");
	assert_null(key_of("kv/page", &error));
	add_mount("/kv", "fuse.pagefs");
	assert_string_equal(key_of("kv/page", &error), "page");
}

static void a_mount_with_a_blank_in_its_name_is_found(void **state)
{
	struct mountpoint found;
	char path[PATH_MAX];

	(void)state;
	add_mount("/a\\040b", "fuse.pagefs");
	snprintf(path, sizeof(path), "%s/a b/page", root);
	assert_int_equal(mountpoint_find(path, &found), 0);
	assert_string_equal(found.key, "page");
}

static void the_only_mount_needs_no_name(void **state)
{
	struct mountpoint found;
	char path[PATH_MAX];

	(void)state;
	snprintf(path, sizeof(path), "%s/kv", root);
	assert_int_equal(mountpoint_only(&found), 0);
	assert_string_equal(found.path, path);
	add_mount("/kv", "fuse.pagefs"); /* over a dead one: still one */
	assert_int_equal(mountpoint_only(&found), 0);
	add_mount("/kvx", "fuse.pagefs");
	assert_int_equal(mountpoint_only(&found), -E2BIG);
	assert_int_equal(unlink(table), 0);
	add_mount("", "ext4");
	assert_int_equal(mountpoint_only(&found), -ENOENT);
}

static void a_path_of_two_thousand_missing_directories_is_a_key(void **state)
{
	static struct mountpoint found;
	char path[PATH_MAX];
	size_t len;

	(void)state;
	len = (size_t)snprintf(path, sizeof(path), "%s/kv", root);
	while (len + 3 < sizeof(path)) {
		memcpy(path + len, "/a", 3);
		len += 2;
	}
	assert_int_equal(mountpoint_find(path, &found), 0);
	assert_int_equal(strlen(found.key), len - strlen(root) - 4);
}

static void a_path_that_is_too_long_is_refused(void **state)
{
	static struct mountpoint found;
	static char path[2 * PATH_MAX];
	int error;

	(void)state;
	memset(path, 'x', sizeof(path) - 1);
	assert_int_equal(mountpoint_find(path, &found), -ENAMETOOLONG);
	path[PATH_MAX - 2] = '\0'; /* fits, until it is made absolute */
	error = mountpoint_find(path, &found);
	assert_int_equal(error, -ENAMETOOLONG);
}

static void control_files_are_read_whole_and_written_at_once(void **state)
{
	struct mountpoint mountpoint = {.key = ""};
	struct strbuf text;

	(void)state;
	make("kv/.pagefs");
	snprintf(mountpoint.path, sizeof(mountpoint.path), "%s/kv", root);
	strbuf_init(&text, 0);
	assert_int_equal(mountpoint_read(&mountpoint, "stats", &text), -ENOENT);
	assert_int_equal(mountpoint_write(&mountpoint, "stats", "x"), -ENOENT);
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/.pagefs/stats", mountpoint.path);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(mountpoint_write(&mountpoint, "stats", "a key"), 0);
	assert_int_equal(mountpoint_read(&mountpoint, "stats", &text), 0);
	assert_string_equal(strbuf_text(&text), "a key");
	strbuf_release(&text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_key_is_what_follows_the_mount),
		TEST(paths_beside_the_mount_are_not_in_it),
		TEST(a_relative_path_starts_at_the_current_directory),
		TEST(a_link_in_the_mount_is_a_key_and_one_outside_is_followed),
		TEST(what_is_mounted_over_a_part_of_the_mount_is_not_ours),
		TEST(of_two_mounts_at_one_place_the_upper_one_counts),
		TEST(a_mount_with_a_blank_in_its_name_is_found),
		TEST(the_only_mount_needs_no_name),
		TEST(a_path_of_two_thousand_missing_directories_is_a_key),
		TEST(a_path_that_is_too_long_is_refused),
		TEST(control_files_are_read_whole_and_written_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
