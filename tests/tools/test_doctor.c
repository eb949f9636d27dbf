/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/doctor.h"

#include <ftw.h>
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

/* A host that is made up: files below a directory, and struct doctor. */
struct host {
	char root[64];
	struct doctor doctor;
	struct finding finding;
};

static void put(const struct host *host, const char *path, const char *text)
{
	char whole[4096];
	FILE *file;

	snprintf(whole, sizeof(whole), "%s%s", host->root, path);
	for (char *at = whole + strlen(host->root) + 1; (at = strchr(at, '/'));
	     at++) {
		*at = '\0';
		mkdir(whole, 0755);
		*at = '/';
	}
	file = fopen(whole, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int set_up(void **state)
{
	struct host *host = calloc(1, sizeof(*host));

	if (!host)
		return -1;
	snprintf(host->root, sizeof(host->root), "/tmp/pagefs-test.XXXXXX");
	if (!mkdtemp(host->root))
		return -1;
	host->doctor = (struct doctor){
		.root = host->root,
		.disk = host->root,
		.memory_bytes = UINT64_C(1) << 30,
		.is_root = true,
		.capabilities = UINT64_MAX,
		.kernel = doctor_kernel(6, 18),
		.memlock_bytes = UINT64_MAX,
		.open_files = 1048576,
		.page_bytes = 4096,
	};
	*state = host;
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
	struct host *host = *state;
	int error = nftw(host->root, remove_one, 16, FTW_PHYS | FTW_DEPTH);

	free(host);
	return error;
}

static enum doctor_outcome check(struct host *host, const char *name)
{
	const struct doctor_check *const groups[] = {
		doctor_fuse_checks, doctor_io_checks, doctor_limit_checks,
		doctor_space_checks};

	for (size_t i = 0; i < 4; i++)
		for (const struct doctor_check *c = groups[i]; c->name; c++)
			if (!strcmp(c->name, name)) {
				c->run(&host->doctor, &host->finding);
				return host->finding.outcome;
			}
	fail_msg("there is no check '%s'", name);
	return DOCTOR_FAIL;
}

static void says(const struct host *host, const char *part)
{
	if (!strstr(host->finding.found, part) &&
	    !strstr(host->finding.mend, part))
		fail_msg("'%s' is neither in '%s' nor in '%s'", part,
			 host->finding.found, host->finding.mend);
}

static void without_the_device_nothing_works(void **state)
{
	struct host *host = *state;

	assert_int_equal(check(host, "fuse device"), DOCTOR_FAIL);
	says(host, "modprobe fuse");
	put(host, "/dev/fuse", "");
	assert_int_equal(check(host, "fuse device"), DOCTOR_OK);
}

static void old_kernels_lose_a_feature_each(void **state)
{
	struct host *host = *state;

	put(host, "/sys/module/fuse/parameters/enable_uring", "Y\n");
	assert_int_equal(check(host, "shared mmap"), DOCTOR_OK);
	assert_int_equal(check(host, "passthrough"), DOCTOR_OK);
	assert_int_equal(check(host, "fuse io_uring"), DOCTOR_OK);
	host->doctor.kernel = doctor_kernel(6, 13);
	assert_int_equal(check(host, "fuse io_uring"), DOCTOR_WARN);
	assert_int_equal(check(host, "passthrough"), DOCTOR_OK);
	host->doctor.kernel = doctor_kernel(6, 8);
	assert_int_equal(check(host, "passthrough"), DOCTOR_WARN);
	assert_int_equal(check(host, "shared mmap"), DOCTOR_OK);
	host->doctor.kernel = doctor_kernel(5, 15);
	assert_int_equal(check(host, "shared mmap"), DOCTOR_WARN);
	says(host, "6.6");
}

static void passthrough_needs_a_capability(void **state)
{
	struct host *host = *state;

	host->doctor.capabilities = 0;
	assert_int_equal(check(host, "passthrough"), DOCTOR_WARN);
	says(host, "CAP_SYS_ADMIN");
}

static void fuse_over_io_uring_must_be_switched_on(void **state)
{
	struct host *host = *state;

	assert_int_equal(check(host, "fuse io_uring"), DOCTOR_WARN);
	put(host, "/sys/module/fuse/parameters/enable_uring", "N\n");
	assert_int_equal(check(host, "fuse io_uring"), DOCTOR_WARN);
	says(host, "echo Y");
}

static void user_allow_other_counts_where_it_is_a_line(void **state)
{
	struct host *host = *state;

	assert_int_equal(check(host, "allow_other"), DOCTOR_OK);
	host->doctor.is_root = false;
	assert_int_equal(check(host, "allow_other"), DOCTOR_WARN);
	put(host, "/etc/fuse.conf", "# user_allow_other\nmount_max = 3\n");
	assert_int_equal(check(host, "allow_other"), DOCTOR_WARN);
	put(host, "/etc/fuse.conf", "user_allow_others\n");
	assert_int_equal(check(host, "allow_other"), DOCTOR_WARN);
	put(host, "/etc/fuse.conf", "mount_max = 3\n user_allow_other");
	assert_int_equal(check(host, "allow_other"), DOCTOR_OK);
	put(host, "/etc/fuse.conf", "user_allow_other\n");
	assert_int_equal(check(host, "allow_other"), DOCTOR_OK);
}

static void only_machines_with_pages_of_4_kib_will_do(void **state)
{
	struct host *host = *state;

	assert_int_equal(check(host, "page size"), DOCTOR_OK);
	host->doctor.page_bytes = 65536;
	assert_int_equal(check(host, "page size"), DOCTOR_FAIL);
	says(host, "64 KiB");
}

static void memlock_must_hold_the_memory_tier(void **state)
{
	struct host *host = *state;

	assert_int_equal(check(host, "memlock"), DOCTOR_OK);
	host->doctor.memlock_bytes = 65536;
	assert_int_equal(check(host, "memlock"), DOCTOR_OK);
	host->doctor.capabilities = 0;
	assert_int_equal(check(host, "memlock"), DOCTOR_WARN);
	says(host, "64.0 KiB may be locked");
	host->doctor.memlock_bytes = host->doctor.memory_bytes;
	assert_int_equal(check(host, "memlock"), DOCTOR_OK);
}

static void few_open_files_are_warned_of_and_very_few_fail(void **state)
{
	struct host *host = *state;

	assert_int_equal(check(host, "open files"), DOCTOR_OK);
	host->doctor.open_files = 1024;
	assert_int_equal(check(host, "open files"), DOCTOR_WARN);
	host->doctor.open_files = 64;
	assert_int_equal(check(host, "open files"), DOCTOR_FAIL);
}

static void mappings_must_be_enough_for_a_file_a_slot(void **state)
{
	struct host *host = *state;

	assert_int_equal(check(host, "mappings"), DOCTOR_WARN);
	put(host, "/proc/sys/vm/max_map_count", "65530\n");
	assert_int_equal(check(host, "mappings"), DOCTOR_OK);
	host->doctor.memory_bytes = UINT64_C(64) << 30;
	assert_int_equal(check(host, "mappings"), DOCTOR_WARN);
	says(host, "vm.max_map_count=524288");
}

static void huge_pages_depend_on_who_asks(void **state)
{
	struct host *host = *state;
	const char *const file =
		"/sys/kernel/mm/transparent_hugepage/shmem_enabled";

	assert_int_equal(check(host, "huge pages"), DOCTOR_WARN);
	put(host, file, "always within_size advise [never] deny force\n");
	assert_int_equal(check(host, "huge pages"), DOCTOR_OK);
	put(host, file, "always within_size advise never [deny] force\n");
	assert_int_equal(check(host, "huge pages"), DOCTOR_WARN);
	put(host, file, "always within_size advise [never] deny force\n");
	host->doctor.capabilities = 0;
	assert_int_equal(check(host, "huge pages"), DOCTOR_WARN);
	says(host, "remount,huge=within_size");
	put(host, "/proc/self/mounts",
	    "tmpfs /dev/shm tmpfs rw,huge=within_size 0 0\n");
	assert_int_equal(check(host, "huge pages"), DOCTOR_OK);
	put(host, "/proc/self/mounts",
	    "tmpfs /dev/shm tmpfs rw,huge=never 0 0\n");
	assert_int_equal(check(host, "huge pages"), DOCTOR_WARN);
}

static void a_disk_directory_need_not_exist_yet(void **state)
{
	struct host *host = *state;
	char path[128];

	snprintf(path, sizeof(path), "%s/a/b/c", host->root);
	host->doctor.disk = path;
	check(host, "disk");
	says(host, host->root);
	assert_int_equal(access(path, F_OK), -1);
	host->doctor.disk = "none";
	assert_int_equal(check(host, "disk"), DOCTOR_OK);
	assert_int_equal(check(host, "direct I/O"), DOCTOR_OK);
}

static void a_disk_directory_that_can_not_be_made_fails(void **state)
{
	struct host *host = *state;

	host->doctor.disk = "/proc/pagefs";
	assert_int_equal(check(host, "disk"), DOCTOR_FAIL);
	says(host, "--disk");
}

static void the_memory_tier_must_fit(void **state)
{
	struct host *host = *state;

	assert_int_equal(check(host, "memory"), DOCTOR_FAIL);
	put(host, "/proc/meminfo",
	    "MemTotal: 8000000 kB\nMemAvailable: 2000000 kB\n");
	assert_int_equal(check(host, "memory"), DOCTOR_OK);
	put(host, "/proc/meminfo",
	    "MemTotal: 8000000 kB\nMemAvailable: 20000 kB\n");
	assert_int_equal(check(host, "memory"), DOCTOR_WARN);
	put(host, "/proc/meminfo", "MemAvailable: 2000 kB\n");
	assert_int_equal(check(host, "memory"), DOCTOR_FAIL);
}

static void writers_in_other_pid_namespaces_are_warned_of(void **state)
{
	struct host *host = *state;
	char path[128];

	put(host, "/proc/self/ns/x", "");
	snprintf(path, sizeof(path), "%s/proc/self/ns/pid", host->root);
	assert_int_equal(symlink("pid:[4026532211]", path), 0);
	assert_int_equal(check(host, "processes"), DOCTOR_WARN);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("pid:[4026531836]", path), 0);
	assert_int_equal(check(host, "processes"), DOCTOR_OK);
}

static void what_is_bad_says_what_it_costs_and_how_to_mend_it(void **state)
{
	struct host *host = *state;
	const struct doctor_check *const groups[] = {
		doctor_fuse_checks, doctor_io_checks, doctor_limit_checks,
		doctor_space_checks};
	struct doctor poor = {.root = host->root,
			      .disk = "/proc/pagefs",
			      .memory_bytes = UINT64_C(1) << 40};

	for (size_t i = 0; i < 4; i++)
		for (const struct doctor_check *c = groups[i]; c->name; c++) {
			c->run(&poor, &host->finding);
			assert_true(*host->finding.found != '\0');
			if (host->finding.outcome == DOCTOR_OK)
				continue;
			assert_true(*host->finding.costs != '\0');
			assert_true(*host->finding.mend != '\0');
		}
}

static void this_host_can_be_looked_at(void **state)
{
	struct host *host = *state;

	assert_int_equal(doctor_look("none", 0, &host->doctor), 0);
	assert_true(host->doctor.kernel > doctor_kernel(3, 0));
	assert_true(host->doctor.memory_bytes > 0);
	assert_true(host->doctor.open_files > 0);
	assert_int_equal(host->doctor.is_root, geteuid() == 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(without_the_device_nothing_works),
		TEST(old_kernels_lose_a_feature_each),
		TEST(passthrough_needs_a_capability),
		TEST(fuse_over_io_uring_must_be_switched_on),
		TEST(user_allow_other_counts_where_it_is_a_line),
		TEST(only_machines_with_pages_of_4_kib_will_do),
		TEST(memlock_must_hold_the_memory_tier),
		TEST(few_open_files_are_warned_of_and_very_few_fail),
		TEST(mappings_must_be_enough_for_a_file_a_slot),
		TEST(huge_pages_depend_on_who_asks),
		TEST(a_disk_directory_need_not_exist_yet),
		TEST(a_disk_directory_that_can_not_be_made_fails),
		TEST(the_memory_tier_must_fit),
		TEST(writers_in_other_pid_namespaces_are_warned_of),
		TEST(what_is_bad_says_what_it_costs_and_how_to_mend_it),
		TEST(this_host_can_be_looked_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
