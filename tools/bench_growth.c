/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_growth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/bench_cpu.h"
#include "tools/bench_daemon.h"
#include "tools/bench_files.h"
#include "tools/bench_table.h"
#include "tools/command.h"
#include "tools/lib/clock.h"
#include "tools/lib/size.h"

struct growth_options {
	int64_t pages;
	uint64_t page_size;
	char *directory;
	char *output;
	bool json;
};

#define FIELD(name) .offset = offsetof(struct growth_options, name)

static const struct option_spec specs[] = {
	{.name = "pages",
	 .type = OPTION_INTEGER,
	 FIELD(pages),
	 .help = "how many",
	 .initial = "1000000",
	 .min = 1000,
	 .max = 1e8},
	{.name = "page-size",
	 .type = OPTION_SIZE,
	 FIELD(page_size),
	 .help = "bytes of each",
	 .initial = "512",
	 .min = 1,
	 .max = 1 << 20},
	{.name = "directory",
	 .type = OPTION_STRING,
	 FIELD(directory),
	 .argument = "DIR",
	 .help = "where the disk tier goes: 8 KiB a small page",
	 .initial = "/var/tmp"},
	{.name = "output",
	 .type = OPTION_STRING,
	 FIELD(output),
	 .argument = "FILE",
	 .help = "also write the rows there, as JSON"},
	{.name = "json",
	 .type = OPTION_FLAG,
	 FIELD(json),
	 .help = "print JSON instead of a table"},
	{.name = NULL},
};

static const struct command command = {
	.name = "bench growth",
	.arguments = "[OPTION]...",
	.summary = "Measure what very many pages cost beside their bytes.",
	.detail = "Memory a page is the daemon's own memory, both indexes "
		  "(as if wholly in the\npage cache) and the arena's headers, "
		  "less what an empty mount has. The start\nis timed until "
		  "the mount serves: after a clean stop, and after kill -9.",
	.examples = "  pagefs bench growth --pages 100000\n"
		    "  pagefs bench growth --output build/growth.json",
	.specs = specs,
};

/* struct arena_slot_header; the arena's own figures leave it out. */
#define SLOT_HEADER_BYTES 64

struct growth {
	const struct growth_options *options;
	struct bench_daemon daemon;
	struct bench_table table;
	const char *const *arguments;
	struct files_work work;
};

static double beside_the_arena(const struct bench_daemon *daemon)
{
	return bench_anonymous_bytes(daemon) +
	       (double)bench_daemon_counter(daemon, "index_disk_bytes") +
	       (double)bench_daemon_counter(daemon, "index_memory_bytes") +
	       (double)bench_daemon_counter(daemon, "memory_live_slots") *
		       SLOT_HEADER_BYTES;
}

static void add(struct growth *growth, const char *name, double value,
		const char *unit, const char *mode)
{
	struct bench_row row = {.name = name,
				.value = value,
				.unit = unit,
				.mode = mode,
				.threads = 1,
				.size_bytes = growth->options->page_size};

	bench_table_add(&growth->table, &row);
}

/* The kernel's own entries are not what is measured; dropping them also lets
 * the daemon forget the nodes behind them. Without the right to do so the
 * figures come out higher. */
static void drop_kernel_entries(void)
{
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, "2", 1);
	close(fd);
}

static int restart(struct growth *growth, bool clean, const char *name)
{
	int error = clean ? bench_daemon_stop(&growth->daemon)
			  : bench_daemon_kill(&growth->daemon);
	uint64_t from = clock_monotonic_ns();

	if (!error)
		error = bench_daemon_mount(&growth->daemon, growth->arguments);
	if (!error)
		add(growth, name, (double)(clock_monotonic_ns() - from) * 1e-6,
		    "ms", "disk");
	return error;
}

static int grow(struct growth *growth)
{
	double empty = beside_the_arena(&growth->daemon), full;
	double pages = (double)growth->options->pages;
	double seconds = files_write(&growth->work);
	int error;

	if (seconds < 0)
		return (int)seconds;
	add(growth, "write", seconds * 1e6, "us", "memory");
	error = bench_daemon_control(&growth->daemon, "sync", "1");
	if (error)
		return error;
	drop_kernel_entries();
	full = beside_the_arena(&growth->daemon) - empty;
	add(growth, "memory a page", full / pages, "bytes", "both");
	error = restart(growth, true, "start, clean");
	if (!error)
		error = restart(growth, false, "start, killed");
	if (!error)
		error = bench_daemon_control(&growth->daemon, "evict", "*");
	if (error)
		return error;
	full = beside_the_arena(&growth->daemon) - empty;
	add(growth, "memory a page", full / pages, "bytes", "disk");
	seconds = files_stat(&growth->work);
	if (seconds >= 0)
		add(growth, "stat, cold", seconds * 1e6, "us", "disk");
	if (seconds >= 0)
		seconds = files_list(&growth->work);
	if (seconds >= 0)
		add(growth, "list all", seconds * 1e3, "ms", "disk");
	return seconds < 0 ? (int)seconds : 0;
}

static int run_growth(const struct growth_options *options)
{
	char memory[SIZE_TEXT_MAX];
	uint64_t slots = (uint64_t)options->pages *
			 ((options->page_size + 4095) / 4096 * 4096 + 64);
	/* All pages below the watermark, and a region to spare. */
	const char *arguments[] = {
		"--memory",
		size_format((slots / 8 * 9 + (300u << 20)) & ~4095ull, memory,
			    sizeof(memory)),
		NULL};
	struct growth growth = {.options = options,
				.arguments = arguments,
				.work = {.page_bytes = options->page_size,
					 .pages = (unsigned)options->pages,
					 .threads = 4}};
	int code = COMMAND_OK, error;

	error = bench_daemon_start(&growth.daemon, options->directory,
				   arguments);
	if (error)
		return command_fail(&command, "%s: %s", options->directory,
				    strerror(-error));
	growth.work.directory = growth.daemon.mount;
	error = bench_table_init(&growth.table, options->json);
	if (!error)
		error = grow(&growth);
	if (error)
		code = command_fail(&command, "%s", strerror(-error));
	if (bench_daemon_stop(&growth.daemon))
		return command_fail(&command, "%s: could not be unmounted",
				    growth.daemon.mount);
	bench_daemon_remove(&growth.daemon);
	if (code == COMMAND_OK)
		code = bench_table_finish(&growth.table, options->output)
			       ? command_fail(&command, "%s: %s",
					      options->output, strerror(errno))
			       : COMMAND_OK;
	bench_table_release(&growth.table);
	return code;
}

int bench_growth(int argc, char **argv)
{
	struct growth_options values;
	struct options options;
	int first, code;

	if (command_parse(&command, argc, argv, &values, &options, &first,
			  &code))
		code = run_growth(&values);
	options_release(&options);
	return code;
}
