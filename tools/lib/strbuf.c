/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/strbuf.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_MAX ((size_t)64 << 20)
#define FIRST_CAPACITY ((size_t)256)

void strbuf_init(struct strbuf *buf, size_t max)
{
	*buf = (struct strbuf){.max = max ? max : DEFAULT_MAX};
}

void strbuf_release(struct strbuf *buf)
{
	free(buf->text);
	strbuf_init(buf, buf->max);
}

void strbuf_reset(struct strbuf *buf)
{
	buf->len = 0;
	buf->error = 0;
	if (buf->text)
		buf->text[0] = '\0';
}

/* Makes room for `more` bytes and the NUL. */
static bool reserve(struct strbuf *buf, size_t more)
{
	size_t capacity = buf->capacity ? buf->capacity : FIRST_CAPACITY;
	char *text;

	if (buf->error)
		return false;
	if (more > buf->max - buf->len) {
		buf->error = -EFBIG;
		return false;
	}
	while (capacity < buf->len + more + 1)
		capacity *= 2;
	if (capacity == buf->capacity)
		return true;
	text = realloc(buf->text, capacity);
	if (!text) {
		buf->error = -ENOMEM;
		return false;
	}
	buf->text = text;
	buf->capacity = capacity;
	return true;
}

void strbuf_add(struct strbuf *buf, const void *bytes, size_t len)
{
	if (!reserve(buf, len))
		return;
	if (len > 0)
		memcpy(buf->text + buf->len, bytes, len);
	buf->len += len;
	buf->text[buf->len] = '\0';
}

void strbuf_puts(struct strbuf *buf, const char *text)
{
	strbuf_add(buf, text, strlen(text));
}

void strbuf_putc(struct strbuf *buf, char c)
{
	strbuf_add(buf, &c, 1);
}

void strbuf_vprintf(struct strbuf *buf, const char *format, va_list arguments)
{
	va_list again;
	int len;

	va_copy(again, arguments);
	len = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (len < 0) {
		buf->error = buf->error ? buf->error : -EINVAL;
		return;
	}
	if (!reserve(buf, (size_t)len))
		return;
	vsnprintf(buf->text + buf->len, (size_t)len + 1, format, arguments);
	buf->len += (size_t)len;
}

void strbuf_printf(struct strbuf *buf, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	strbuf_vprintf(buf, format, arguments);
	va_end(arguments);
}

const char *strbuf_text(const struct strbuf *buf)
{
	return buf->text ? buf->text : "";
}

int strbuf_error(const struct strbuf *buf)
{
	return buf->error;
}

char *strbuf_detach(struct strbuf *buf)
{
	char *text;

	strbuf_add(buf, "", 0); /* so that the empty string is a string too */
	if (buf->error) {
		strbuf_release(buf);
		return NULL;
	}
	text = buf->text;
	strbuf_init(buf, buf->max);
	return text;
}
