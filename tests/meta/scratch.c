/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/meta/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

int scratch_setup(void **state)
{
	struct scratch *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	snprintf(s->root, sizeof(s->root), "%s/pagefs-meta-XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	assert_non_null(mkdtemp(s->root));
	snprintf(s->memory, sizeof(s->memory), "%s/memory", s->root);
	snprintf(s->disk, sizeof(s->disk), "%s/disk", s->root);
	assert_int_equal(mkdir(s->memory, 0700), 0);
	assert_int_equal(mkdir(s->disk, 0700), 0);
	*state = s;
	return 0;
}

int scratch_teardown(void **state)
{
	struct scratch *s = *state;
	char command[SCRATCH_PATH];

	meta_close(s->meta);
	snprintf(command, sizeof(command), "rm -rf '%s'", s->root);
	if (system(command) != 0)
		fprintf(stderr, "%s is left over\n", s->root);
	free(s);
	return 0;
}

static int open_with(struct scratch *s, const char *disk)
{
	struct meta_config config = {.memory_dir = s->memory, .disk_dir = disk};
	int rc = meta_open(&config, &s->meta);

	if (rc == META_REBUILD)
		assert_int_equal(meta_rebuilt(s->meta), 0);
	return rc;
}

int scratch_open(struct scratch *s)
{
	return open_with(s, s->disk);
}

int scratch_open_memory(struct scratch *s)
{
	return open_with(s, NULL);
}

void scratch_close(struct scratch *s)
{
	meta_close(s->meta);
	s->meta = NULL;
}

struct meta_txn *scratch_read(struct scratch *s)
{
	struct meta_txn *txn;

	assert_int_equal(meta_begin_read(s->meta, &txn), 0);
	return txn;
}

struct meta_txn *scratch_write(struct scratch *s)
{
	struct meta_txn *txn;

	assert_int_equal(meta_begin_write(s->meta, &txn), 0);
	return txn;
}

void scratch_commit(struct meta_txn *txn)
{
	assert_int_equal(meta_commit(txn), 0);
}

struct meta_entry scratch_entry(uint64_t object, uint64_t clock)
{
	return (struct meta_entry){
		.type = META_FILE,
		.mode = 0644,
		.uid = 1000,
		.gid = 1000,
		.object = object,
		.version = {.clock = clock, .node = 7},
		.size_bytes = 65536,
		.stored_bytes = 65536,
		.chunks = 1,
		.chunk_shift = CHUNK_SHIFT_MAX,
		.successor = object + 1,
		.atime_ns = 1700000000000000001,
		.mtime_ns = 1700000000000000002,
		.ctime_ns = 1700000000000000003,
	};
}

void scratch_put(struct meta_txn *txn, uint64_t dir, const char *name,
		 uint64_t object, uint64_t clock)
{
	struct meta_entry entry = scratch_entry(object, clock);
	struct meta_object row = {.dir = dir,
				  .hash = meta_name_hash(name, strlen(name)),
				  .links = 1};
	uint64_t check = clock * 31;
	struct meta_chunk chunk = {
		.id = {.object = object, .version = entry.version},
		.len_bytes = 65536,
		.slot = (uint32_t)object,
		.checksums = &check,
	};

	assert_int_equal(meta_name_put(txn, dir, name, strlen(name), &entry),
			 0);
	assert_int_equal(meta_object_put(txn, object, &row), 0);
	assert_int_equal(meta_chunk_put(txn, META_MEMORY, &chunk), 0);
}

void scratch_path(struct scratch *s, bool disk, const char *name, char *ret)
{
	snprintf(ret, SCRATCH_PATH * 2, "%s/index/%s",
		 disk ? s->disk : s->memory, name);
}

uint64_t scratch_file_bytes(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return (uint64_t)st.st_size;
}

void scratch_file_write(const char *path, uint64_t offset, const void *bytes,
			size_t len)
{
	int fd = open(path, O_WRONLY);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, len, (off_t)offset), (ssize_t)len);
	close(fd);
}

uint64_t scratch_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9E3779B97F4A7C15u);

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}
