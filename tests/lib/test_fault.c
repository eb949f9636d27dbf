/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/fault.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int tear_down(void **state)
{
	(void)state;
	fault_disarm_all();
	return 0;
}

/* First in the list: the environment is read at the first fault_point. */
static void the_environment_arms_points_at_the_first_use(void **state)
{
	(void)state;
	setenv("PAGEFS_FAULTS", "test.one:2:ENOSPC,test.two:every", 1);
	assert_int_equal(fault_point("test.one"), 0);
	assert_int_equal(fault_point("test.one"), -ENOSPC);
	assert_int_equal(fault_point("test.one"), 0);
	assert_int_equal(fault_point("test.two"), -EIO);
	unsetenv("PAGEFS_FAULTS");
}

static void an_unarmed_point_passes(void **state)
{
	(void)state;
	assert_int_equal(fault_point("test.none"), 0);
	assert_int_equal(fault_calls("test.none"), 0);
	fault_disarm("test.none");
}

static void the_nth_call_fails_and_only_that(void **state)
{
	(void)state;
	assert_int_equal(fault_arm("test.nth", 3, ENOMEM), 0);
	for (int i = 1; i <= 5; i++)
		assert_int_equal(fault_point("test.nth"), i == 3 ? -ENOMEM : 0);
	assert_int_equal(fault_point("test.other"), 0);
	assert_int_equal(fault_calls("test.nth"), 5);
	assert_int_equal(fault_hits("test.nth"), 1);
	assert_int_equal(fault_arm("test.nth", 1, EIO), 0);
	assert_int_equal(fault_calls("test.nth"), 0);
	assert_int_equal(fault_point("test.nth"), -EIO);
}

static void every_call_fails_until_disarmed(void **state)
{
	(void)state;
	assert_int_equal(fault_arm("test.a", FAULT_EVERY, EIO), 0);
	assert_int_equal(fault_arm_periodic("test.b", 2, EAGAIN), 0);
	for (int i = 1; i <= 4; i++) {
		assert_int_equal(fault_point("test.a"), -EIO);
		assert_int_equal(fault_point("test.b"),
				 i % 2 == 0 ? -EAGAIN : 0);
	}
	fault_disarm("test.a");
	assert_int_equal(fault_point("test.a"), 0);
	assert_int_equal(fault_hits("test.b"), 2);
}

static void a_list_in_the_documented_form_is_read(void **state)
{
	(void)state;
	assert_int_equal(fault_load("test.a:1:EIO,test.b:every/3:28,,test.c:2"),
			 0);
	assert_int_equal(fault_point("test.a"), -EIO);
	assert_int_equal(fault_point("test.b"), 0);
	assert_int_equal(fault_point("test.b"), 0);
	assert_int_equal(fault_point("test.b"), -ENOSPC);
	assert_int_equal(fault_point("test.c"), 0);
	assert_int_equal(fault_point("test.c"), -EIO);
}

static void a_mistake_in_a_list_is_refused(void **state)
{
	static const char *const lists[] = {
		"a",	    "a:",	 ":1",	       "a:0",	   "a:x",
		"a:-1",	    "a:1:",	 "a:1:EFOO",   "a:1:0",	   "a:1:99999",
		"a:every/", "a:every/0", "a:everyone", "a:1:EIO:2"};

	(void)state;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		assert_int_equal(fault_load(lists[i]), -EINVAL);
}

static void there_is_room_for_a_bounded_number_of_points(void **state)
{
	char name[FAULT_NAME_MAX + 2];

	(void)state;
	for (int i = 0; i < FAULT_POINTS_MAX; i++) {
		snprintf(name, sizeof(name), "test.%d", i);
		assert_int_equal(fault_arm(name, 1, EIO), 0);
	}
	assert_int_equal(fault_arm("test.more", 1, EIO), -ENOSPC);
	fault_disarm("test.0");
	assert_int_equal(fault_arm("test.more", 1, EIO), 0);
	memset(name, 'x', FAULT_NAME_MAX + 1);
	name[FAULT_NAME_MAX + 1] = '\0';
	assert_int_equal(fault_arm(name, 1, EIO), -ENAMETOOLONG);
	assert_int_equal(fault_arm("", 1, EIO), -EINVAL);
	assert_int_equal(fault_arm("test.x", 1, 0), -EINVAL);
	assert_int_equal(fault_arm_periodic("test.x", 0, EIO), -EINVAL);
}

/* No asserts in a worker: it counts the failures it saw. */
static void *pass_often(void *argument)
{
	uint64_t *failed = argument;

	for (int i = 0; i < 1000; i++)
		*failed += fault_point("test.thread") != 0;
	return NULL;
}

static void many_threads_see_one_failure_between_them(void **state)
{
	pthread_t threads[4];
	uint64_t failed[4] = {0}, sum = 0;

	(void)state;
	assert_int_equal(fault_arm("test.thread", 1234, EIO), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, pass_often,
						&failed[i]),
				 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		sum += failed[i];
	}
	assert_int_equal(sum, 1);
	assert_int_equal(fault_calls("test.thread"), 4000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(the_environment_arms_points_at_the_first_use),
		TEST(an_unarmed_point_passes),
		TEST(the_nth_call_fails_and_only_that),
		TEST(every_call_fails_until_disarmed),
		TEST(a_list_in_the_documented_form_is_read),
		TEST(a_mistake_in_a_list_is_refused),
		TEST(there_is_room_for_a_bounded_number_of_points),
		TEST(many_threads_see_one_failure_between_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
