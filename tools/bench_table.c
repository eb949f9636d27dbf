/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_table.h"

#include <errno.h>
#include <stdio.h>

#include "tools/lib/size.h"

int bench_table_init(struct bench_table *table, int silent)
{
	table->rows = json_array();
	table->silent = silent;
	if (!table->rows)
		return -ENOMEM;
	if (!silent)
		printf("%-16s %-8s %8s %3s %14s %-6s %14s %-12s %6s\n", "case",
		       "mode", "size", "thr", "value", "unit", "yardstick", "",
		       "ratio");
	return 0;
}

static void print_row(const struct bench_row *row)
{
	char size[SIZE_TEXT_MAX] = "-";

	if (row->size_bytes)
		size_format(row->size_bytes, size, sizeof(size));
	printf("%-16s %-8s %8s %3u %14.2f %-6s", row->name, row->mode, size,
	       row->threads, row->value, row->unit);
	if (row->yardstick)
		printf(" %14.2f %-12s %6.2f", row->yardstick_value,
		       row->yardstick, row->value / row->yardstick_value);
	putchar('\n');
	fflush(stdout);
}

void bench_table_add(struct bench_table *table, const struct bench_row *row)
{
	json_t *object = json_pack(
		"{s:s, s:I, s:i, s:f, s:s, s:s?, s:f, s:f, s:s}", "case",
		row->name, "size", (json_int_t)row->size_bytes, "threads",
		(int)row->threads, "value", row->value, "unit", row->unit,
		"yardstick", row->yardstick, "yardstick_value",
		row->yardstick ? row->yardstick_value : 0.0, "ratio",
		row->yardstick && row->yardstick_value > 0
			? row->value / row->yardstick_value
			: 0.0,
		"mode", row->mode);

	json_array_append_new(table->rows, object);
	if (!table->silent)
		print_row(row);
}

int bench_table_finish(const struct bench_table *table, const char *path)
{
	size_t flags = JSON_INDENT(1) | JSON_REAL_PRECISION(6);

	if (table->silent) {
		json_dumpf(table->rows, stdout, flags);
		putchar('\n');
	}
	return path ? json_dump_file(table->rows, path, flags) : 0;
}

void bench_table_release(struct bench_table *table)
{
	json_decref(table->rows);
}
