/* SPDX-License-Identifier: Apache-2.0 */

/* `pagefs fsck`: checks a disk tier that is not mounted, or mends its index. */

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/rebuild.h"
#include "tools/command.h"
#include "tools/lib/size.h"
#include "tools/tools.h"

struct fsck_options {
	bool verify;
	bool rebuild;
	bool json;
};

#define FIELD(name) .offset = offsetof(struct fsck_options, name)

static const struct option_spec specs[] = {
	{.name = "verify",
	 .type = OPTION_FLAG,
	 FIELD(verify),
	 .help = "read every page, and check it against its checksums"},
	{.name = "rebuild",
	 .type = OPTION_FLAG,
	 FIELD(rebuild),
	 .help = "make the index anew from the buckets"},
	{.name = "json",
	 .type = OPTION_FLAG,
	 FIELD(json),
	 .help = "the counts as one JSON object"},
	{.name = NULL},
};

static const struct command command = {
	.name = "fsck",
	.arguments = "[--verify | --rebuild] [--json] DIR",
	.summary = "Check a disk tier that is not mounted.",
	.detail = "Without an option it reads the index and the headers of "
		  "records. --rebuild\nforgets pages that only memory has: "
		  "mount and unmount first, where that works.\nExit code 1 "
		  "where something is damaged; what is damaged is a miss, "
		  "never wrong\nbytes.",
	.examples = "  pagefs fsck /var/lib/pagefs\n"
		    "  pagefs fsck --verify --json /nvme/pagefs",
	.specs = specs,
	.min_arguments = 1,
	.max_arguments = 1,
};

static void print_found(void *arg, const char *line)
{
	(void)arg;
	fprintf(stderr, "%s\n", line);
}

static void print_progress(void *arg, uint64_t done, uint64_t all)
{
	(void)arg;
	fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " buckets%s", done, all,
		done == all ? "\n" : "");
}

static enum cache_fsck_mode mode_of(const struct fsck_options *values)
{
	return values->rebuild	? CACHE_FSCK_REBUILD
	       : values->verify ? CACHE_FSCK_VERIFY
				: CACHE_FSCK_CHECK;
}

static void print_json(const struct cache_fsck_report *report)
{
	json_t *object = json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "buckets",
		(json_int_t)report->buckets, "records",
		(json_int_t)report->records, "chunks",
		(json_int_t)report->chunks, "chunk_bytes",
		(json_int_t)report->chunk_bytes, "damaged",
		(json_int_t)report->damaged, "names", (json_int_t)report->names,
		"pages", (json_int_t)report->pages, "incomplete",
		(json_int_t)report->incomplete, "pending",
		(json_int_t)report->pending);

	json_dumpf(object, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(object);
}

static void print_text(const struct cache_fsck_report *report)
{
	char size[SIZE_TEXT_MAX];

	printf("buckets    %" PRIu64 ", %" PRIu64 " records\n"
	       "chunks     %" PRIu64 ", %s\n"
	       "names      %" PRIu64 ", %" PRIu64 " of them pages\n",
	       report->buckets, report->records, report->chunks,
	       size_format_rounded(report->chunk_bytes, size, sizeof(size)),
	       report->names, report->pages);
	if (report->pending)
		printf("pending    %" PRIu64 " pages are in memory only: the "
		       "next mount writes them\n",
		       report->pending);
	if (report->damaged)
		printf("DAMAGED    %" PRIu64 " records\n", report->damaged);
	if (report->incomplete)
		printf("INCOMPLETE %" PRIu64 " pages: they will be misses\n",
		       report->incomplete);
	if (!report->damaged && !report->incomplete)
		puts("clean");
}

static int check(const struct fsck_options *values, const char *dir)
{
	struct cache_fsck_config config = {
		.dir = dir, .mode = mode_of(values), .found = print_found};
	struct cache_fsck_report report = {0};
	char reason[512] = "";
	int error;

	if (isatty(STDERR_FILENO))
		config.progress = print_progress;
	error = cache_fsck(&config, &report, reason);
	if (error)
		return *reason ? command_fail(&command, "%s", reason)
			       : command_fail(&command, "%s: %s", dir,
					      strerror(-error));
	if (values->json)
		print_json(&report);
	else
		print_text(&report);
	return report.damaged || report.incomplete ? COMMAND_FAILED
						   : COMMAND_OK;
}

int tool_fsck(int argc, char **argv)
{
	struct fsck_options values;
	struct options options;
	int first, code;

	if (command_parse(&command, argc, argv, &values, &options, &first,
			  &code)) {
		if (values.verify && values.rebuild)
			code = command_usage(&command,
					     "either --verify or --rebuild");
		else
			code = check(&values, argv[first]);
	}
	options_release(&options);
	return code;
}
