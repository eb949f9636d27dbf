/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "store/format.h"
#include "tools/lib/checksum.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned char sink;

static void touch(const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		sink = (unsigned char)(sink +
				       ((const unsigned char *)bytes)[i]);
}

/* An index is a row of entries, of which the first that can't be read ends it.
 * The first byte says what the rest is. */
static void walk_index(const uint8_t *data, size_t size)
{
	static struct format_record found;
	size_t at = 0, len;

	for (; at < size; at += len) {
		if (format_decode_entry(data + at, size - at, 1, 65536, &found,
					&len))
			return;
		if (len == 0 || len > size - at)
			abort();
		touch(found.record.key, found.record.key_bytes);
		touch(found.record.extra, found.record.extra_bytes);
	}
}

static void decode_trailer(const uint8_t *data, size_t size)
{
	unsigned char block[BLOCK_BYTES] = {0};
	struct disk_trailer disk;
	struct format_trailer trailer;

	format_decode_trailer(data, size, 1, &trailer);
	memcpy(block, data, size < BLOCK_BYTES ? size : BLOCK_BYTES);
	memcpy(&disk, block, sizeof(disk));
	memcpy(&disk.magic, "pagefsTR", 8);
	memcpy(block, &disk, sizeof(disk));
	disk.check = le64_put(checksum_bytes(block + 128, BLOCK_BYTES - 128,
					     checksum_bytes(block, 120, 1)));
	memcpy(block, &disk, sizeof(disk));
	format_decode_trailer(block, sizeof(block), 1, &trailer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] % 2)
		walk_index(data + 1, size - 1);
	else
		decode_trailer(data + 1, size - 1);
	return 0;
}
