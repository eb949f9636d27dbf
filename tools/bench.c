/* SPDX-License-Identifier: Apache-2.0 */

/* `pagefs bench`: which benchmark. */

#include <stdio.h>
#include <string.h>

#include "tools/bench_growth.h"
#include "tools/bench_io.h"
#include "tools/bench_offload.h"
#include "tools/command.h"
#include "tools/tools.h"

static const struct benchmark {
	const char *name;
	const char *summary;
	int (*run)(int argc, char **argv);
} benchmarks[] = {
	{"growth", "what a million pages cost", bench_growth},
	{"io", "file operations beside tmpfs, ext4 and fio", bench_io},
	{"offload", "reading back what memory has evicted", bench_offload},
};
#define BENCHMARKS (sizeof(benchmarks) / sizeof(*benchmarks))

static void print_help(FILE *out)
{
	fputs("Usage: pagefs bench NAME [OPTION]...\n\nBenchmarks:\n", out);
	for (size_t i = 0; i < BENCHMARKS; i++)
		fprintf(out, "  %-8s  %s\n", benchmarks[i].name,
			benchmarks[i].summary);
	fputs("\n'pagefs bench NAME --help' shows the options.\n", out);
}

int tool_bench(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return COMMAND_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		print_help(stdout);
		return COMMAND_OK;
	}
	for (size_t i = 0; i < BENCHMARKS; i++)
		if (!strcmp(argv[1], benchmarks[i].name))
			return benchmarks[i].run(argc - 1, argv + 1);
	fprintf(stderr, "pagefs bench: '%s' is no benchmark\n", argv[1]);
	print_help(stderr);
	return COMMAND_USAGE;
}
