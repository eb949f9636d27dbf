/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_offload.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench_daemon.h"
#include "tools/bench_offload_run.h"
#include "tools/command.h"
#include "tools/lib/size.h"
#include "tools/lib/strbuf.h"

struct offload_options {
	int64_t clients;
	int64_t rounds;
	double request_rate;
	int64_t max_parallel;
	bool round_barrier;
	int64_t seed;
	uint64_t page_size;
	uint64_t memory;
	uint64_t control_memory;
	char *directory;
	bool json;
};

#define FIELD(name) .offset = offsetof(struct offload_options, name)

static const struct option_spec specs[] = {
	{.name = "clients",
	 .type = OPTION_INTEGER,
	 FIELD(clients),
	 .help = "conversations at the same time",
	 .initial = "12",
	 .min = 1,
	 .max = 10000},
	{.name = "rounds",
	 .type = OPTION_INTEGER,
	 FIELD(rounds),
	 .help = "requests a conversation",
	 .initial = "5",
	 .min = 1,
	 .max = 1000},
	{.name = "request-rate",
	 .type = OPTION_REAL,
	 FIELD(request_rate),
	 .help = "requests that arrive a second; 0: all at once",
	 .initial = "2",
	 .min = 0,
	 .max = 1e6},
	{.name = "max-parallel",
	 .type = OPTION_INTEGER,
	 FIELD(max_parallel),
	 .help = "requests served at a time",
	 .initial = "2",
	 .min = 1,
	 .max = 256},
	{.name = "round-barrier",
	 .type = OPTION_FLAG,
	 FIELD(round_barrier),
	 .help = "begin a round when all of the last one ended"},
	{.name = "seed",
	 .type = OPTION_INTEGER,
	 FIELD(seed),
	 .help = "of arrivals, order and bytes",
	 .initial = "1"},
	{.name = "page-size",
	 .type = OPTION_SIZE,
	 FIELD(page_size),
	 .help = "bytes a key",
	 .initial = "3670016",
	 .min = 8,
	 .max = 1 << 30},
	{.name = "memory",
	 .type = OPTION_SIZE,
	 FIELD(memory),
	 .help = "memory tier of the evicting run",
	 .initial_help = "a seventh of all pages"},
	{.name = "control-memory",
	 .type = OPTION_SIZE,
	 FIELD(control_memory),
	 .help = "memory tier of the control run",
	 .initial_help = "enough for all pages"},
	{.name = "directory",
	 .type = OPTION_STRING,
	 FIELD(directory),
	 .argument = "DIR",
	 .help = "where the disk tier goes",
	 .initial = "/var/tmp"},
	{.name = "json",
	 .type = OPTION_FLAG,
	 FIELD(json),
	 .help = "print JSON instead of a table"},
	{.name = NULL},
};

static const struct command command = {
	.name = "bench offload",
	.arguments = "[OPTION]...",
	.summary =
		"Read back pages that memory has evicted, as an engine does.",
	.detail =
		"Clients ask 4,096 tokens more in each round. A request first "
		"reads all earlier\npages of its client (128 keys a round), "
		"then writes 128 new ones, with the file\noperations of "
		"SGLang's HiCache. It runs twice: with a memory tier that is "
		"too\nsmall (watermark 0.70, ratio 0.20) and, as a control, "
		"with one that is not.\nBoth must have the same hit rate, no "
		"miss and no wrong byte; else the exit code\nis 1.",
	.examples = "  pagefs bench offload --page-size 448K --memory 512M\n"
		    "  pagefs bench offload --clients 3 --rounds 3 "
		    "--page-size 64K --request-rate 0 --json",
	.specs = specs,
};

/* One run, with what the daemon says of it. */
struct outcome {
	const char *name;
	uint64_t memory;
	uint64_t evicted, hits_memory, hits_disk, disk_bytes;
	struct offload_result result;
};

static uint64_t all_bytes(const struct offload_options *options)
{
	return (uint64_t)(options->clients * options->rounds) *
	       OFFLOAD_KEYS_PER_REQUEST * options->page_size;
}

static int run_mounted(const struct offload_options *options,
		       const struct bench_daemon *daemon,
		       struct outcome *outcome)
{
	struct offload_plan plan = {
		.directory = daemon->mount,
		.clients = (unsigned)options->clients,
		.rounds = (unsigned)options->rounds,
		.request_rate = options->request_rate,
		.max_parallel = (unsigned)options->max_parallel,
		.round_barrier = options->round_barrier,
		.seed = (uint64_t)options->seed,
		.page_bytes = options->page_size,
		.progress = !options->json,
	};
	int error = offload_run(&plan, &outcome->result);

	outcome->evicted = bench_daemon_counter(daemon, "evicted_pages_total");
	outcome->hits_memory =
		bench_daemon_counter(daemon, "hits_memory_total");
	outcome->hits_disk = bench_daemon_counter(daemon, "hits_disk_total");
	return error;
}

static int run_once(const struct offload_options *options,
		    struct outcome *outcome)
{
	char memory[SIZE_TEXT_MAX];
	const char *arguments[] = {
		"--memory",
		size_format(outcome->memory, memory, sizeof(memory)),
		"--eviction-high-watermark-ratio",
		"0.70",
		"--eviction-ratio",
		"0.20",
		NULL};
	struct bench_daemon daemon;
	int error = bench_daemon_start(&daemon, options->directory, arguments);

	if (error)
		return command_fail(&command, "%s: %s", options->directory,
				    strerror(-error));
	if (!options->json)
		fprintf(stderr, "%s run, %s of memory\n", outcome->name,
			memory);
	error = run_mounted(options, &daemon, outcome);
	if (bench_daemon_stop(&daemon))
		return command_fail(&command, "%s: could not be unmounted",
				    daemon.mount);
	outcome->disk_bytes = bench_daemon_disk_bytes(&daemon);
	bench_daemon_remove(&daemon);
	return error ? command_fail(&command, "%s", strerror(-error))
		     : COMMAND_OK;
}

static double hit_rate(const struct offload_result *result)
{
	uint64_t reads =
		result->hits + result->misses + result->wrong + result->errors;

	return reads ? (double)result->hits / (double)reads : 1;
}

static double disk_ratio(const struct offload_options *options,
			 const struct outcome *outcome)
{
	double logical = (double)(outcome->result.keys * options->page_size);

	return logical > 0 ? (double)outcome->disk_bytes / logical : 0;
}

#define US(ns) ((json_int_t)((ns) / 1000))

static json_t *outcome_json(const struct offload_options *options,
			    struct outcome *outcome)
{
	struct offload_result *r = &outcome->result;

	return json_pack(
		"{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I,"
		" s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:f}",
		"name", outcome->name, "memory", (json_int_t)outcome->memory,
		"keys", (json_int_t)r->keys, "bytes",
		(json_int_t)(r->keys * options->page_size), "evicted",
		(json_int_t)outcome->evicted, "hits_memory",
		(json_int_t)outcome->hits_memory, "hits_disk",
		(json_int_t)outcome->hits_disk, "misses", (json_int_t)r->misses,
		"wrong", (json_int_t)r->wrong, "errors", (json_int_t)r->errors,
		"hit_rate", hit_rate(r), "get_p50_us",
		US(samples_percentile(&r->get, 0.5)), "get_p99_us",
		US(samples_percentile(&r->get, 0.99)), "put_p50_us",
		US(samples_percentile(&r->put, 0.5)), "put_p99_us",
		US(samples_percentile(&r->put, 0.99)), "request_mean_us",
		US(samples_mean(&r->request)), "request_p99_us",
		US(samples_percentile(&r->request, 0.99)),
		"disk_bytes_over_logical", disk_ratio(options, outcome));
}

static void print_json(const struct offload_options *options,
		       struct outcome *outcomes)
{
	json_t *runs = json_pack("{s:[o, o]}", "runs",
				 outcome_json(options, &outcomes[0]),
				 outcome_json(options, &outcomes[1]));

	json_dumpf(runs, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(runs);
}

static void print_row(const char *what, uint64_t evicting, uint64_t control)
{
	printf("%-26s %14" PRIu64 " %14" PRIu64 "\n", what, evicting, control);
}

static void print_times(const char *what, struct samples *evicting,
			struct samples *control, double ratio)
{
	print_row(what, samples_percentile(evicting, ratio) / 1000,
		  samples_percentile(control, ratio) / 1000);
}

static void print_table(const struct offload_options *options,
			struct outcome *outcomes)
{
	struct offload_result *e = &outcomes[0].result;
	struct offload_result *c = &outcomes[1].result;

	printf("%-26s %14s %14s\n", "", outcomes[0].name, outcomes[1].name);
	print_row("keys", e->keys, c->keys);
	print_row("bytes", e->keys * options->page_size,
		  c->keys * options->page_size);
	print_row("memory tier, bytes", outcomes[0].memory, outcomes[1].memory);
	print_row("pages evicted", outcomes[0].evicted, outcomes[1].evicted);
	print_row("hits from memory", outcomes[0].hits_memory,
		  outcomes[1].hits_memory);
	print_row("hits from disk", outcomes[0].hits_disk,
		  outcomes[1].hits_disk);
	print_row("misses", e->misses, c->misses);
	print_row("wrong", e->wrong, c->wrong);
	print_row("errors", e->errors, c->errors);
	printf("%-26s %14.6f %14.6f\n", "hit rate", hit_rate(e), hit_rate(c));
	print_times("get p50, us", &e->get, &c->get, 0.5);
	print_times("get p99, us", &e->get, &c->get, 0.99);
	print_times("put p50, us", &e->put, &c->put, 0.5);
	print_times("put p99, us", &e->put, &c->put, 0.99);
	print_row("request mean, us", samples_mean(&e->request) / 1000,
		  samples_mean(&c->request) / 1000);
	print_times("request p99, us", &e->request, &c->request, 0.99);
	printf("%-26s %14.4f %14.4f\n", "disk bytes over logical",
	       disk_ratio(options, &outcomes[0]),
	       disk_ratio(options, &outcomes[1]));
}

static int judge(const struct outcome *outcomes)
{
	for (int i = 0; i < 2; i++) {
		const struct offload_result *r = &outcomes[i].result;

		if (r->errors)
			return command_fail(
				&command,
				"the %s run had errors, the first: %s",
				outcomes[i].name, strerror(-r->first_error));
		if (r->misses || r->wrong)
			return command_fail(
				&command,
				"the %s run lost pages or read wrong bytes",
				outcomes[i].name);
	}
	return COMMAND_OK;
}

static int run_both(const struct offload_options *options)
{
	struct outcome outcomes[2] = {
		{.name = "evicting", .memory = options->memory},
		{.name = "control", .memory = options->control_memory},
	};
	int code = COMMAND_OK;

	/* Below the watermark, with room for rounding and for the headers. */
	if (!outcomes[0].memory)
		outcomes[0].memory = all_bytes(options) / 7 + (32u << 20);
	if (!outcomes[1].memory)
		outcomes[1].memory = all_bytes(options) / 10 * 17 + (64u << 20);
	for (int i = 0; i < 2 && code == COMMAND_OK; i++)
		code = run_once(options, &outcomes[i]);
	if (code == COMMAND_OK) {
		if (options->json)
			print_json(options, outcomes);
		else
			print_table(options, outcomes);
		code = judge(outcomes);
	}
	offload_result_release(&outcomes[0].result);
	offload_result_release(&outcomes[1].result);
	return code;
}

int bench_offload(int argc, char **argv)
{
	struct offload_options values;
	struct options options;
	int first, code;

	if (command_parse(&command, argc, argv, &values, &options, &first,
			  &code))
		code = run_both(&values);
	options_release(&options);
	return code;
}
