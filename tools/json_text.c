/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/json_text.h"

#include <stdio.h>
#include <string.h>

#include "tools/lib/strbuf.h"

/* Bytes of the character that starts here, 0 where none does. jansson says
 * what is UTF-8 (no surrogates, nothing longer than need be). */
static size_t character_bytes(const char *text, size_t left)
{
	for (size_t len = 1; len <= 4 && len <= left; len++) {
		json_t *one = json_stringn(text, len);

		json_decref(one);
		if (one)
			return len;
	}
	return 0;
}

static void add_readable(json_t *object, const char *name, const char *text)
{
	size_t left = strlen(text), len;
	struct strbuf readable;

	strbuf_init(&readable, 0);
	for (; left; text += len, left -= len) {
		len = character_bytes(text, left);
		if (len)
			strbuf_add(&readable, text, len);
		else
			strbuf_puts(&readable, "\xEF\xBF\xBD");
		len = len ? len : 1;
	}
	json_object_set_new(object, name, json_string(strbuf_text(&readable)));
	strbuf_release(&readable);
}

static void add_hex(json_t *object, const char *name, const char *text)
{
	struct strbuf hex;
	char member[64];

	strbuf_init(&hex, 0);
	for (; *text; text++)
		strbuf_printf(&hex, "%02x", (unsigned char)*text);
	snprintf(member, sizeof(member), "%s_hex", name);
	json_object_set_new(object, member, json_string(strbuf_text(&hex)));
	strbuf_release(&hex);
}

void json_add_bytes(json_t *object, const char *name, const char *text)
{
	json_t *whole = json_string(text);

	if (whole) {
		json_object_set_new(object, name, whole);
		return;
	}
	add_readable(object, name, text);
	add_hex(object, name, text);
}
