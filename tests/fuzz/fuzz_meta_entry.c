/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "meta/internal.h"
#include "meta/meta.h"
#include "meta/row.h"

/* The decoders of what one row holds: what is taken must come out of its
 * encoder as it went in (entries: byte for byte). */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_entry(const uint8_t *data, size_t size)
{
	uint8_t bytes[META_ENTRY_BYTES];
	struct meta_entry entry;

	if (meta_entry_decode(data, size, &entry) < 0)
		return;
	meta_entry_encode(&entry, bytes);
	assert(size == sizeof(bytes) && memcmp(bytes, data, size) == 0);
}

static void try_row(const uint8_t *data, size_t size)
{
	uint8_t row[ENTRY_ROW_MAX], bytes[META_ENTRY_BYTES],
		again[META_ENTRY_BYTES];
	struct meta_entry entry;
	size_t len;

	if (entry_row_decode(data, size, &entry) < 0)
		return;
	meta_entry_encode(&entry, bytes);
	len = entry_row_encode(&entry, row);
	assert(entry_row_decode(row, len, &entry) == 0);
	meta_entry_encode(&entry, again);
	assert(memcmp(bytes, again, sizeof(bytes)) == 0);
}

static volatile uint64_t sink; /* so that the bytes are read */

static void try_tables(const uint8_t *key, size_t key_len, const uint8_t *value,
		       size_t len)
{
	struct meta_chunk chunk;
	struct meta_object object;
	struct meta_pending pending;
	uint64_t sum = 0;

	if (chunk_row_decode(key, key_len, value, len, &chunk) == 0) {
		size_t blocks = ((size_t)chunk.len_bytes + CHECK_BYTES - 1) /
				CHECK_BYTES;

		for (size_t i = 0; i < blocks; i++)
			sum += meta_checksum(&chunk, i);
	}
	if (object_row_decode(value, len, &object) == 0)
		sum += object.links;
	if (pending_row_decode(key, key_len, value, len, &pending) == 0) {
		const uint8_t *fact = pending.fact;

		for (size_t i = 0; i < pending.fact_bytes; i++)
			sum += fact[i];
	}
	sink = sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t key_len;

	try_entry(data, size);
	try_row(data, size);
	if (size == 0)
		return 0;
	key_len = data[0] % 32;
	if (key_len <= size - 1)
		try_tables(data + 1, key_len, data + 1 + key_len,
			   size - 1 - key_len);
	return 0;
}
