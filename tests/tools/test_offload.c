/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_offload_run.h"

#include <fcntl.h>
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/bench_client.h"

/* Any directory will do: the calls are those of an engine. */
static char directory[64];

static int set_up(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/pagefs-test.XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

/* Removes the files; returns how many there were. */
static unsigned empty(void)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	unsigned count = 0;

	while ((entry = readdir(dir)))
		count += !unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
	return count;
}

static int tear_down(void **state)
{
	(void)state;
	empty();
	return rmdir(directory);
}

static void path_of(const char *name, char ret[128])
{
	snprintf(ret, 128, "%s/%s", directory, name);
}

static void a_client_reads_back_what_it_wrote(void **state)
{
	static const size_t sizes[] = {1, 7, 8, 4096, 100003};
	struct client client;
	uint64_t ns;

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(client_init(&client, directory, sizes[i], 1),
				 0);
		assert_int_equal(client_get(&client, "page", &ns), CLIENT_MISS);
		assert_int_equal(client_put(&client, "page", &ns), 0);
		assert_int_equal(client_get(&client, "page", &ns), 0);
		client_release(&client);
		assert_int_equal(empty(), 1); /* no temporary name is left */
	}
}

static void a_client_tells_wrong_bytes_from_right_ones(void **state)
{
	struct client client;
	char path[128], other[128];
	uint64_t ns;
	int fd;

	(void)state;
	path_of("page", path);
	path_of("other", other);
	assert_int_equal(client_init(&client, directory, 10000, 1), 0);
	assert_int_equal(client_put(&client, "page", &ns), 0);
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, "!", 1, 9999), 1);
	close(fd);
	assert_int_equal(client_get(&client, "page", &ns), CLIENT_WRONG);
	assert_int_equal(client_put(&client, "page", &ns), 0);
	assert_int_equal(truncate(path, 9999), 0); /* a short read */
	assert_int_equal(client_get(&client, "page", &ns), CLIENT_WRONG);
	assert_int_equal(client_put(&client, "page", &ns), 0);
	assert_int_equal(rename(path, other), 0); /* another page's bytes */
	assert_int_equal(client_get(&client, "other", &ns), CLIENT_WRONG);
	client_release(&client);
}

static struct offload_plan plan_of(bool barrier)
{
	return (struct offload_plan){
		.directory = directory,
		.clients = 3,
		.rounds = 3,
		.max_parallel = 2,
		.round_barrier = barrier,
		.seed = 7,
		.page_bytes = 4096,
	};
}

static void every_earlier_page_is_read_back_before_new_ones(void **state)
{
	struct offload_result result;
	struct offload_plan plan;

	(void)state;
	for (int barrier = 0; barrier < 2; barrier++) {
		plan = plan_of(barrier);
		assert_int_equal(offload_run(&plan, &result), 0);
		assert_int_equal(result.keys, 3 * 3 * 128);
		/* 0, 1 and 2 rounds' pages in the three rounds. */
		assert_int_equal(result.hits, 3 * (0 + 1 + 2) * 128);
		assert_int_equal(result.misses + result.wrong, 0);
		assert_int_equal(result.errors, 0);
		assert_int_equal(result.get.count, result.hits);
		assert_int_equal(result.put.count, result.keys);
		assert_int_equal(result.request.count, 9);
		offload_result_release(&result);
		assert_int_equal(empty(), 3 * 3 * 128);
	}
}

static void a_store_that_refuses_is_counted_as_errors(void **state)
{
	struct offload_result result;
	struct offload_plan plan = plan_of(false);

	(void)state;
	plan.directory = "/proc";
	plan.rounds = 1;
	assert_int_equal(offload_run(&plan, &result), 0);
	assert_int_equal(result.keys, 0);
	assert_int_equal(result.errors, 3 * 128);
	assert_true(result.first_error < 0);
	offload_result_release(&result);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_client_reads_back_what_it_wrote),
		TEST(a_client_tells_wrong_bytes_from_right_ones),
		TEST(every_earlier_page_is_read_back_before_new_ones),
		TEST(a_store_that_refuses_is_counted_as_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
