/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_JSON_TEXT_H
#define PAGEFS_TOOLS_JSON_TEXT_H

/*
 * Keys are bytes, JSON strings are UTF-8. Pure functions.
 */

#include <jansson.h>

/* Adds `text` as the member `name`. Where it is not UTF-8, each wrong byte is
 * shown as U+FFFD, and a member `name`_hex has all of them. */
void json_add_bytes(json_t *object, const char *name, const char *text);

#endif
