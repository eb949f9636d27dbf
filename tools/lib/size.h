/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_LIB_SIZE_H
#define PAGEFS_TOOLS_LIB_SIZE_H

/*
 * Sizes as people write them: "65536", "64K", "3.5MiB", "1.2TB", "90%".
 * K, M, G, T and KiB, MiB, GiB, TiB are powers of 1024; KB, MB, GB, TB are
 * powers of 1000; B is bytes; case does not matter. Fractions are rounded down
 * to whole bytes. Pure functions.
 */

#include <stddef.h>
#include <stdint.h>

enum size_outcome {
	SIZE_OK = 0,
	SIZE_EMPTY,	  /* nothing there */
	SIZE_NO_NUMBER,	  /* does not start with a digit */
	SIZE_BAD_UNIT,	  /* what follows the number is no unit */
	SIZE_NO_UNIT,	  /* a fraction of a byte: "1.5" */
	SIZE_TOO_LARGE,	  /* does not fit in 64 bits */
	SIZE_NO_PERCENT,  /* a percentage where none is allowed */
	SIZE_BAD_PERCENT, /* more than 100% */
};

/* A size, or a part of something that the caller knows. */
struct size_or_percent {
	uint64_t bytes; /* where percent is 0 */
	double percent; /* above 0 up to 100; 0: `bytes` counts */
};

/* The longest text of size_format, with its NUL. */
#define SIZE_TEXT_MAX 32

enum size_outcome size_parse(const char *text, uint64_t *ret_bytes);
enum size_outcome size_or_percent_parse(const char *text,
					struct size_or_percent *ret);

/* What is wrong, to follow "--memory 12X: ". */
const char *size_outcome_text(enum size_outcome outcome);

/* So many bytes of `whole`. */
uint64_t size_resolve(struct size_or_percent size, uint64_t whole);

/* The shortest text that size_parse reads back as exactly these bytes, in
 * binary units: "256M", "3.5M", "1000". Returns `buf`. */
char *size_format(uint64_t bytes, char *buf, size_t len);

/* About these bytes, for people: "3.5 MiB", "1.2 TiB". Returns `buf`. */
char *size_format_rounded(uint64_t bytes, char *buf, size_t len);

#endif
