/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/values.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
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

/* Bytes of the character that starts here; 0: none does, or it does not end
 * within the text.  jansson says what is UTF-8. */
static size_t character_bytes(const char *text)
{
	for (size_t len = 1; len <= 4 && text[len - 1]; len++) {
		json_t *one = json_stringn(text, len);

		json_decref(one);
		if (one)
			return len;
	}
	return 0;
}

void values_add_text(struct values *values, const char *name, const char *help,
		     const char *text)
{
	struct value *value = next(values, VALUE_TEXT, name, help);
	size_t at = 0;

	while (*text) {
		size_t len = character_bytes(text);
		const char *character = len ? text : "?";

		len = len ? len : 1;
		if (at + len >= VALUE_TEXT_MAX)
			break;
		memcpy(value->text + at, character, len);
		at += len;
		text += len;
	}
}

static bool is_whole(double number)
{
	return number >= -9e15 && number <= 9e15 &&
	       number == (double)(int64_t)number;
}

/* Whole numbers as such: a counter of bytes must not become 1.2e+09. */
static void print_number(struct strbuf *out, double number)
{
	if (is_whole(number))
		strbuf_printf(out, "%lld", (long long)number);
	else
		strbuf_printf(out, "%.9g", number);
}

/* A label's value, as Prometheus reads it. */
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

static json_t *json_of(const struct value *value)
{
	if (value->kind == VALUE_TEXT)
		return json_string(value->text);
	if (is_whole(value->number))
		return json_integer((json_int_t)value->number);
	return json_real(value->number);
}

static int append(const char *bytes, size_t len, void *arg)
{
	strbuf_add(arg, bytes, len);
	return 0;
}

void values_print_json(const struct values *values, struct strbuf *out)
{
	json_t *object = json_object();

	/* What is no number (0 / 0) has no JSON: null. */
	for (unsigned i = 0; i < values->count; i++) {
		json_t *value = json_of(&values->value[i]);

		json_object_set_new(object, values->value[i].name,
				    value ? value : json_null());
	}
	if (json_dump_callback(object, append, out,
			       JSON_INDENT(1) | JSON_REAL_PRECISION(9)))
		out->error = -ENOMEM;
	strbuf_putc(out, '\n');
	json_decref(object);
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
