/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/holders.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A directory stands in for a mount: only paths are compared. */
static char directory[64], file[96];

enum what {
	HOLDS_NOTHING,
	HOLDS_DIRECTORY,
	HOLDS_FILE,
	HOLDS_MAPPING,
};

static int set_up(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/pagefs-test.XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	snprintf(file, sizeof(file), "%s/page", directory);
	close(open(file, O_CREAT | O_WRONLY, 0600));
	return truncate(file, 4096);
}

static int tear_down(void **state)
{
	(void)state;
	unlink(file);
	return rmdir(directory);
}

static void hold(enum what what)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);

	prctl(PR_SET_NAME, "pagefs-holder");
	if (what == HOLDS_DIRECTORY && chdir(directory))
		_exit(1);
	if (what == HOLDS_MAPPING &&
	    mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		_exit(1);
	if (what != HOLDS_FILE)
		close(fd);
}

/* A process that holds something until it is killed. */
static pid_t start(enum what what)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		hold(what);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

struct seen {
	pid_t pid;
	char text[512];
};

static void see(void *arg, const struct holder *holder)
{
	struct seen *seen = arg;

	seen->pid = holder->pid;
	snprintf(seen->text, sizeof(seen->text), "%s: %s %s", holder->program,
		 holder->how, holder->path);
}

static void check(enum what what, const char *how, const char *path)
{
	struct seen seen = {0};
	char want[512];
	pid_t pid = start(what);
	unsigned count = holders_each(directory, see, &seen);

	end(pid);
	snprintf(want, sizeof(want), "pagefs-holder: %s %s", how, path);
	assert_int_equal(count, 1);
	assert_int_equal(seen.pid, pid);
	assert_string_equal(seen.text, want);
}

static void a_process_that_works_there_is_named(void **state)
{
	(void)state;
	check(HOLDS_DIRECTORY, "current directory", directory);
}

static void a_process_with_an_open_file_is_named(void **state)
{
	(void)state;
	check(HOLDS_FILE, "open file", file);
}

static void a_process_with_only_a_mapping_is_named(void **state)
{
	(void)state;
	check(HOLDS_MAPPING, "mapped file", file);
}

static void processes_elsewhere_and_the_caller_are_not(void **state)
{
	struct seen seen = {0};
	pid_t pid = start(HOLDS_NOTHING);
	int fd = open(file, O_RDONLY);
	char beside[96];

	(void)state;
	assert_int_equal(holders_each(directory, see, &seen), 0);
	end(pid);
	close(fd);
	/* Another directory whose name only starts the same. */
	snprintf(beside, sizeof(beside), "%.*s", (int)strlen(directory) - 1,
		 directory);
	pid = start(HOLDS_FILE);
	assert_int_equal(holders_each(beside, see, &seen), 0);
	end(pid);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_process_that_works_there_is_named),
		TEST(a_process_with_an_open_file_is_named),
		TEST(a_process_with_only_a_mapping_is_named),
		TEST(processes_elsewhere_and_the_caller_are_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
