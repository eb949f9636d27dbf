/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* stderr goes to this file while a test runs. */
struct fixture {
	int file;
	int saved_stderr;
	char text[1 << 16];
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	f->file = open("/tmp", O_TMPFILE | O_RDWR | O_APPEND, 0600);
	f->saved_stderr = dup(STDERR_FILENO);
	unsetenv("JOURNAL_STREAM");
	*state = f;
	return f->file < 0 || dup2(f->file, STDERR_FILENO) < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	dup2(f->saved_stderr, STDERR_FILENO);
	close(f->saved_stderr);
	close(f->file);
	free(f);
	return 0;
}

static const char *written(struct fixture *f)
{
	ssize_t len = pread(f->file, f->text, sizeof(f->text) - 1, 0);

	f->text[len > 0 ? len : 0] = '\0';
	return f->text;
}

static size_t count_lines(const char *text)
{
	size_t count = 0;

	while ((text = strchr(text, '\n')) != NULL) {
		count++;
		text++;
	}
	return count;
}

static void a_line_has_time_level_and_message(void **state)
{
	log_open(LOG_LEVEL_INFO);
	log_warning("disk %s is %d%% full", "/d", 95);
	assert_non_null(strstr(written(*state),
			       "Z pagefs warning: disk /d is 95% full\n"));
}

static void the_journal_gets_a_priority(void **state)
{
	setenv("JOURNAL_STREAM", "8:12345", 1);
	log_open(LOG_LEVEL_DEBUG);
	log_error("a");
	log_warning("b");
	log_info("c");
	log_debug("d");
	assert_string_equal(written(*state), "<3>a\n<4>b\n<6>c\n<7>d\n");
	unsetenv("JOURNAL_STREAM");
}

static void what_is_below_the_level_is_not_written(void **state)
{
	log_open(LOG_LEVEL_WARNING);
	log_info("quiet");
	log_debug("quiet");
	assert_string_equal(written(*state), "");
	assert_true(log_enabled(LOG_LEVEL_ERROR));
	assert_false(log_enabled(LOG_LEVEL_INFO));
}

static void a_newline_in_a_key_cannot_forge_a_line(void **state)
{
	const char *text;

	setenv("JOURNAL_STREAM", "1:1", 1);
	log_open(LOG_LEVEL_INFO);
	log_info("key %s", "a\n<3>b\x1b[1m\x7f\xc3\xa9");
	text = written(*state);
	assert_string_equal(text, "<6>key a?<3>b?[1m?\xc3\xa9\n");
	unsetenv("JOURNAL_STREAM");
}

static void a_line_that_is_too_long_is_cut(void **state)
{
	char message[3 * LOG_LINE_MAX];
	const char *text;

	memset(message, 'x', sizeof(message) - 1);
	message[sizeof(message) - 1] = '\0';
	log_open(LOG_LEVEL_INFO);
	log_info("%s", message);
	text = written(*state);
	assert_int_equal(strlen(text), LOG_LINE_MAX);
	assert_string_equal(text + LOG_LINE_MAX - 5, "x...\n");
}

static void a_limited_line_comes_once_a_second_with_a_count(void **state)
{
	struct fixture *f = *state;
	struct log_limit limit = {0};

	setenv("JOURNAL_STREAM", "1:1", 1);
	log_open(LOG_LEVEL_INFO);
	for (int i = 0; i < 100; i++)
		log_limited(&limit, LOG_LEVEL_ERROR, "get %d failed", i);
	assert_string_equal(written(f), "<3>get 0 failed\n");
	atomic_store(&limit.next_ns, 0); /* as if the second had passed */
	log_limited(&limit, LOG_LEVEL_ERROR, "again");
	assert_string_equal(
		written(f),
		"<3>get 0 failed\n<3>again (and 99 more like it)\n");
	unsetenv("JOURNAL_STREAM");
}

static void *log_many(void *argument)
{
	struct log_limit *limit = argument;

	for (int i = 0; i < 100; i++) {
		log_info("a line of one thread");
		log_limited(limit, LOG_LEVEL_INFO, "limited");
	}
	return NULL;
}

static void lines_of_many_threads_stay_whole(void **state)
{
	struct log_limit limit = {0};
	pthread_t threads[4];
	const char *text;
	size_t whole = 0;

	log_open(LOG_LEVEL_INFO);
	for (int i = 0; i < 4; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, log_many, &limit), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	text = written(*state);
	for (const char *p = text;
	     (p = strstr(p, ": a line of one thread\n")) != NULL; p++)
		whole++;
	assert_int_equal(whole, 400);
	assert_true(count_lines(text) > 400);
	assert_true(atomic_load(&limit.suppressed) > 0);
}

static void logging_keeps_errno(void **state)
{
	(void)state;
	log_open(LOG_LEVEL_INFO);
	errno = ENOSPC;
	log_error("x");
	assert_int_equal(errno, ENOSPC);
}

static void levels_have_names(void **state)
{
	(void)state;
	assert_int_equal(log_level_parse("debug"), LOG_LEVEL_DEBUG);
	assert_int_equal(log_level_parse("loud"), -EINVAL);
	assert_string_equal(log_level_name(LOG_LEVEL_ERROR), "error");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_line_has_time_level_and_message),
		TEST(the_journal_gets_a_priority),
		TEST(what_is_below_the_level_is_not_written),
		TEST(a_newline_in_a_key_cannot_forge_a_line),
		TEST(a_line_that_is_too_long_is_cut),
		TEST(a_limited_line_comes_once_a_second_with_a_count),
		TEST(lines_of_many_threads_stay_whole),
		TEST(logging_keeps_errno),
		TEST(levels_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
