/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/size.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct {
	const char *name;
	uint64_t bytes;
} units[] = {
	{"", 1},
	{"B", 1},
	{"K", UINT64_C(1) << 10},
	{"M", UINT64_C(1) << 20},
	{"G", UINT64_C(1) << 30},
	{"T", UINT64_C(1) << 40},
	{"KiB", UINT64_C(1) << 10},
	{"MiB", UINT64_C(1) << 20},
	{"GiB", UINT64_C(1) << 30},
	{"TiB", UINT64_C(1) << 40},
	{"KB", UINT64_C(1000)},
	{"MB", UINT64_C(1000000)},
	{"GB", UINT64_C(1000000000)},
	{"TB", UINT64_C(1000000000000)},
};

/* "12.5": 125 over 10. Digits of a fraction past the 18th are dropped. */
struct decimal {
	uint64_t whole;
	uint64_t fraction; /* over scale */
	uint64_t scale;	   /* a power of ten */
	bool has_point;
};

static enum size_outcome read_decimal(const char **text, struct decimal *ret)
{
	const char *p = *text;

	*ret = (struct decimal){.scale = 1};
	if (*p == '\0')
		return SIZE_EMPTY;
	if (!isdigit((unsigned char)*p))
		return SIZE_NO_NUMBER;
	for (; isdigit((unsigned char)*p); p++) {
		uint64_t digit = (uint64_t)(*p - '0');

		if (ret->whole > (UINT64_MAX - digit) / 10)
			return SIZE_TOO_LARGE;
		ret->whole = ret->whole * 10 + digit;
	}
	if (*p == '.') {
		ret->has_point = true;
		p++;
		if (!isdigit((unsigned char)*p))
			return SIZE_NO_NUMBER;
		for (; isdigit((unsigned char)*p); p++) {
			if (ret->scale >= UINT64_C(1000000000000000000))
				continue;
			ret->scale *= 10;
			ret->fraction =
				ret->fraction * 10 + (uint64_t)(*p - '0');
		}
	}
	while (*p == ' ')
		p++;
	*text = p;
	return SIZE_OK;
}

static enum size_outcome scale_decimal(const struct decimal *number,
				       const char *unit, uint64_t *ret)
{
	/* GCC and clang have it on each 64-bit machine; C does not. */
	__extension__ typedef unsigned __int128 wide;

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		wide bytes;

		if (strcasecmp(units[i].name, unit) != 0)
			continue;
		if (number->has_point && units[i].bytes == 1)
			return SIZE_NO_UNIT;
		bytes = (wide)number->whole * units[i].bytes +
			(wide)number->fraction * units[i].bytes / number->scale;
		if (bytes > UINT64_MAX)
			return SIZE_TOO_LARGE;
		*ret = (uint64_t)bytes;
		return SIZE_OK;
	}
	return SIZE_BAD_UNIT;
}

enum size_outcome size_or_percent_parse(const char *text,
					struct size_or_percent *ret)
{
	struct size_or_percent result = {0};
	struct decimal number;
	enum size_outcome outcome = read_decimal(&text, &number);

	if (outcome != SIZE_OK)
		return outcome;
	if (strcmp(text, "%") != 0) {
		outcome = scale_decimal(&number, text, &result.bytes);
		if (outcome == SIZE_OK)
			*ret = result;
		return outcome;
	}
	result.percent = (double)number.whole +
			 (double)number.fraction / (double)number.scale;
	if (result.percent > 100)
		return SIZE_BAD_PERCENT;
	*ret = result;
	return SIZE_OK;
}

enum size_outcome size_parse(const char *text, uint64_t *ret_bytes)
{
	struct decimal number;
	enum size_outcome outcome = read_decimal(&text, &number);

	if (outcome != SIZE_OK)
		return outcome;
	if (strcmp(text, "%") == 0)
		return SIZE_NO_PERCENT;
	return scale_decimal(&number, text, ret_bytes);
}

const char *size_outcome_text(enum size_outcome outcome)
{
	static const char *const texts[] = {
		[SIZE_OK] = "fine",
		[SIZE_EMPTY] = "no value; give a size such as 512M or 3.5GiB",
		[SIZE_NO_NUMBER] = "not a size; give one such as 512M or "
				   "3.5GiB",
		[SIZE_BAD_UNIT] = "unknown unit; there are K, M, G, T (or KiB "
				  "and so on) and KB, MB, GB, TB",
		[SIZE_NO_UNIT] = "a fraction of a byte; is a unit missing "
				 "(K, M, G, T)?",
		[SIZE_TOO_LARGE] = "too large; sizes end at 16777215T",
		[SIZE_NO_PERCENT] = "a percentage cannot be given here; give "
				    "a size such as 512M",
		[SIZE_BAD_PERCENT] = "more than 100%",
	};

	return texts[outcome];
}

uint64_t size_resolve(struct size_or_percent size, uint64_t whole)
{
	if (size.percent <= 0)
		return size.bytes;
	return (uint64_t)((long double)whole * (long double)size.percent /
			  100.0L);
}

char *size_format(uint64_t bytes, char *buf, size_t len)
{
	static const char letters[] = "KMGT";
	uint64_t unit = UINT64_C(1) << 40;

	for (int i = 3; i >= 0; i--, unit >>= 10) {
		if (bytes < unit)
			continue;
		if (bytes % unit == 0) {
			snprintf(buf, len, "%" PRIu64 "%c", bytes / unit,
				 letters[i]);
			return buf;
		}
		if (bytes % unit == unit / 2) {
			snprintf(buf, len, "%" PRIu64 ".5%c", bytes / unit,
				 letters[i]);
			return buf;
		}
	}
	snprintf(buf, len, "%" PRIu64, bytes);
	return buf;
}

char *size_format_rounded(uint64_t bytes, char *buf, size_t len)
{
	static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double value = (double)bytes;
	size_t i = 0;

	while (value >= 1024 && i + 1 < sizeof(names) / sizeof(names[0])) {
		value /= 1024;
		i++;
	}
	snprintf(buf, len, i == 0 || value >= 100 ? "%.0f %s" : "%.1f %s",
		 value, names[i]);
	return buf;
}
