/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/strbuf.h"

/* How an option was written, for messages. */
struct spelling {
	const char *before;    /* "--", "-o ", "pagefs.conf:3: " is apart */
	const char *separator; /* between name and value */
	char joint;	       /* between the words of a name */
};
static const struct spelling on_command_line = {"--", " ", '-'};
static const struct spelling in_list = {"-o ", "=", '_'};
static const struct spelling in_file = {"", " = ", '_'};

static bool same_name(const char *a, const char *b)
{
	for (;; a++, b++) {
		char x = *a == '_' ? '-' : *a, y = *b == '_' ? '-' : *b;

		if (x != y)
			return false;
		if (x == '\0')
			return true;
	}
}

const struct option_spec *options_find(const struct option_spec *specs,
				       const char *name)
{
	for (; specs->name; specs++) {
		if (same_name(specs->name, name))
			return specs;
	}
	return NULL;
}

void options_init(struct options *options, const struct option_spec *specs,
		  void *values)
{
	struct strbuf error;

	*options = (struct options){.specs = specs, .values = values};
	strbuf_init(&error, 0);
	for (const struct option_spec *spec = specs; spec->name; spec++) {
		assert(options->count < OPTIONS_MAX);
		options->count++;
		if (spec->type == OPTION_LIST)
			continue;
		option_clear(spec, values);
		if (spec->initial) {
			int r = option_parse(spec, spec->initial, values,
					     &error);

			assert(r == 0);
			(void)r;
		}
	}
	strbuf_release(&error);
}

void options_release(struct options *options)
{
	for (size_t i = 0; i < options->count; i++)
		option_release(&options->specs[i], options->values);
}

static void add_name(struct strbuf *out, const struct spelling *spelling,
		     const char *name)
{
	strbuf_puts(out, spelling->before);
	for (; *name; name++)
		strbuf_putc(out, *name == '-' || *name == '_' ? spelling->joint
							      : *name);
}

static int unknown(const struct options *options,
		   const struct spelling *spelling, const char *name,
		   struct strbuf *error)
{
	const struct option_spec *nearest =
		options_nearest(options->specs, name);

	strbuf_printf(error, "unknown option %s%s", spelling->before, name);
	if (nearest) {
		strbuf_puts(error, ": did you mean ");
		add_name(error, spelling, nearest->name);
		strbuf_putc(error, '?');
	}
	return -EINVAL;
}

/* Sets one option. `value` NULL: there was none. */
static int set(struct options *options, enum options_source source,
	       const struct spelling *spelling, const struct option_spec *spec,
	       const char *value, struct strbuf *error)
{
	size_t index = (size_t)(spec - options->specs);
	struct strbuf reason;
	int r = -EINVAL;

	if (!value && spec->type != OPTION_FLAG) {
		add_name(error, spelling, spec->name);
		strbuf_printf(error, " needs a value: %s",
			      option_argument(spec));
		return -EINVAL;
	}
	if (spelling != &on_command_line &&
	    (spec->type == OPTION_LIST ||
	     (spec->bits & OPTION_COMMAND_LINE_ONLY))) {
		add_name(error, spelling, spec->name);
		strbuf_printf(error, " can be given only as --%s", spec->name);
		return -EINVAL;
	}
	if (spec->type == OPTION_LIST)
		return options_parse_list(options, value, error);

	strbuf_init(&reason, 0);
	if (options->sources[index] > source) {
		/* Outranked, but a mistake is told all the same. */
		r = option_check(spec, value ? value : "yes", &reason);
	} else {
		r = option_parse(spec, value ? value : "yes", options->values,
				 &reason);
		if (r == 0)
			options->sources[index] = (unsigned char)source;
	}
	if (r < 0) {
		add_name(error, spelling, spec->name);
		strbuf_printf(error, "%s%s: %s", spelling->separator,
			      value ? value : "yes",
			      r == -EINVAL ? strbuf_text(&reason)
					   : strerror(-r));
	}
	strbuf_release(&reason);
	return r;
}

static int set_by_name(struct options *options, enum options_source source,
		       const struct spelling *spelling, const char *name,
		       const char *value, struct strbuf *error)
{
	const struct option_spec *spec = options_find(options->specs, name);

	if (!spec)
		return unknown(options, spelling, name, error);
	return set(options, source, spelling, spec, value, error);
}

int options_set(struct options *options, enum options_source source,
		const char *name, const char *value, struct strbuf *error)
{
	return set_by_name(options, source,
			   source == OPTIONS_FILE ? &in_file : &on_command_line,
			   name, value, error);
}

/* ---- the command line ---------------------------------------------------- */

/* What getopt_long returns for row i. */
#define ROW_BASE 256

/* Both spellings of each name, and the end. */
struct getopt_table {
	struct option options[2 * OPTIONS_MAX + 1];
	char other_names[OPTIONS_MAX][64];
	char letters[2 + 3 * OPTIONS_MAX];
};

static struct getopt_table *getopt_table_new(const struct options *options)
{
	struct getopt_table *table = calloc(1, sizeof(*table));
	struct option *option;
	char *letter;

	if (!table)
		return NULL;
	option = table->options;
	letter = table->letters;
	*letter++ = ':'; /* tell a missing value from an unknown option */
	for (size_t i = 0; i < options->count; i++) {
		const struct option_spec *spec = &options->specs[i];
		bool flag = spec->type == OPTION_FLAG;
		char *other = table->other_names[i];

		assert(strlen(spec->name) < sizeof(table->other_names[i]));
		for (const char *p = spec->name; *p; p++)
			*other++ = *p == '-' ? '_' : *p == '_' ? '-' : *p;
		option[0] = (struct option){.name = spec->name,
					    .has_arg = flag ? optional_argument
							    : required_argument,
					    .val = ROW_BASE + (int)i};
		option[1] = option[0];
		option[1].name = table->other_names[i];
		option += strcmp(option[0].name, option[1].name) ? 2 : 1;
		if (spec->letter) {
			*letter++ = spec->letter;
			if (!flag)
				*letter++ = ':';
		}
	}
	*option = (struct option){0};
	*letter = '\0';
	return table;
}

static const struct option_spec *spec_of(const struct options *options,
					 int found)
{
	if (found >= ROW_BASE)
		return &options->specs[found - ROW_BASE];
	for (size_t i = 0; i < options->count; i++) {
		if (options->specs[i].letter == (char)found)
			return &options->specs[i];
	}
	return NULL;
}

/* The argument that getopt_long did not know. */
static int unknown_argument(const struct options *options, char **argv,
			    struct strbuf *error)
{
	const char *argument = argv[optind - 1];
	char *name;
	int r;

	if (optopt != 0 && optopt < ROW_BASE) {
		strbuf_printf(error, "unknown option -%c", optopt);
		return -EINVAL;
	}
	name = strdup(argument + strspn(argument, "-"));
	if (!name)
		return -ENOMEM;
	name[strcspn(name, "=")] = '\0';
	r = unknown(options, &on_command_line, name, error);
	free(name);
	return r;
}

int options_parse_arguments(struct options *options, int argc, char **argv,
			    int *ret_first, struct strbuf *error)
{
	struct getopt_table *table = getopt_table_new(options);
	int found, r = 0;

	if (!table)
		return -ENOMEM;
	optind = 0; /* glibc: start afresh */
	opterr = 0;
	while (r == 0 && (found = getopt_long(argc, argv, table->letters,
					      table->options, NULL)) != -1) {
		if (found == '?')
			r = unknown_argument(options, argv, error);
		else
			r = set(options, OPTIONS_COMMAND_LINE, &on_command_line,
				spec_of(options, found == ':' ? optopt : found),
				found == ':' ? NULL : optarg, error);
	}
	if (r == 0)
		*ret_first = optind;
	free(table);
	return r;
}

/* ---- lists --------------------------------------------------------------- */

/* Cuts the first item off *rest, in place, and takes its backslashes out. */
static char *next_item(char **rest)
{
	char *item = *rest, *from = item, *to = item;

	for (; *from && *from != ','; from++) {
		if (*from == '\\' && from[1] != '\0')
			from++;
		*to++ = *from;
	}
	*rest = *from ? from + 1 : NULL;
	*to = '\0';
	return item;
}

int options_parse_list(struct options *options, const char *list,
		       struct strbuf *error)
{
	char *copy = strdup(list), *rest = copy;
	int r = 0;

	if (!copy)
		return -ENOMEM;
	while (r == 0 && rest) {
		char *value = next_item(&rest);
		char *name = strsep(&value, "=");

		if (name[0] != '\0' || value)
			r = set_by_name(options, OPTIONS_COMMAND_LINE, &in_list,
					name, value, error);
	}
	free(copy);
	return r;
}
