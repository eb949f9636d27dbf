/* SPDX-License-Identifier: Apache-2.0 */
/* What is found in an arena's files is anybody's: region records (with their
 * checksums made right, to get past them) and slot headers of the input. */
#include "store/arena.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/arena_format.h"
#include "tools/lib/checksum.h"
#include "tools/lib/log.h"

#define RECORDS 3u

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

static char dir[] = "/dev/shm/pagefs-fuzz-XXXXXX";
static struct arena_config config = {
	.bytes = 16u << 20, .dir = dir, .slot_files = true};

static void remove_dir(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	if (system(command))
		_exit(1);
}

static void write_file(const char *name, off_t offset, const void *bytes,
		       size_t len_bytes)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0 ||
	    pwrite(fd, bytes, len_bytes, offset) != (ssize_t)len_bytes)
		abort();
	if (!offset && ftruncate(fd, (off_t)(len_bytes + 4095) & ~4095))
		abort();
	close(fd);
}

static void write_record(uint32_t region, struct arena_region_record *record)
{
	size_t from = offsetof(struct arena_region_record, layout);
	size_t to = offsetof(struct arena_region_record, checksum);

	memset(record->reserved, 0, sizeof(record->reserved));
	record->state = le32_put(ARENA_REGION_IN_USE);
	record->checksum = le64_put(
		checksum_bytes((char *)record + from, to - from, region));
	write_file("arena",
		   (off_t)(ARENA_SUPERBLOCK_BYTES + region * sizeof(*record)),
		   record, sizeof(*record));
}

static void use(struct arena *arena)
{
	struct slot_class class = {65536, 0, 0, 0600};
	struct arena_victim victims[64];
	struct chunk_id id = {0};
	size_t count;
	slot_t slot;

	for (slot_t region = 0; region < RECORDS; region++) {
		for (slot_t i = 0; i < 4; i++)
			(void)arena_claim(arena, region << 16 | i, &id, 1 + i,
					  i & 1);
	}
	arena_sweep(arena);
	while (arena_alloc(arena, &class, &slot) == ARENA_FULL) {
		count = arena_victims(arena, 65536, &class, victims, 64);
		if (!count)
			return;
		while (count)
			arena_free(arena, victims[--count].slot);
	}
	memset(arena_data(arena, slot), 1, 65536);
	arena_free(arena, slot);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
	static bool ready;
	struct arena_region_record record;
	struct arena *arena;

	if (!ready) {
		if (!mkdtemp(dir))
			abort();
		atexit(remove_dir);
		log_open(LOG_LEVEL_ERROR);
		ready = true;
	}
	if (len_bytes < RECORDS * sizeof(record))
		return -1;
	if (arena_open(&config, &arena) < 0)
		abort();
	arena_close(arena, true);
	for (uint32_t i = 0; i < RECORDS; i++) {
		char name[16];

		memcpy(&record, bytes + i * sizeof(record), sizeof(record));
		write_record(i, &record);
		snprintf(name, sizeof(name), "h%04x", i);
		write_file(name, 0, bytes + RECORDS * sizeof(record),
			   len_bytes - RECORDS * sizeof(record));
		snprintf(name, sizeof(name), "r%04x", i);
		write_file(name, 0, bytes, len_bytes);
	}
	if (arena_open(&config, &arena) < 0)
		abort();
	use(arena);
	arena_close(arena, false);
	return 0;
}
