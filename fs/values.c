/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/values.h"

#include <assert.h>
#include <string.h>

#include "tools/lib/strbuf.h"

static struct value *next(struct values *values, enum value_kind kind,
			  const char *name, const char *help)
{
	assert(values->count < VALUES_MAX);

	struct value *value = &values->value[values->count++];

	*value = (struct value){.kind = kind, .name = name, .help = help};
	return value;
}

void values_add(struct values *values, enum value_kind kind, const char *name,
		const char *help, double number)
{
	next(values, kind, name, help)->number = number;
}

void values_add_text(struct values *values, const char *name, const char *help,
		     const char *text)
{
	struct value *value = next(values, VALUE_TEXT, name, help);
	size_t len = strnlen(text, VALUE_TEXT_MAX - 1);

	memcpy(value->text, text, len);
}

/* Whole numbers as such: a counter of bytes must not become 1.2e+09. */
static void print_number(struct strbuf *out, double number)
{
	if (number >= -9e15 && number <= 9e15 &&
	    number == (double)(int64_t)number)
		strbuf_printf(out, "%lld", (long long)number);
	else
		strbuf_printf(out, "%.9g", number);
}

static void print_quoted(struct strbuf *out, const char *text)
{
	strbuf_putc(out, '"');
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			strbuf_printf(out, "\\%c", c);
		else if (c == '\n')
			strbuf_puts(out, "\\n");
		else if (c < 0x20)
			strbuf_putc(out, '?');
		else
			strbuf_putc(out, (char)c);
	}
	strbuf_putc(out, '"');
}

void values_print_lines(const struct values *values, struct strbuf *out)
{
	for (unsigned i = 0; i < values->count; i++) {
		const struct value *value = &values->value[i];

		strbuf_printf(out, "%s ", value->name);
		if (value->kind == VALUE_TEXT)
			strbuf_puts(out, value->text);
		else
			print_number(out, value->number);
		strbuf_putc(out, '\n');
	}
}

void values_print_json(const struct values *values, struct strbuf *out)
{
	strbuf_puts(out, "{");
	for (unsigned i = 0; i < values->count; i++) {
		const struct value *value = &values->value[i];

		strbuf_puts(out, i ? ",\n " : "\n ");
		print_quoted(out, value->name);
		strbuf_puts(out, ": ");
		if (value->kind == VALUE_TEXT)
			print_quoted(out, value->text);
		else
			print_number(out, value->number);
	}
	strbuf_puts(out, "\n}\n");
}

void values_print_metrics(const struct values *values, struct strbuf *out)
{
	for (unsigned i = 0; i < values->count; i++) {
		const struct value *value = &values->value[i];
		const char *name = value->name;

		strbuf_printf(out, "# HELP pagefs_%s %s\n", name, value->help);
		strbuf_printf(out, "# TYPE pagefs_%s %s\n", name,
			      value->kind == VALUE_COUNTER ? "counter"
							   : "gauge");
		strbuf_printf(out, "pagefs_%s", name);
		if (value->kind == VALUE_TEXT) {
			strbuf_puts(out, "{value=");
			print_quoted(out, value->text);
			strbuf_puts(out, "} 1\n");
		} else {
			strbuf_putc(out, ' ');
			print_number(out, value->number);
			strbuf_putc(out, '\n');
		}
	}
}
