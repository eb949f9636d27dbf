/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/process.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

static void *in_thread(void *arg)
{
	pid_t thread = (pid_t)syscall(SYS_gettid);

	(void)arg;
	return (void *)(intptr_t)(thread != getpid() &&
				  process_of_thread(thread) == getpid());
}

static void a_thread_leads_to_its_process(void **state)
{
	pthread_t thread;
	void *right = NULL;

	(void)state;
	assert_int_equal(process_of_thread(getpid()), getpid());
	assert_int_equal(pthread_create(&thread, NULL, in_thread, NULL), 0);
	pthread_join(thread, &right);
	assert_non_null(right);
}

static void what_is_not_there_is_0(void **state)
{
	(void)state;
	assert_int_equal(process_of_thread(0), 0);
	assert_int_equal(process_of_thread(0x7ffffff0), 0);
}

static void who_runs_was_not_killed(void **state)
{
	(void)state;
	assert_true(process_visible());
	assert_false(process_killed(getpid()));
	assert_false(process_killed(0));
}

static void a_descriptor_is_known_by_number_and_name(void **state)
{
	char path[] = "/tmp/pagefs-test-XXXXXX";
	const char *name = path + sizeof("/tmp/") - 1;
	struct stat st;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(process_has_file(getpid(), st.st_ino, name, strlen(name)));
	assert_false(process_has_file(getpid(), st.st_ino, "other", 5));
	assert_false(
		process_has_file(getpid(), st.st_ino + 1, name, strlen(name)));
	assert_false(process_has_file(0, st.st_ino, name, strlen(name)));
	unlink(path);
	close(fd);
	assert_false(process_has_file(getpid(), st.st_ino, name, strlen(name)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_leads_to_its_process),
		cmocka_unit_test(what_is_not_there_is_0),
		cmocka_unit_test(who_runs_was_not_killed),
		cmocka_unit_test(a_descriptor_is_known_by_number_and_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
