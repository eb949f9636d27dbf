/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "store/format.h"
#include "tools/lib/checksum.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As it is, and with the checksum made right. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char block[BLOCK_BYTES] = {0};
	struct disk_superblock disk;
	struct format_superblock superblock;

	format_decode_superblock(data, size, &superblock);
	memcpy(block, data, size < BLOCK_BYTES ? size : BLOCK_BYTES);
	memcpy(&disk, block, sizeof(disk));
	memcpy(&disk.magic, "pagefsDB", 8);
	memcpy(block, &disk, sizeof(disk));
	disk.check = le64_put(checksum_bytes(block + 128, BLOCK_BYTES - 128,
					     checksum_bytes(block, 120, 0)));
	memcpy(block, &disk, sizeof(disk));
	format_decode_superblock(block, sizeof(block), &superblock);
	return 0;
}
