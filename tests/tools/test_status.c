/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/status_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/lib/strbuf.h"

static const char healthy[] =
	"{\"version\": \"0.1.0\", \"pid\": 1234, \"uptime_seconds\": 93784,"
	" \"pages\": 7680, \"directories\": 3, \"logical_bytes\": 28185722880,"
	" \"memory_used_bytes\": 536870912,"
	" \"memory_capacity_bytes\": 1073741824,"
	" \"memory_pinned_bytes\": 3670016,"
	" \"disk_file_bytes\": 10737418240,"
	" \"disk_cap_bytes\": 107374182400, \"disk_buckets\": 40,"
	" \"hits_memory_total\": 70, \"hits_empty_total\": 5,"
	" \"hits_disk_total\": 20, \"misses_total\": 5,"
	" \"commits_total\": 7680, \"pending_pages\": 2,"
	" \"pending_bytes\": 7340032, \"evicted_pages_total\": 6000,"
	" \"negative_entries\": 1, \"negative_hits_total\": 9,"
	" \"io_engine\": \"io_uring\","
	" \"io_why\": \"plain buffers: memlock is 64 KiB\"}";

static const char want[] =
	"mount     /mnt/kv\n"
	"daemon    pagefs 0.1.0, pid 1234, up 1d 02:03:04\n"
	"pages     7680 in 3 directories, 26.2 GiB\n"
	"memory    512 MiB of 1.0 GiB (50.0%), 3.5 MiB open\n"
	"disk      10.0 GiB of 100 GiB (10.0%), 40 buckets, 7.0 MiB "
	"pending\n"
	"reads     100: 75.0% from memory, 20.0% from disk, 5.0% failed\n"
	"writes    7680 pages committed, 2 pending, 6000 evicted\n"
	"negative  1 name hidden, 9 answers given\n"
	"disk I/O  io_uring (plain buffers: memlock is 64 KiB)\n";

/* The text for an object as stats.json has it; the caller frees it. */
static char *text_of(const char *json)
{
	json_t *stats = json_loads(json, 0, NULL);
	struct strbuf out;
	char *text;

	assert_non_null(stats);
	strbuf_init(&out, 0);
	status_text("/mnt/kv", stats, &out);
	text = strbuf_detach(&out);
	json_decref(stats);
	assert_non_null(text);
	return text;
}

static void a_healthy_mount_has_a_line_a_subject(void **state)
{
	char *text = text_of(healthy);

	(void)state;
	assert_string_equal(text, want);
	free(text);
}

static void figures_that_are_not_there_count_as_zero(void **state)
{
	char *text = text_of("{}");

	(void)state;
	assert_non_null(strstr(text, "disk      none\n"));
	assert_non_null(strstr(text, "reads     0: 0.0% from memory"));
	assert_null(strstr(text, "ALARM"));
	assert_null(strstr(text, "disk I/O"));
	free(text);
}

static void an_alarm_says_what_to_do(void **state)
{
	char *text = text_of("{\"disk_alarm\": 1, \"timeouts_total\": 3}");

	(void)state;
	assert_non_null(strstr(text, "ALARM     disk_alarm 1: writing to the "
				     "disk tier fails"));
	assert_non_null(strstr(text, "ALARM     timeouts_total 3: "));
	assert_null(strstr(text, "lost_pages"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_healthy_mount_has_a_line_a_subject),
		cmocka_unit_test(figures_that_are_not_there_count_as_zero),
		cmocka_unit_test(an_alarm_says_what_to_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
