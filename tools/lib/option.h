/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_LIB_OPTION_H
#define PAGEFS_TOOLS_LIB_OPTION_H

/*
 * One option: its row in a table, and its value's way from text to a field of
 * the caller's struct and back. Pure functions over caller's memory; options.h
 * has where the texts come from.
 */

#include <stddef.h>

struct strbuf;

enum option_type {
	OPTION_FLAG,		/* bool: yes, no, true, false, on, off, 1, 0 */
	OPTION_STRING,		/* char *, owned by the option; may be NULL */
	OPTION_SIZE,		/* uint64_t, bytes */
	OPTION_SIZE_OR_PERCENT, /* struct size_or_percent */
	OPTION_INTEGER,		/* int64_t */
	OPTION_REAL,		/* double */
	OPTION_OCTAL,		/* uint32_t: a mode or a umask */
	OPTION_CHOICE,		/* int: index into choices */
	OPTION_DURATION,	/* uint64_t, ns; "200ms", "1.5s", "2m", "3h",
				 * "7d"; without a unit, seconds */
	OPTION_LIST,		/* no field: other options as a=b,c (-o) */
};

enum option_bits {
	OPTION_COMMAND_LINE_ONLY = 1, /* not in -o, files, or the dump */
	OPTION_HIDDEN = 2,	      /* not in the help text or the dump */
	OPTION_NO_DEFAULT = 4, /* not in the dump unless it was given: no value
				* stands for its absence */
};

struct option_spec {
	const char *name; /* words joined by '-'; NULL ends a table */
	enum option_type type;
	size_t offset;		    /* of the field, in the caller's struct */
	const char *argument;	    /* as help shows it; NULL: by type */
	const char *help;	    /* a sentence without its full stop */
	const char *initial;	    /* the default; NULL: zeros */
	const char *initial_help;   /* for help, where the default is worked
				     * out elsewhere ("a tenth of RAM") */
	const char *const *choices; /* OPTION_CHOICE; ends with NULL */
	double min;		    /* numbers; both 0: no bounds */
	double max;
	char letter; /* of the short form, or 0 */
	unsigned bits;
};

/* Reads `text` into the spec's field of `values`, whose old value is freed.
 * -EINVAL: nothing was changed, and `error` has got what is wrong with the
 * value and what would be right; -ENOMEM. */
int option_parse(const struct option_spec *spec, const char *text, void *values,
		 struct strbuf *error);

/* The same without a place for the value: 0 if it could be read. */
int option_check(const struct option_spec *spec, const char *text,
		 struct strbuf *error);

/* Makes the field zero; frees nothing. */
void option_clear(const struct option_spec *spec, void *values);

/* Adds the field's value in a form that option_parse reads back. */
void option_print(const struct option_spec *spec, const void *values,
		  struct strbuf *out);

/* Frees what the field owns. */
void option_release(const struct option_spec *spec, void *values);

/* What to write for the value in a help text: "SIZE". */
const char *option_argument(const struct option_spec *spec);

#endif
