/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/option.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/lib/clock.h"
#include "tools/lib/size.h"
#include "tools/lib/strbuf.h"

static const struct {
	const char *name;
	double ns;
} durations[] = {
	{"ns", 1},   {"us", 1e3},   {"ms", 1e6},    {"s", 1e9},
	{"m", 60e9}, {"h", 3600e9}, {"d", 86400e9},
};
#define DURATIONS (sizeof(durations) / sizeof(durations[0]))

/* The field, as the type that the option's has. */
#define FIELD(spec, values, type)                                              \
	((type *)(void *)((char *)(values) + (spec)->offset))
#define CONST_FIELD(spec, values, type)                                        \
	((type const *)(const void *)((const char *)(values) + (spec)->offset))

static int parse_flag(const char *text, bool *ret, struct strbuf *error)
{
	static const struct {
		const char *name;
		bool value;
	} names[] = {
		{"yes", true}, {"no", false},  {"true", true}, {"false", false},
		{"on", true},  {"off", false}, {"1", true},    {"0", false},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcasecmp(names[i].name, text) == 0) {
			*ret = names[i].value;
			return 0;
		}
	}
	strbuf_puts(error, "must be yes or no");
	return -EINVAL;
}

static int parse_string(const char *text, char **ret)
{
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	free(*ret);
	*ret = copy;
	return 0;
}

/* Adds "must be from 1 to 5" where the value is outside of the bounds. */
static int check_bounds(const struct option_spec *spec, double value,
			struct strbuf *error)
{
	char min[SIZE_TEXT_MAX], max[SIZE_TEXT_MAX];

	if (spec->min == 0 && spec->max == 0)
		return 0;
	if (value >= spec->min && value <= spec->max)
		return 0;
	if (spec->type == OPTION_SIZE)
		strbuf_printf(
			error, "must be from %s to %s",
			size_format((uint64_t)spec->min, min, sizeof(min)),
			size_format((uint64_t)spec->max, max, sizeof(max)));
	else
		strbuf_printf(error, "must be from %.15g to %.15g", spec->min,
			      spec->max);
	return -EINVAL;
}

static int parse_size(const struct option_spec *spec, const char *text,
		      uint64_t *ret, struct strbuf *error)
{
	uint64_t bytes = 0;
	enum size_outcome outcome = size_parse(text, &bytes);

	if (outcome != SIZE_OK) {
		strbuf_puts(error, size_outcome_text(outcome));
		return -EINVAL;
	}
	if (check_bounds(spec, (double)bytes, error) < 0)
		return -EINVAL;
	*ret = bytes;
	return 0;
}

static int parse_size_or_percent(const char *text, struct size_or_percent *ret,
				 struct strbuf *error)
{
	enum size_outcome outcome = size_or_percent_parse(text, ret);

	if (outcome == SIZE_OK)
		return 0;
	strbuf_puts(error, size_outcome_text(outcome));
	return -EINVAL;
}

static int parse_integer(const struct option_spec *spec, const char *text,
			 int64_t *ret, struct strbuf *error)
{
	bool number = isdigit((unsigned char)text[text[0] == '-']);
	char *end;
	intmax_t value;

	errno = 0;
	value = strtoimax(text, &end, 10);
	if (!number || *end != '\0' || errno != 0) {
		strbuf_puts(error, "must be a whole number");
		return -EINVAL;
	}
	if (check_bounds(spec, (double)value, error) < 0)
		return -EINVAL;
	*ret = value;
	return 0;
}

/* A decimal number, without what else strtod takes: "inf", "nan", "0x1p3". */
static bool read_real(const char *text, double *ret, char **ret_end)
{
	const char *digits = text + (text[0] == '-');

	if (!isdigit((unsigned char)digits[0]) || digits[1] == 'x' ||
	    digits[1] == 'X')
		return false;
	*ret = strtod(text, ret_end);
	return isfinite(*ret);
}

static int parse_real(const struct option_spec *spec, const char *text,
		      double *ret, struct strbuf *error)
{
	double value;
	char *end;

	if (!read_real(text, &value, &end) || *end != '\0') {
		strbuf_puts(error, "must be a number");
		return -EINVAL;
	}
	if (check_bounds(spec, value, error) < 0)
		return -EINVAL;
	*ret = value;
	return 0;
}

static int parse_octal(const char *text, uint32_t *ret, struct strbuf *error)
{
	size_t len = strlen(text);

	if (len == 0 || len > 6 || strspn(text, "01234567") != len) {
		strbuf_puts(error, "must be an octal number such as 022");
		return -EINVAL;
	}
	*ret = (uint32_t)strtoul(text, NULL, 8);
	return 0;
}

static int parse_choice(const struct option_spec *spec, const char *text,
			int *ret, struct strbuf *error)
{
	for (int i = 0; spec->choices[i]; i++) {
		if (strcmp(spec->choices[i], text) == 0) {
			*ret = i;
			return 0;
		}
	}
	strbuf_puts(error, "must be one of");
	for (int i = 0; spec->choices[i]; i++)
		strbuf_printf(error, "%s %s", i ? "," : "", spec->choices[i]);
	return -EINVAL;
}

static int parse_duration(const struct option_spec *spec, const char *text,
			  uint64_t *ret, struct strbuf *error)
{
	double value, ns = -1;
	char *end;

	if (read_real(text, &value, &end)) {
		if (*end == '\0')
			ns = value * 1e9;
		for (size_t i = 0; i < DURATIONS; i++) {
			if (strcmp(durations[i].name, end) == 0)
				ns = value * durations[i].ns;
		}
	}
	/* Some 290 years; beyond, a deadline would wrap around. */
	if (!(ns >= 0 && ns <= 9.2e18)) {
		strbuf_puts(error, "must be a time such as 200ms, 1.5s, 10m, "
				   "2h or 7d");
		return -EINVAL;
	}
	if (check_bounds(spec, ns / 1e9, error) < 0)
		return -EINVAL;
	*ret = (uint64_t)ns;
	return 0;
}

int option_parse(const struct option_spec *spec, const char *text, void *values,
		 struct strbuf *error)
{
	switch (spec->type) {
	case OPTION_FLAG:
		return parse_flag(text, FIELD(spec, values, bool), error);
	case OPTION_STRING:
		return parse_string(text, FIELD(spec, values, char *));
	case OPTION_SIZE:
		return parse_size(spec, text, FIELD(spec, values, uint64_t),
				  error);
	case OPTION_SIZE_OR_PERCENT:
		return parse_size_or_percent(
			text, FIELD(spec, values, struct size_or_percent),
			error);
	case OPTION_INTEGER:
		return parse_integer(spec, text, FIELD(spec, values, int64_t),
				     error);
	case OPTION_REAL:
		return parse_real(spec, text, FIELD(spec, values, double),
				  error);
	case OPTION_OCTAL:
		return parse_octal(text, FIELD(spec, values, uint32_t), error);
	case OPTION_CHOICE:
		return parse_choice(spec, text, FIELD(spec, values, int),
				    error);
	case OPTION_DURATION:
		return parse_duration(spec, text, FIELD(spec, values, uint64_t),
				      error);
	case OPTION_LIST:
		break;
	}
	assert(spec->type != OPTION_LIST);
	return -EINVAL;
}

/* Room for a value of any type. */
union any_value {
	bool flag;
	char *string;
	struct size_or_percent size;
	int64_t integer;
	double real;
	uint32_t octal;
	int choice;
	uint64_t bytes_or_ns;
};

int option_check(const struct option_spec *spec, const char *text,
		 struct strbuf *error)
{
	struct option_spec scratch = *spec;
	union any_value value = {0};
	int r;

	scratch.offset = 0;
	r = option_parse(&scratch, text, &value, error);
	option_release(&scratch, &value);
	return r;
}

void option_clear(const struct option_spec *spec, void *values)
{
	static const size_t sizes[] = {
		[OPTION_FLAG] = sizeof(bool),
		[OPTION_STRING] = sizeof(char *),
		[OPTION_SIZE] = sizeof(uint64_t),
		[OPTION_SIZE_OR_PERCENT] = sizeof(struct size_or_percent),
		[OPTION_INTEGER] = sizeof(int64_t),
		[OPTION_REAL] = sizeof(double),
		[OPTION_OCTAL] = sizeof(uint32_t),
		[OPTION_CHOICE] = sizeof(int),
		[OPTION_DURATION] = sizeof(uint64_t),
		[OPTION_LIST] = 0,
	};

	memset((char *)values + spec->offset, 0, sizes[spec->type]);
}

/* In the largest unit that leaves no rest. */
static void print_duration(uint64_t ns, struct strbuf *out)
{
	size_t i = DURATIONS - 1;

	while (ns % (uint64_t)durations[i].ns != 0)
		i--;
	if (ns == 0)
		strbuf_puts(out, "0s");
	else
		strbuf_printf(out, "%" PRIu64 "%s",
			      ns / (uint64_t)durations[i].ns,
			      durations[i].name);
}

static void print_size_or_percent(const struct size_or_percent *size,
				  struct strbuf *out)
{
	char text[SIZE_TEXT_MAX];

	if (size->percent > 0)
		strbuf_printf(out, "%.15g%%", size->percent);
	else
		strbuf_puts(out, size_format(size->bytes, text, sizeof(text)));
}

void option_print(const struct option_spec *spec, const void *values,
		  struct strbuf *out)
{
	char text[SIZE_TEXT_MAX];
	const char *string;

	switch (spec->type) {
	case OPTION_FLAG:
		strbuf_puts(out,
			    *CONST_FIELD(spec, values, bool) ? "yes" : "no");
		break;
	case OPTION_STRING:
		string = *CONST_FIELD(spec, values, char *);
		strbuf_puts(out, string ? string : "");
		break;
	case OPTION_SIZE:
		strbuf_puts(out,
			    size_format(*CONST_FIELD(spec, values, uint64_t),
					text, sizeof(text)));
		break;
	case OPTION_SIZE_OR_PERCENT:
		print_size_or_percent(
			CONST_FIELD(spec, values, struct size_or_percent), out);
		break;
	case OPTION_INTEGER:
		strbuf_printf(out, "%" PRId64,
			      *CONST_FIELD(spec, values, int64_t));
		break;
	case OPTION_REAL:
		strbuf_printf(out, "%.15g", *CONST_FIELD(spec, values, double));
		break;
	case OPTION_OCTAL:
		strbuf_printf(out, "%03" PRIo32,
			      *CONST_FIELD(spec, values, uint32_t));
		break;
	case OPTION_CHOICE:
		strbuf_puts(out,
			    spec->choices[*CONST_FIELD(spec, values, int)]);
		break;
	case OPTION_DURATION:
		print_duration(*CONST_FIELD(spec, values, uint64_t), out);
		break;
	case OPTION_LIST:
		break;
	}
}

void option_release(const struct option_spec *spec, void *values)
{
	char **string;

	if (spec->type != OPTION_STRING)
		return;
	string = FIELD(spec, values, char *);
	free(*string);
	*string = NULL;
}

const char *option_argument(const struct option_spec *spec)
{
	static const char *const names[] = {
		[OPTION_FLAG] = "",
		[OPTION_STRING] = "TEXT",
		[OPTION_SIZE] = "SIZE",
		[OPTION_SIZE_OR_PERCENT] = "SIZE|PERCENT",
		[OPTION_INTEGER] = "N",
		[OPTION_REAL] = "NUMBER",
		[OPTION_OCTAL] = "OCTAL",
		[OPTION_CHOICE] = "WHICH",
		[OPTION_DURATION] = "TIME",
		[OPTION_LIST] = "NAME[=VALUE],...",
	};

	return spec->argument ? spec->argument : names[spec->type];
}
