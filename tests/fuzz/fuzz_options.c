/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes, option lists and configuration files: whatever is read must dump and
 * read back as the same.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/options.h"
#include "tools/lib/size.h"
#include "tools/lib/strbuf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct values {
	bool flag;
	char *string;
	uint64_t size;
	struct size_or_percent cap;
	int64_t integer;
	uint32_t octal;
	int choice;
};

static const char *const choices[] = {"auto", "off", NULL};

#define ROW(field_, type_)                                                     \
	.name = #field_, .type = type_,                                        \
	.offset = offsetof(struct values, field_)
static const struct option_spec specs[] = {
	{ROW(flag, OPTION_FLAG)},
	{ROW(string, OPTION_STRING)},
	{ROW(size, OPTION_SIZE)},
	{ROW(cap, OPTION_SIZE_OR_PERCENT)},
	{ROW(integer, OPTION_INTEGER)},
	{ROW(octal, OPTION_OCTAL)},
	{ROW(choice, OPTION_CHOICE), .choices = choices},
	{.name = NULL},
};

static void check_size(const char *text)
{
	char printed[SIZE_TEXT_MAX];
	uint64_t bytes, again;

	if (size_parse(text, &bytes) != SIZE_OK)
		return;
	size_format(bytes, printed, sizeof(printed));
	if (size_parse(printed, &again) != SIZE_OK || again != bytes)
		abort();
}

/* What was read, dumped, read and dumped again, must be as it was. */
static void check_dump(const struct options *options)
{
	struct strbuf first, second, error;
	struct values values;
	struct options other;

	strbuf_init(&first, 0);
	strbuf_init(&second, 0);
	strbuf_init(&error, 0);
	options_init(&other, specs, &values);
	options_dump(options, &first);
	if (options_parse_text(&other, strbuf_text(&first), first.len, "dump",
			       &error) < 0)
		abort();
	options_dump(&other, &second);
	if (strcmp(strbuf_text(&first), strbuf_text(&second)) != 0)
		abort();
	options_release(&other);
	strbuf_release(&first);
	strbuf_release(&second);
	strbuf_release(&error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct options options;
	struct values values;
	struct strbuf error;
	char *text = malloc(len + 1);

	if (!text)
		return 0;
	if (len > 0)
		memcpy(text, data, len);
	text[len] = '\0';

	strbuf_init(&error, 0);
	options_init(&options, specs, &values);
	check_size(text);
	if (options_parse_list(&options, text, &error) == 0)
		check_dump(&options);
	if (options_parse_text(&options, text, len, "fuzz", &error) == 0)
		check_dump(&options);
	options_release(&options);
	strbuf_release(&error);
	free(text);
	return 0;
}
