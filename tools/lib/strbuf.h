/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_LIB_STRBUF_H
#define PAGEFS_TOOLS_LIB_STRBUF_H

/*
 * A string that grows up to a bound: for status, metrics and control files. A
 * failure (no memory, past the bound) sticks: further additions do nothing, and
 * strbuf_error says at the end what happened, so callers check once. One thread
 * at a time.
 */

#include <stdarg.h>
#include <stddef.h>

struct strbuf {
	char *text;	 /* NUL-terminated; NULL while nothing was added */
	size_t len;	 /* bytes, without the NUL */
	size_t capacity; /* bytes allocated */
	size_t max;	 /* bytes at most, without the NUL */
	int error; /* 0, -ENOMEM, -EFBIG (past max), or -EINVAL (format) */
};

/* `max`: bytes at most; 0 is 64 MiB. Allocates nothing. */
void strbuf_init(struct strbuf *buf, size_t max);
void strbuf_release(struct strbuf *buf);

/* Back to the empty string; keeps the memory, forgets an error. */
void strbuf_reset(struct strbuf *buf);

void strbuf_add(struct strbuf *buf, const void *bytes, size_t len);
void strbuf_puts(struct strbuf *buf, const char *text);
void strbuf_putc(struct strbuf *buf, char c);
void strbuf_printf(struct strbuf *buf, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void strbuf_vprintf(struct strbuf *buf, const char *format, va_list arguments)
	__attribute__((format(printf, 2, 0)));

/* The text so far, never NULL. Valid until the next call but this. */
const char *strbuf_text(const struct strbuf *buf);

/* 0, or why something is missing. */
int strbuf_error(const struct strbuf *buf);

/* Hands the text over; the caller frees it. NULL after an error. `buf` is
 * empty then. */
char *strbuf_detach(struct strbuf *buf);

#endif
