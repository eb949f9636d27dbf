/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/options.h"

#include <assert.h>
#include <string.h>

#include "tools/lib/strbuf.h"

/* Where the texts of a help list start, and where its lines end. */
#define HELP_COLUMN 28
#define HELP_WIDTH 79

#define NAME_MAX_BYTES 64

static size_t min3(size_t a, size_t b, size_t c)
{
	size_t least = a < b ? a : b;

	return least < c ? least : c;
}

/* Insertions, deletions, replacements, and swaps of neighbours that lead from
 * one name to the other ("optimal string alignment"). */
static size_t edit_distance(const char *a, const char *b)
{
	size_t rows[3][NAME_MAX_BYTES + 1];
	size_t len_a = strlen(a), len_b = strlen(b);

	if (len_a > NAME_MAX_BYTES || len_b > NAME_MAX_BYTES)
		return NAME_MAX_BYTES;
	for (size_t j = 0; j <= len_b; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= len_a; i++) {
		size_t *row = rows[i % 3], *above = rows[(i - 1) % 3];

		row[0] = i;
		for (size_t j = 1; j <= len_b; j++) {
			row[j] = min3(above[j] + 1, row[j - 1] + 1,
				      above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1])
				row[j] = min3(row[j], row[j],
					      rows[(i - 2) % 3][j - 2] + 1);
		}
	}
	return rows[len_a % 3][len_b];
}

const struct option_spec *options_nearest(const struct option_spec *specs,
					  const char *name)
{
	const struct option_spec *nearest = NULL;
	char dashed[NAME_MAX_BYTES + 1];
	size_t len = strlen(name);
	/* One slip in three letters is still the same word. */
	size_t best = len / 3 + 1;

	if (len > NAME_MAX_BYTES)
		return NULL;
	for (size_t i = 0; i <= len; i++)
		dashed[i] = name[i] == '_' ? '-' : name[i];
	for (; specs->name; specs++) {
		size_t distance = edit_distance(specs->name, dashed);

		if (distance <= best && distance < len) {
			best = distance - (distance > 0);
			nearest = specs;
		}
	}
	return nearest;
}

enum options_source options_source(const struct options *options,
				   const char *name)
{
	const struct option_spec *spec = options_find(options->specs, name);

	assert(spec);
	return options->sources[spec - options->specs];
}

/* ---- the dump ------------------------------------------------------------ */

/* In quotes where its blanks would be lost, or would hide such quotes. */
static void add_value(struct strbuf *out, const char *value)
{
	size_t len = strlen(value);
	bool quote = len > 0 &&
		     (value[0] == ' ' || value[0] == '\t' || value[0] == '"' ||
		      value[len - 1] == ' ' || value[len - 1] == '\t');

	if (quote)
		strbuf_putc(out, '"');
	for (; *value; value++)
		strbuf_putc(out, *value == '\n' ? '?' : *value);
	if (quote)
		strbuf_putc(out, '"');
}

static bool is_dumped(const struct options *options, size_t i)
{
	const struct option_spec *spec = &options->specs[i];

	if (spec->type == OPTION_LIST ||
	    (spec->bits & (OPTION_COMMAND_LINE_ONLY | OPTION_HIDDEN)))
		return false;
	return !(spec->bits & OPTION_NO_DEFAULT) ||
	       options->sources[i] != OPTIONS_DEFAULT;
}

void options_dump(const struct options *options, struct strbuf *out)
{
	struct strbuf value;

	strbuf_init(&value, 0);
	for (size_t i = 0; i < options->count; i++) {
		const struct option_spec *spec = &options->specs[i];

		if (!is_dumped(options, i))
			continue;
		for (const char *p = spec->name; *p; p++)
			strbuf_putc(out, *p == '-' ? '_' : *p);
		strbuf_puts(out, " = ");
		strbuf_reset(&value);
		option_print(spec, options->values, &value);
		add_value(out, strbuf_text(&value));
		strbuf_putc(out, '\n');
	}
	strbuf_release(&value);
}

/* ---- the help text ------------------------------------------------------- */

static void pad(struct strbuf *out, size_t from, size_t to)
{
	for (; from < to; from++)
		strbuf_putc(out, ' ');
}

/* Adds the words, from HELP_COLUMN on in each line. */
static void wrap(struct strbuf *out, const char *text)
{
	size_t column = HELP_COLUMN;

	while (*text) {
		size_t len = strcspn(text, " ");

		if (column > HELP_COLUMN && column + 1 + len > HELP_WIDTH) {
			strbuf_putc(out, '\n');
			pad(out, 0, HELP_COLUMN);
			column = HELP_COLUMN;
		} else if (column > HELP_COLUMN) {
			strbuf_putc(out, ' ');
			column++;
		}
		strbuf_add(out, text, len);
		column += len;
		text += len;
		text += strspn(text, " ");
	}
	strbuf_putc(out, '\n');
}

static void add_choices(const struct option_spec *spec, struct strbuf *out)
{
	for (int i = 0; spec->choices[i]; i++)
		strbuf_printf(out, "%s%s", i ? "|" : "", spec->choices[i]);
}

static void help_row(const struct option_spec *spec, struct strbuf *out)
{
	const char *initial =
		spec->initial_help ? spec->initial_help : spec->initial;
	size_t start = out->len;
	struct strbuf text;

	if (spec->letter)
		strbuf_printf(out, "  -%c, --%s", spec->letter, spec->name);
	else
		strbuf_printf(out, "      --%s", spec->name);
	if (spec->type != OPTION_FLAG)
		strbuf_putc(out, ' ');
	if (spec->type == OPTION_CHOICE && !spec->argument)
		add_choices(spec, out);
	else
		strbuf_puts(out, option_argument(spec));
	if (out->len - start + 2 > HELP_COLUMN) {
		strbuf_putc(out, '\n');
		start = out->len;
	}
	pad(out, out->len - start, HELP_COLUMN);

	strbuf_init(&text, 0);
	strbuf_puts(&text, spec->help ? spec->help : "");
	if (initial && !(spec->type == OPTION_FLAG && !spec->initial_help))
		strbuf_printf(&text, " (default: %s)", initial);
	wrap(out, strbuf_text(&text));
	strbuf_release(&text);
}

void options_help(const struct option_spec *specs, struct strbuf *out)
{
	for (; specs->name; specs++) {
		if (!(specs->bits & OPTION_HIDDEN))
			help_row(specs, out);
	}
}
