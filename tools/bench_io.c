/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/bench_cpu.h"
#include "tools/bench_daemon.h"
#include "tools/bench_files.h"
#include "tools/bench_fio.h"
#include "tools/bench_samples.h"
#include "tools/bench_table.h"
#include "tools/command.h"
#include "tools/lib/size.h"

struct io_options {
	char *output;
	char *directory;
	char *tmpfs;
	uint64_t memory;
	int64_t runs;
	uint64_t size;
	int64_t threads;
	bool quick;
	bool json;
};

#define FIELD(name) .offset = offsetof(struct io_options, name)

static const struct option_spec specs[] = {
	{.name = "output",
	 .type = OPTION_STRING,
	 FIELD(output),
	 .argument = "FILE",
	 .help = "also write the rows there, as JSON"},
	{.name = "directory",
	 .type = OPTION_STRING,
	 FIELD(directory),
	 .argument = "DIR",
	 .help = "where the disk tier and its yardstick go",
	 .initial = "/var/tmp"},
	{.name = "tmpfs",
	 .type = OPTION_STRING,
	 FIELD(tmpfs),
	 .argument = "DIR",
	 .help = "where memory's yardstick goes",
	 .initial = "/dev/shm"},
	{.name = "memory",
	 .type = OPTION_SIZE,
	 FIELD(memory),
	 .help = "memory tier",
	 .initial = "1G"},
	{.name = "runs",
	 .type = OPTION_INTEGER,
	 FIELD(runs),
	 .help = "of each case; the median counts",
	 .initial = "5",
	 .min = 1,
	 .max = 99},
	{.name = "size",
	 .type = OPTION_SIZE,
	 FIELD(size),
	 .help = "pages of this size only",
	 .initial_help = "five sizes from 64K to 16M"},
	{.name = "threads",
	 .type = OPTION_INTEGER,
	 FIELD(threads),
	 .help = "this many threads only",
	 .initial_help = "1, 4 and 16",
	 .max = 64},
	{.name = "quick",
	 .type = OPTION_FLAG,
	 FIELD(quick),
	 .help = "one size and thread count a case: does it work at all?"},
	{.name = "json",
	 .type = OPTION_FLAG,
	 FIELD(json),
	 .help = "print JSON instead of a table"},
	{.name = NULL},
};

static const struct command command = {
	.name = "bench io",
	.arguments = "[OPTION]...",
	.summary =
		"Time file operations on a mount beside tmpfs, ext4 and fio.",
	.detail = "Values are costs: time an operation (wall time over the "
		  "operations of all\nthreads), so a ratio below 1 is better "
		  "than the yardstick. Both are measured\nin turn, and the "
		  "median of the runs counts.",
	.examples = "  pagefs bench io --output build/bench.json\n"
		    "  pagefs bench io --quick",
	.specs = specs,
};

#define NAMES_COUNT 100000u
#define CASE_BYTES ((size_t)256 << 20) /* pages of one case, in all */

struct bench {
	const struct io_options *options;
	struct bench_daemon daemon;
	struct bench_table table;
	char tmpfs[4200];
	char ext4[4200];
};

/* Both sides of a figure: the same work on two directories, in turn. */
struct pair {
	struct files_work ours;
	struct files_work yardstick;
	int (*before)(struct bench *bench, const struct files_work *work);
	double (*operation)(const struct files_work *work);
};

static int add_sample(struct samples *samples, double seconds)
{
	if (seconds < 0)
		return (int)seconds;
	return samples_add(samples, (uint64_t)(seconds * 1e12));
}

static double median_us(struct samples *samples)
{
	double ps = (double)samples_percentile(samples, 0.5);

	samples_release(samples);
	return ps * 1e-6;
}

static int measure(struct bench *bench, const struct pair *pair,
		   double *ret_ours_us, double *ret_yardstick_us)
{
	struct samples ours = {0}, yardstick = {0};
	int error = 0;

	for (int64_t i = 0; !error && i < bench->options->runs; i++) {
		if (pair->before)
			error = pair->before(bench, &pair->ours);
		if (!error && pair->before)
			error = pair->before(bench, &pair->yardstick);
		if (!error)
			error = add_sample(&ours, pair->operation(&pair->ours));
		if (!error)
			error = add_sample(&yardstick,
					   pair->operation(&pair->yardstick));
	}
	*ret_ours_us = median_us(&ours);
	*ret_yardstick_us = median_us(&yardstick);
	return error;
}

static int bench_pair(struct bench *bench, const struct pair *pair,
		      const char *name, const char *mode, const char *yardstick)
{
	struct bench_row row = {.name = name,
				.mode = mode,
				.unit = "us",
				.size_bytes = pair->ours.page_bytes,
				.threads = pair->ours.threads,
				.yardstick = yardstick};
	int error = measure(bench, pair, &row.value, &row.yardstick_value);

	if (error)
		return command_fail(&command, "%s, %s: %s", name, mode,
				    strerror(-error));
	bench_table_add(&bench->table, &row);
	return COMMAND_OK;
}

static int remove_files(struct bench *bench, const struct files_work *work)
{
	(void)bench;
	return files_remove(work);
}

static bool on_mount(const struct bench *bench, const struct files_work *work)
{
	return work->directory == bench->daemon.mount;
}

static int evict_files(struct bench *bench, const struct files_work *work)
{
	return on_mount(bench, work)
		       ? bench_daemon_control(&bench->daemon, "evict", "*")
		       : 0;
}

static unsigned pages_of(size_t page_bytes, unsigned threads)
{
	size_t pages = CASE_BYTES / page_bytes;

	if (pages > 1024)
		pages = 1024;
	return (unsigned)(pages > threads ? pages : threads);
}

static int bench_memory(struct bench *bench, size_t page_bytes,
			unsigned threads)
{
	struct files_work work = {.directory = bench->daemon.mount,
				  .page_bytes = page_bytes,
				  .pages = pages_of(page_bytes, threads),
				  .threads = threads};
	struct pair pair = {.ours = work, .yardstick = work};
	int code;

	pair.yardstick.directory = bench->tmpfs;
	pair.before = remove_files;
	pair.operation = files_write;
	code = bench_pair(bench, &pair, "write", "memory", "tmpfs");
	pair.before = NULL;
	pair.operation = files_read;
	if (code == COMMAND_OK)
		code = bench_pair(bench, &pair, "read", "memory", "tmpfs");
	files_remove(&pair.ours);
	files_remove(&pair.yardstick);
	return code;
}

static int bench_disk(struct bench *bench, size_t page_bytes, unsigned threads)
{
	struct files_work work = {.directory = bench->daemon.mount,
				  .page_bytes = page_bytes,
				  .pages = pages_of(page_bytes, threads),
				  .threads = threads,
				  .sync = true};
	struct pair pair = {.ours = work, .yardstick = work};
	int code;

	pair.yardstick.directory = bench->ext4;
	pair.yardstick.direct = true;
	pair.before = remove_files;
	pair.operation = files_write;
	code = bench_pair(bench, &pair, "write, fsync", "disk", "ext4 direct");
	pair.before = evict_files;
	pair.operation = files_read;
	if (code == COMMAND_OK)
		code = bench_pair(bench, &pair, "read", "disk", "ext4 direct");
	files_remove(&pair.ours);
	files_remove(&pair.yardstick);
	return code;
}

/* An engine's batch: 128 pages by 32 readers, beside fio on the same files. */
static int bench_batch(struct bench *bench)
{
	struct files_work work = {.directory = bench->daemon.mount,
				  .page_bytes = 3670016,
				  .pages = 128,
				  .threads = 32};
	struct bench_row row = {.name = "read 128",
				.mode = "disk",
				.size_bytes = work.page_bytes,
				.threads = work.threads,
				.unit = "us",
				.yardstick = "fio QD 32"};
	struct samples ours = {0}, fio = {0};
	int error = 0;
	double seconds = files_write(&work);

	if (seconds < 0)
		error = (int)seconds;
	for (int64_t i = 0; !error && i < bench->options->runs; i++) {
		error = evict_files(bench, &work);
		if (!error)
			error = add_sample(&ours, files_read(&work));
		if (!error)
			error = add_sample(&fio,
					   bench_fio_read(bench->daemon.disk,
							  work.page_bytes));
	}
	files_remove(&work);
	row.value = median_us(&ours);
	row.yardstick_value = median_us(&fio);
	if (error == -ENOENT) {
		fprintf(stderr, "SKIP: read 128: fio is not installed\n");
		return COMMAND_OK;
	}
	if (error)
		return command_fail(&command, "read 128: %s", strerror(-error));
	bench_table_add(&bench->table, &row);
	return COMMAND_OK;
}

static int bench_names(struct bench *bench)
{
	struct files_work work = {.directory = bench->daemon.mount,
				  .pages = bench->options->quick ? 1000
								 : NAMES_COUNT,
				  .threads = 1};
	struct pair pair = {.ours = work, .yardstick = work};
	int code;

	pair.yardstick.directory = bench->tmpfs;
	pair.before = remove_files;
	pair.operation = files_create;
	code = bench_pair(bench, &pair, "create empty", "names", "tmpfs");
	pair.before = NULL;
	pair.operation = files_stat;
	if (code == COMMAND_OK)
		code = bench_pair(bench, &pair, "stat", "names", "tmpfs");
	pair.operation = files_stat_missing;
	if (code == COMMAND_OK)
		code = bench_pair(bench, &pair, "stat missing", "names",
				  "tmpfs");
	pair.operation = files_list;
	if (code == COMMAND_OK)
		code = bench_pair(bench, &pair, "list all", "names", "tmpfs");
	files_remove(&pair.ours);
	files_remove(&pair.yardstick);
	return code;
}

/* CPU seconds of this program and the daemon together, in ms a GB. */
static int cpu_sample(struct bench *bench, const struct files_work *work,
		      double (*operation)(const struct files_work *work),
		      struct samples *samples)
{
	double gigabytes =
		(double)work->page_bytes * (double)work->pages * 1e-9;
	double from, seconds = files_remove(work);

	if (seconds >= 0 && operation == files_read)
		seconds = files_write(work);
	from = bench_cpu_seconds(&bench->daemon);
	if (seconds >= 0)
		seconds = operation(work);
	if (seconds < 0)
		return (int)seconds;
	seconds = bench_cpu_seconds(&bench->daemon) - from;
	return add_sample(samples, seconds / gigabytes);
}

static int cpu_of(struct bench *bench, const char *name,
		  double (*operation)(const struct files_work *work))
{
	struct files_work ours = {.directory = bench->daemon.mount,
				  .page_bytes = 3670016,
				  .pages = 64,
				  .threads = 4};
	struct files_work yardstick = ours;
	struct samples samples[2] = {{0}, {0}};
	struct bench_row row = {.name = name,
				.mode = "memory",
				.unit = "ms/GB",
				.size_bytes = ours.page_bytes,
				.threads = ours.threads,
				.yardstick = "tmpfs"};
	int error = 0;

	yardstick.directory = bench->tmpfs;
	for (int64_t i = 0; !error && i < bench->options->runs; i++) {
		error = cpu_sample(bench, &ours, operation, &samples[0]);
		if (!error)
			error = cpu_sample(bench, &yardstick, operation,
					   &samples[1]);
	}
	files_remove(&ours);
	files_remove(&yardstick);
	row.value = median_us(&samples[0]) * 1e-3;
	row.yardstick_value = median_us(&samples[1]) * 1e-3;
	if (error)
		return command_fail(&command, "%s: %s", name, strerror(-error));
	bench_table_add(&bench->table, &row);
	return COMMAND_OK;
}

static void bench_idle_memory(struct bench *bench)
{
	struct bench_row row = {
		.name = "idle memory", .mode = "memory", .unit = "MiB"};

	row.value = bench_private_bytes(&bench->daemon) / (1 << 20);
	bench_table_add(&bench->table, &row);
}

static bool is_asked_for(const struct io_options *options, size_t page_bytes,
			 unsigned threads)
{
	if (options->quick)
		return page_bytes == 1 << 20 && threads == 4;
	return (!options->size || page_bytes == options->size) &&
	       (!options->threads || threads == (unsigned)options->threads);
}

static int bench_pages(struct bench *bench)
{
	static const size_t sizes[] = {64 << 10, 256 << 10, 1 << 20, 3670016,
				       16 << 20};
	static const unsigned threads[] = {1, 4, 16};
	int code = COMMAND_OK;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (size_t j = 0; j < 3 && code == COMMAND_OK; j++) {
			if (!is_asked_for(bench->options, sizes[i], threads[j]))
				continue;
			code = bench_memory(bench, sizes[i], threads[j]);
			if (code == COMMAND_OK)
				code = bench_disk(bench, sizes[i], threads[j]);
		}
	return code;
}

/* The batch comes first: fio reads all the buckets there are, which must hold
 * nothing else. */
static int run_cases(struct bench *bench)
{
	bool part = bench->options->size || bench->options->threads;
	int code = COMMAND_OK;

	bench_idle_memory(bench);
	if (!part)
		code = bench_batch(bench);
	if (code == COMMAND_OK)
		code = bench_pages(bench);
	if (code == COMMAND_OK && !part)
		code = bench_names(bench);
	if (code == COMMAND_OK && !part)
		code = cpu_of(bench, "cpu of read", files_read);
	if (code == COMMAND_OK && !part)
		code = cpu_of(bench, "cpu of write", files_write);
	return code;
}

static int run_bench(const struct io_options *options)
{
	char memory[SIZE_TEXT_MAX];
	const char *arguments[] = {
		"--memory",
		size_format(options->memory, memory, sizeof(memory)), NULL};
	struct bench bench = {.options = options};
	int code, error = bench_daemon_start(&bench.daemon, options->directory,
					     arguments);

	if (error)
		return command_fail(&command, "%s: %s", options->directory,
				    strerror(-error));
	snprintf(bench.ext4, sizeof(bench.ext4), "%s/yardstick",
		 bench.daemon.root);
	snprintf(bench.tmpfs, sizeof(bench.tmpfs), "%s/pagefs-bench.%d",
		 options->tmpfs, (int)getpid());
	if (mkdir(bench.ext4, 0700) || mkdir(bench.tmpfs, 0700) ||
	    bench_table_init(&bench.table, options->json))
		code = command_fail(&command, "%s: %s", bench.tmpfs,
				    strerror(errno));
	else
		code = run_cases(&bench);
	rmdir(bench.tmpfs);
	if (bench_daemon_stop(&bench.daemon))
		return command_fail(&command, "%s: could not be unmounted",
				    bench.daemon.mount);
	bench_daemon_remove(&bench.daemon);
	if (code == COMMAND_OK &&
	    bench_table_finish(&bench.table, options->output))
		code = command_fail(&command, "%s: %s", options->output,
				    strerror(errno));
	bench_table_release(&bench.table);
	return code;
}

int bench_io(int argc, char **argv)
{
	struct io_options values;
	struct options options;
	int first, code;

	if (command_parse(&command, argc, argv, &values, &options, &first,
			  &code))
		code = run_bench(&values);
	options_release(&options);
	return code;
}
