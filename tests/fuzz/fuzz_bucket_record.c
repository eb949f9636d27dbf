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

static void decode(const void *bytes, size_t len)
{
	static struct format_record found;
	size_t need = 0;
	int r = format_decode_record(bytes, len, 3, 5, &found, &need);

	if (r == FORMAT_SHORT && (need <= len || need > FORMAT_HEADER_MAX))
		abort();
	if (r)
		return;
	if (found.header_bytes > len || found.header_bytes < BLOCK_BYTES)
		abort();
	touch(found.record.key, found.record.key_bytes);
	touch(found.record.extra, found.record.extra_bytes);
}

/* The input as it is, and as a header whose checksum is right: else the fuzzer
 * would never get past it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t len = round_up_block(size ? size : 1);
	unsigned char *header;
	struct disk_record disk;
	uint64_t check;

	decode(data, size);
	if (len > FORMAT_HEADER_MAX)
		return 0;
	header = calloc(1, len);
	memcpy(header, data, size);
	memcpy(&disk, header, sizeof(disk));
	memcpy(&disk.magic, "pagefsRC", 8);
	disk.version = le32_put(FORMAT_VERSION);
	disk.header_bytes = le32_put((uint32_t)len);
	memcpy(header, &disk, sizeof(disk));
	check = checksum_bytes(header, 120,
			       (UINT64_C(3) << 32 | 5) ^
				       UINT64_C(0x706167656673));
	disk.check = le64_put(checksum_bytes(header + 128, len - 128, check));
	memcpy(header, &disk, sizeof(disk));
	decode(header, len);
	free(header);
	return 0;
}
