/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/options.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/lib/size.h"
#include "tools/lib/strbuf.h"

struct values {
	uint64_t memory;
	struct size_or_percent disk_cap;
	char *disk;
	char *config;
	bool foreground;
	bool ro;
	int64_t replicas;
	double ratio;
	uint32_t umask, mask;
	bool ignored;
	int io_uring;
	uint64_t stop_timeout_ns;
};

static const char *const io_uring_choices[] = {"auto", "off", NULL};

#define ROW(field_, name_, type_)                                              \
	.name = name_, .type = type_, .offset = offsetof(struct values, field_)
static const struct option_spec specs[] = {
	{ROW(memory, "memory", OPTION_SIZE), .initial = "1G", .letter = 'm',
	 .min = 1048576, .max = 1099511627776.0,
	 .help = "size of the memory tier"},
	{ROW(disk_cap, "disk-cap", OPTION_SIZE_OR_PERCENT), .initial = "90%"},
	{ROW(disk, "disk", OPTION_STRING), .argument = "DIR|none",
	 .initial_help = "/var/lib/pagefs as root",
	 .help = "directory of the disk tier, which is made if it is "
		 "not there"},
	{ROW(config, "config", OPTION_STRING), .argument = "FILE",
	 .bits = OPTION_COMMAND_LINE_ONLY},
	{ROW(foreground, "foreground", OPTION_FLAG), .letter = 'f',
	 .help = "stay in the foreground"},
	{ROW(ro, "ro", OPTION_FLAG), .help = "read only"},
	{ROW(replicas, "replicas", OPTION_INTEGER), .initial = "1", .min = 1,
	 .max = 8},
	{ROW(ratio, "eviction-ratio", OPTION_REAL), .initial = "0.05",
	 .min = 0.01, .max = 1},
	{ROW(umask, "umask", OPTION_OCTAL), .initial = "022"},
	{ROW(mask, "mask", OPTION_OCTAL), .bits = OPTION_NO_DEFAULT},
	{ROW(ignored, "defaults", OPTION_FLAG), .bits = OPTION_HIDDEN},
	{ROW(io_uring, "io-uring", OPTION_CHOICE), .choices = io_uring_choices,
	 .initial = "auto"},
	{ROW(stop_timeout_ns, "stop-timeout", OPTION_DURATION),
	 .initial = "30"},
	{.name = "options", .type = OPTION_LIST, .letter = 'o'},
	{.name = NULL},
};

struct fixture {
	struct options options;
	struct values values;
	struct strbuf error;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	options_init(&f->options, specs, &f->values);
	strbuf_init(&f->error, 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	options_release(&f->options);
	strbuf_release(&f->error);
	free(f);
	return 0;
}

/* Parses up to six arguments, the first NULL ends them. */
static int parse(struct fixture *f, const char *const arguments[6])
{
	char *argv[8] = {strdup("pagefs")}, *owned[7];
	int argc = 1, first = 0, r;

	strbuf_reset(&f->error);
	for (int i = 0; i < 6 && arguments[i]; i++)
		argv[argc++] = strdup(arguments[i]);
	memcpy(owned, argv, sizeof(owned)); /* getopt moves them */
	r = options_parse_arguments(&f->options, argc, argv, &first, &f->error);
	for (int i = 0; i < argc; i++)
		free(owned[i]);
	return r < 0 ? -1 : argc - first;
}
#define PARSE(f, ...) parse(f, (const char *const[6]){__VA_ARGS__})

static int parse_file(struct fixture *f, const char *text)
{
	strbuf_reset(&f->error);
	return options_parse_text(&f->options, text, strlen(text),
				  "pagefs.conf", &f->error);
}

static void values_start_with_their_defaults(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(f->values.memory, UINT64_C(1) << 30);
	assert_true(f->values.disk_cap.percent == 90);
	assert_null(f->values.disk);
	assert_false(f->values.foreground);
	assert_int_equal(f->values.replicas, 1);
	assert_true(f->values.ratio == 0.05);
	assert_int_equal(f->values.umask, 022);
	assert_int_equal(f->values.io_uring, 0);
	assert_int_equal(f->values.stop_timeout_ns, UINT64_C(30000000000));
	assert_int_equal(options_source(&f->options, "memory"),
			 OPTIONS_DEFAULT);
}

static void the_command_line_sets_every_type(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(PARSE(f, "--memory", "3.5MiB", "--disk-cap=10G",
			       "--disk", "/a b", "-f"),
			 0);
	assert_int_equal(PARSE(f, "--replicas=3", "--eviction-ratio", "0.2",
			       "--io-uring=off", "--umask=077",
			       "--stop-timeout=200ms"),
			 0);
	assert_int_equal(f->values.memory, 3670016);
	assert_true(f->values.disk_cap.percent == 0);
	assert_int_equal(f->values.disk_cap.bytes, UINT64_C(10) << 30);
	assert_string_equal(f->values.disk, "/a b");
	assert_true(f->values.foreground);
	assert_int_equal(f->values.replicas, 3);
	assert_true(f->values.ratio == 0.2);
	assert_int_equal(f->values.io_uring, 1);
	assert_int_equal(f->values.umask, 077);
	assert_int_equal(f->values.stop_timeout_ns, 200000000);
	assert_int_equal(options_source(&f->options, "umask"),
			 OPTIONS_COMMAND_LINE);
}

static void dashes_and_underscores_in_names_are_equal(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(PARSE(f, "--disk_cap=1G"), 0);
	assert_int_equal(f->values.disk_cap.bytes, UINT64_C(1) << 30);
	assert_int_equal(PARSE(f, "-o", "disk-cap=2G,io_uring=off"), 0);
	assert_int_equal(f->values.disk_cap.bytes, UINT64_C(2) << 30);
	assert_int_equal(f->values.io_uring, 1);
}

static void other_arguments_are_left_to_the_caller(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(PARSE(f, "/mnt/a", "-f", "/mnt/b"), 2);
	assert_true(f->values.foreground);
	assert_int_equal(PARSE(f, "--ro", "--", "--memory"), 1);
	assert_true(f->values.ro);
}

static void a_list_sets_several_options(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(PARSE(f, "-oro,memory=64M,,disk=/a\\,b\\\\c"), 0);
	assert_true(f->values.ro);
	assert_int_equal(f->values.memory, UINT64_C(64) << 20);
	assert_string_equal(f->values.disk, "/a,b\\c");
	assert_int_equal(PARSE(f, "-o", "ro=no"), 0);
	assert_false(f->values.ro);
}

static void a_file_sets_options_line_by_line(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(parse_file(f, "\xef\xbb\xbf# a comment\n"
				       "; another\n"
				       "\n"
				       "  memory=2G \r\n"
				       "disk_cap = 50%\n"
				       "ro\n"
				       "disk = \" /x = y# \"\n"
				       "memory = 3G"),
			 0);
	assert_int_equal(f->values.memory, UINT64_C(3) << 30);
	assert_true(f->values.disk_cap.percent == 50);
	assert_true(f->values.ro);
	assert_string_equal(f->values.disk, " /x = y# ");
	assert_int_equal(options_source(&f->options, "ro"), OPTIONS_FILE);
}

static void a_line_may_be_as_long_as_a_path(void **state)
{
	struct fixture *f = *state;
	char text[4200];

	memset(text, 'x', sizeof(text));
	memcpy(text, "disk = /", 8);
	text[4103] = '\0';
	assert_int_equal(parse_file(f, text), 0);
	assert_int_equal(strlen(f->values.disk), 4096);
}

static void the_command_line_wins_over_the_file_in_any_order(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(PARSE(f, "--memory=1M", "-oreplicas=2"), 0);
	assert_int_equal(
		parse_file(f, "memory = 2M\nreplicas = 3\numask = 0\n"), 0);
	assert_int_equal(f->values.memory, 1048576);
	assert_int_equal(f->values.replicas, 2);
	assert_int_equal(f->values.umask, 0);
	assert_int_equal(PARSE(f, "--umask=7"), 0);
	assert_int_equal(f->values.umask, 7);
	/* A value that is outranked is checked all the same. */
	assert_int_equal(parse_file(f, "memory = lots\n"), -EINVAL);
}

static void errors_on_the_command_line_say_what_would_be_right(void **state)
{
	static const struct {
		const char *arguments[6];
		const char *error;
	} rows[] = {
		{{"--memroy", "1G"},
		 "unknown option --memroy: did you mean --memory?"},
		{{"--diskcap=1G"},
		 "unknown option --diskcap: did you mean --disk-cap?"},
		{{"--colour"}, "unknown option --colour"},
		{{"-x"}, "unknown option -x"},
		{{"--memory"}, "--memory needs a value: SIZE"},
		{{"-o"}, "--options needs a value: NAME[=VALUE],..."},
		{{"--memory", "12X"},
		 "--memory 12X: unknown unit; there are K, M, G, T (or "
		 "KiB and so on) and KB, MB, GB, TB"},
		{{"--memory=1K"}, "--memory 1K: must be from 1M to 1T"},
		{{"--memory", "5%"},
		 "--memory 5%: a percentage cannot be given here; give "
		 "a size such as 512M"},
		{{"--disk-cap=101%"}, "--disk-cap 101%: more than 100%"},
		{{"--replicas", "0"}, "--replicas 0: must be from 1 to 8"},
		{{"--replicas=2.5"}, "--replicas 2.5: must be a whole number"},
		{{"--eviction-ratio=inf"},
		 "--eviction-ratio inf: must be a number"},
		{{"--eviction-ratio=0x1p-1"},
		 "--eviction-ratio 0x1p-1: must be a number"},
		{{"--umask=9"},
		 "--umask 9: must be an octal number such as 022"},
		{{"--io-uring=on"}, "--io-uring on: must be one of auto, off"},
		{{"--foreground=maybe"},
		 "--foreground maybe: must be yes or no"},
		{{"--stop-timeout=1w"},
		 "--stop-timeout 1w: must be a time such as 200ms, "
		 "1.5s, 10m, 2h or 7d"},
		{{"--stop-timeout=-1"},
		 "--stop-timeout -1: must be a time such as 200ms, "
		 "1.5s, 10m, 2h or 7d"},
		{{"-o", "ro,memroy=1G"},
		 "unknown option -o memroy: did you mean -o memory?"},
		{{"-o", "memory"}, "-o memory needs a value: SIZE"},
		{{"-o", "disk_cap=x"},
		 "-o disk_cap=x: not a size; give one such as 512M or "
		 "3.5GiB"},
		{{"-o", "config=x"}, "-o config can be given only as --config"},
		{{"-o", "options=x"},
		 "-o options can be given only as --options"},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(parse(f, rows[i].arguments), -1);
		assert_string_equal(strbuf_text(&f->error), rows[i].error);
	}
}

static void errors_in_a_file_name_the_line(void **state)
{
	static const struct {
		const char *text;
		const char *error;
	} rows[] = {
		{"\nreplcas = 1\n", "pagefs.conf:2: unknown option replcas: "
				    "did you mean replicas?"},
		{"memory = 1\n",
		 "pagefs.conf:1: memory = 1: must be from 1M to 1T"},
		{"disk-cap\n",
		 "pagefs.conf:1: disk_cap needs a value: SIZE|PERCENT"},
		{"[mount]\n", "pagefs.conf:1: sections are not used here; a "
			      "line is name = value"},
		{"= 3\n", "pagefs.conf:1: unknown option "},
		{"config = x\n", "pagefs.conf:1: config can be given only as "
				 "--config"},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(parse_file(f, rows[i].text), -EINVAL);
		assert_string_equal(strbuf_text(&f->error), rows[i].error);
	}
	strbuf_reset(&f->error);
	assert_int_equal(options_parse_text(&f->options, "ro\n\0ro\n", 7, "c",
					    &f->error),
			 -EINVAL);
	assert_string_equal(strbuf_text(&f->error),
			    "c:2: holds a NUL byte; is this a text file?");
}

static void a_file_that_cannot_be_read_says_why(void **state)
{
	struct fixture *f = *state;
	char path[] = "/tmp/pagefs-options-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "ro = yes\n", 9), 9);
	assert_int_equal(options_parse_file(&f->options, path, &f->error), 0);
	assert_true(f->values.ro);
	assert_int_equal(ftruncate(fd, 1048577), 0);
	assert_int_equal(options_parse_file(&f->options, path, &f->error),
			 -EINVAL);
	assert_non_null(strstr(strbuf_text(&f->error), "larger than 1 MiB"));
	close(fd);
	unlink(path);
	strbuf_reset(&f->error);
	assert_int_equal(options_parse_file(&f->options, path, &f->error),
			 -ENOENT);
	assert_non_null(strstr(strbuf_text(&f->error), "No such file"));
	strbuf_reset(&f->error);
	assert_int_equal(options_parse_file(&f->options, "/tmp", &f->error),
			 -EISDIR);
	assert_non_null(strstr(strbuf_text(&f->error), "Is a directory"));
}

static void a_failed_parse_leaves_the_old_value(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(PARSE(f, "--memory=2M", "--disk=/d"), 0);
	assert_int_equal(PARSE(f, "--memory=x"), -1);
	assert_int_equal(PARSE(f, "--disk"), -1);
	assert_int_equal(f->values.memory, 2097152);
	assert_string_equal(f->values.disk, "/d");
}

static void a_dump_reads_back_as_the_same_values(void **state)
{
	struct fixture *f = *state, *other = NULL;
	struct strbuf first, second;

	assert_int_equal(PARSE(f, "--memory=3.5M", "--disk", " \"/x\" ",
			       "--disk-cap=12.5%", "--ro",
			       "--stop-timeout=90s"),
			 0);
	strbuf_init(&first, 0);
	strbuf_init(&second, 0);
	options_dump(&f->options, &first);
	assert_string_equal(strbuf_text(&first), "memory = 3.5M\n"
						 "disk_cap = 12.5%\n"
						 "disk = \" \"/x\" \"\n"
						 "foreground = no\n"
						 "ro = yes\n"
						 "replicas = 1\n"
						 "eviction_ratio = 0.05\n"
						 "umask = 022\n"
						 "io_uring = auto\n"
						 "stop_timeout = 90s\n");

	assert_int_equal(set_up((void **)&other), 0);
	assert_int_equal(parse_file(other, strbuf_text(&first)), 0);
	options_dump(&other->options, &second);
	assert_string_equal(strbuf_text(&first), strbuf_text(&second));
	tear_down((void **)&other);
	strbuf_release(&first);
	strbuf_release(&second);
}

static void
a_dump_says_nothing_of_what_was_not_given_and_means_nothing(void **state)
{
	struct fixture *f = *state;
	struct strbuf dump;

	strbuf_init(&dump, 0);
	assert_int_equal(PARSE(f, "--defaults"), 0);
	options_dump(&f->options, &dump);
	assert_null(strstr(strbuf_text(&dump), "\nmask"));
	assert_null(strstr(strbuf_text(&dump), "defaults"));
	assert_int_equal(PARSE(f, "--mask=000"), 0);
	options_dump(&f->options, &dump);
	assert_non_null(strstr(strbuf_text(&dump), "\nmask = 000\n"));
	strbuf_release(&dump);
}

static void help_shows_names_arguments_and_defaults(void **state)
{
	struct strbuf help;

	(void)state;
	strbuf_init(&help, 0);
	options_help(specs, &help);
	assert_non_null(
		strstr(strbuf_text(&help),
		       "  -m, --memory SIZE         size of the memory tier "
		       "(default: 1G)\n"));
	assert_non_null(strstr(
		strbuf_text(&help),
		"      --disk DIR|none       directory of the disk tier, which "
		"is made if it is\n"
		"                            not there (default: "
		"/var/lib/pagefs as root)\n"));
	assert_non_null(
		strstr(strbuf_text(&help),
		       "  -f, --foreground          stay in the foreground\n"));
	assert_non_null(
		strstr(strbuf_text(&help), "      --io-uring auto|off"));
	strbuf_release(&help);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(values_start_with_their_defaults),
		TEST(the_command_line_sets_every_type),
		TEST(dashes_and_underscores_in_names_are_equal),
		TEST(other_arguments_are_left_to_the_caller),
		TEST(a_list_sets_several_options),
		TEST(a_file_sets_options_line_by_line),
		TEST(a_line_may_be_as_long_as_a_path),
		TEST(the_command_line_wins_over_the_file_in_any_order),
		TEST(errors_on_the_command_line_say_what_would_be_right),
		TEST(errors_in_a_file_name_the_line),
		TEST(a_file_that_cannot_be_read_says_why),
		TEST(a_failed_parse_leaves_the_old_value),
		TEST(a_dump_says_nothing_of_what_was_not_given_and_means_nothing),
		TEST(a_dump_reads_back_as_the_same_values),
		TEST(help_shows_names_arguments_and_defaults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
