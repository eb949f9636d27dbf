/* SPDX-License-Identifier: Apache-2.0 */
#include "arena_fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int arena_fixture_setup_closed(void **state)
{
	struct arena_fixture *fixture = calloc(1, sizeof(*fixture));

	if (!fixture)
		return -1;
	strcpy(fixture->dir, "/dev/shm/pagefs-test-XXXXXX");
	if (!mkdtemp(fixture->dir)) {
		strcpy(fixture->dir, "/tmp/pagefs-test-XXXXXX");
		if (!mkdtemp(fixture->dir))
			return -1;
	}
	fixture->config = (struct arena_config){
		.bytes = MIB(32), .dir = fixture->dir, .slot_files = true};
	*state = fixture;
	return 0;
}

int arena_fixture_setup(void **state)
{
	struct arena_fixture *fixture;

	if (arena_fixture_setup_closed(state))
		return -1;
	fixture = *state;
	return arena_open(&fixture->config, &fixture->arena) == ARENA_FRESH
		       ? 0
		       : -1;
}

int arena_fixture_teardown(void **state)
{
	struct arena_fixture *fixture = *state;
	char command[128];
	int rc;

	arena_close(fixture->arena, false);
	snprintf(command, sizeof(command), "rm -rf %s", fixture->dir);
	rc = system(command);
	free(fixture);
	return rc;
}

int arena_fixture_reopen(struct arena_fixture *fixture, bool keep)
{
	arena_close(fixture->arena, keep);
	fixture->arena = NULL;
	return arena_open(&fixture->config, &fixture->arena);
}

unsigned arena_fixture_files(const struct arena_fixture *fixture)
{
	DIR *dir = opendir(fixture->dir);
	unsigned count = 0;

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count - 2; /* . and .. */
}

struct chunk_id chunk_of(uint64_t object)
{
	return (struct chunk_id){.object = object,
				 .index = (uint32_t)(object % 7),
				 .version = {object * 31 + 1, 5}};
}

/* The id in every 512 bytes: enough to see any mixture. */
void chunk_fill(void *data, uint32_t len_bytes, const struct chunk_id *id)
{
	for (uint32_t at = 0; at + 8 <= len_bytes; at += 512) {
		uint64_t word = id->object * 0x9E3779B97F4A7C15u + at;

		memcpy((char *)data + at, &word, sizeof(word));
	}
}

bool chunk_check(const void *data, uint32_t len_bytes,
		 const struct chunk_id *id)
{
	for (uint32_t at = 0; at + 8 <= len_bytes; at += 512) {
		uint64_t word;

		memcpy(&word, (const char *)data + at, sizeof(word));
		if (word != id->object * 0x9E3779B97F4A7C15u + at)
			return false;
	}
	return true;
}

size_t chunk_evict(struct arena *arena, const struct slot_class *class)
{
	struct arena_victim victims[64];
	size_t count =
		arena_victims(arena, class->slot_bytes, class, victims, 64);

	for (size_t i = 0; i < count; i++)
		arena_free(arena, victims[i].slot);
	return count;
}

int chunk_put(struct arena *arena, const struct slot_class *class,
	      uint64_t object, slot_t *ret)
{
	struct chunk_id id = chunk_of(object);
	slot_t slot;
	int rc;

	while ((rc = arena_alloc(arena, class, &slot)) == ARENA_FULL) {
		if (!chunk_evict(arena, class))
			return ARENA_FULL;
	}
	if (rc)
		return rc;
	chunk_fill(arena_data(arena, slot), class->slot_bytes, &id);
	arena_commit(arena, slot, &id, class->slot_bytes, false);
	arena_unpin(arena, slot);
	*ret = slot;
	return 0;
}
