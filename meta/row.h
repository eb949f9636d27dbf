/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_META_ROW_H
#define PAGEFS_META_ROW_H

/*
 * Entries as the table of names keeps them.  There is one for each page, all
 * in page cache, so they are packed: about 40 bytes instead of the 104 of
 * meta_entry_encode(), which at the fill of a randomly filled tree is 100
 * bytes a page.  Pure functions.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "meta/entry.h"

#define ENTRY_ROW_MAX 128u

/* Returns the bytes written. */
size_t entry_row_encode(const struct meta_entry *entry,
			uint8_t ret[ENTRY_ROW_MAX]);
/* 0 or -EBADMSG. */
int entry_row_decode(const void *bytes, size_t len, struct meta_entry *ret);

/* entry.c: whether there can be such an entry. */
bool entry_is_possible(const struct meta_entry *entry);

/* Unsigned numbers of 1 to 10 bytes, seven bits in each, the lowest first; the
 * top bit says that there is more. */
uint8_t *varint_put(uint8_t *to, uint64_t v);
/* The byte after it, or NULL when it is cut short or too long. */
const uint8_t *varint_get(const uint8_t *from, const uint8_t *end,
			  uint64_t *ret);

#endif
