/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_VALUES_H
#define PAGEFS_FS_VALUES_H

/*
 * Facts and figures of a running daemon, gathered once and printed three ways:
 * as lines `name value`, as JSON, as metrics for Prometheus.  One thread at a
 * time; gathering allocates nothing.  Names and help are not copied.
 */

#include <stdint.h>

struct strbuf;

enum value_kind {
	VALUE_COUNTER, /* only grows */
	VALUE_GAUGE,
	VALUE_TEXT, /* a label's value in metrics */
};

#define VALUES_MAX 160u
#define VALUE_TEXT_MAX 256u

struct value {
	enum value_kind kind;
	const char *name; /* [a-z0-9_]; counters end in _total */
	const char *help; /* one sentence */
	double number;
	char text[VALUE_TEXT_MAX]; /* UTF-8 */
};

struct values {
	unsigned count; /* more than VALUES_MAX: an assert */
	struct value value[VALUES_MAX];
};

void values_add(struct values *values, enum value_kind kind, const char *name,
		const char *help, double number);
/* Cut so that it fits; what is not UTF-8 (paths are any bytes) becomes '?'. */
void values_add_text(struct values *values, const char *name, const char *help,
		     const char *text);

void values_print_lines(const struct values *values, struct strbuf *out);
void values_print_json(const struct values *values, struct strbuf *out);
/* Names get "pagefs_" before them. */
void values_print_metrics(const struct values *values, struct strbuf *out);

#endif
