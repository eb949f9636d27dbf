/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_BENCH_TABLE_H
#define PAGEFS_TOOLS_BENCH_TABLE_H

/*
 * The figures of a benchmark: printed as a table while it runs, written as
 * JSON at its end. Every figure stands beside a yardstick that was measured in
 * the same run, right before or after it; a ratio under 1 is better than the
 * yardstick (all values are costs: times, or bytes).
 */

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct bench_row {
	const char *name;    /* "read", "stat missing" */
	uint64_t size_bytes; /* of a page; 0: does not matter */
	unsigned threads;
	double value; /* median */
	const char *unit;
	const char *yardstick; /* "tmpfs"; NULL: none */
	double yardstick_value;
	const char *mode; /* "memory", "disk", "names" */
};

struct bench_table {
	json_t *rows;
	int silent;
};

/* 0 or -ENOMEM. */
int bench_table_init(struct bench_table *table, int silent);
void bench_table_add(struct bench_table *table, const struct bench_row *row);
/* Prints the rows as JSON where the table is silent, and writes them to `path`
 * where that is not NULL: 0, or -1 and errno. */
int bench_table_finish(const struct bench_table *table, const char *path);
void bench_table_release(struct bench_table *table);

#endif
