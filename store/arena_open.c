/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/lib/fault.h"
#include "tools/lib/log.h"

#define HUGE_PAGE_BYTES (2ull << 20)

static uint32_t default_mappings(void)
{
	FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned count = 65530;

	if (file) {
		if (fscanf(file, "%u", &count) != 1)
			count = 65530;
		fclose(file);
	}
	return count / 2;
}

/* How large regions are, and what that makes of the rest. */
static int size_up(struct arena *arena, const struct arena_config *config)
{
	uint64_t region = ARENA_REGION_MAX_BYTES;
	uint64_t count;

	arena->bytes = config->bytes & ~(uint64_t)(BLOCK_BYTES - 1);
	if (arena->bytes < ARENA_MIN_BYTES)
		return -EINVAL;
	while (region > arena->bytes / 8)
		region /= 2;
	/* Addresses cost nothing, bytes are counted: more regions than the
	 * bytes make up for what slots leave over at the ends of regions. */
	count = (arena->bytes + region - 1) / region * 3 / 2;
	if (count > ARENA_REGIONS_MAX)
		return -EINVAL;
	arena->region_bytes = region;
	arena->regions_count = (uint32_t)count;
	arena->slots_max = (uint32_t)(region / BLOCK_BYTES);
	arena->superblock_bytes =
		ARENA_SUPERBLOCK_BYTES +
		round_up_block(count * sizeof(struct arena_region_record));
	arena->budget_bytes = arena->bytes - arena->superblock_bytes;
	arena->slot_files = config->slot_files;
	arena->max_mappings = config->max_mappings ? config->max_mappings
						   : default_mappings();
	return 0;
}

static void *reserve(size_t len_bytes, int protection)
{
	void *map;

	if (fault_point("store.arena_reserve"))
		return NULL;
	map = mmap(NULL, len_bytes, protection,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return map == MAP_FAILED ? NULL : map;
}

static size_t slots_bytes(const struct arena *arena)
{
	return (size_t)arena->regions_count * arena->slots_max *
	       sizeof(struct arena_slot);
}

/* One range of addresses for slots and headers; states are zeros that cost
 * nothing before they are touched. */
static int reserve_memory(struct arena *arena)
{
	size_t data_bytes =
		(size_t)arena->regions_count * (size_t)arena->region_bytes;
	uintptr_t start;

	arena->reserved_bytes = data_bytes + data_bytes / 64 + HUGE_PAGE_BYTES;
	arena->reserved = reserve(arena->reserved_bytes, PROT_NONE);
	if (!arena->reserved)
		return -ENOMEM;
	arena->slots = reserve(slots_bytes(arena), PROT_READ | PROT_WRITE);
	if (!arena->slots)
		return -ENOMEM;
	start = ((uintptr_t)arena->reserved + HUGE_PAGE_BYTES - 1) &
		~(uintptr_t)(HUGE_PAGE_BYTES - 1);
	arena->data =
		(char *)arena->reserved + (start - (uintptr_t)arena->reserved);
	arena->headers = arena->data + data_bytes;
	arena->regions = calloc(arena->regions_count, sizeof(*arena->regions));
	if (!arena->regions)
		return -ENOMEM;
	for (uint32_t i = 0; i < arena->regions_count; i++) {
		list_init(&arena->regions[i].link);
		arena->regions[i].index = i;
		arena->regions[i].free_head = UINT32_MAX;
	}
	return 0;
}

/* Opens and locks the file `arena`; its first bytes go to ret_found. */
static int open_superblock(struct arena *arena,
			   struct arena_superblock *ret_found, bool *ret_any)
{
	struct stat st;
	ssize_t got;
	int rc = arena_sys_open(arena->dir_fd, "arena", O_RDWR | O_CREAT,
				&arena->lock_fd);

	if (rc)
		return rc;
	if (flock(arena->lock_fd, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	/* Another one may have removed it between our open and our lock. */
	if (fstat(arena->lock_fd, &st) || !st.st_nlink)
		return -EBUSY;
	got = pread(arena->lock_fd, ret_found, sizeof(*ret_found), 0);
	if (got < 0)
		return -errno;
	*ret_any = got > 0;
	if ((size_t)got < sizeof(*ret_found))
		ret_found->magic[0] = 0;
	return 0;
}

static int map_superblock(struct arena *arena)
{
	void *map;
	int rc = arena_sys_truncate(arena->lock_fd, arena->superblock_bytes);

	if (!rc)
		rc = arena_sys_allocate(arena->lock_fd, 0,
					arena->superblock_bytes);
	if (!rc)
		rc = arena_sys_map(NULL, arena->superblock_bytes,
				   arena->lock_fd, &map);
	if (!rc)
		arena->superblock = map;
	return rc;
}

static void set_clean(struct arena *arena, uint32_t clean)
{
	/* After everything the flag speaks of. */
	__atomic_store_n(&arena->superblock->clean.v, le32_put(clean).v,
			 __ATOMIC_SEQ_CST);
}

/* 0: in order; ARENA_UNVERIFIED: not; ARENA_FRESH: nothing that fits. */
static int judge(const struct arena *arena,
		 const struct arena_superblock *found, bool any)
{
	if (any && arena_superblock_valid(found, arena))
		return le32_get(found->clean) == 1 ? ARENA_KEPT
						   : ARENA_UNVERIFIED;
	if (any)
		log_info("the memory tier found has another size or format: "
			 "emptied");
	return ARENA_FRESH;
}

static int start(struct arena *arena, const char *dir)
{
	struct arena_superblock found;
	bool any = false;
	int outcome;
	int rc = arena_sys_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY,
				&arena->dir_fd);

	if (!rc)
		rc = reserve_memory(arena);
	if (!rc)
		rc = open_superblock(arena, &found, &any);
	if (rc)
		return rc;
	outcome = judge(arena, &found, any);
	/* Before its file has the new size: what is there belongs to it. */
	if (outcome == ARENA_FRESH)
		arena_remove_files(arena, true);
	rc = map_superblock(arena);
	if (rc)
		return rc;
	if (outcome == ARENA_FRESH)
		arena_superblock_init(arena);
	set_clean(arena, 0);
	arena->superblock->pid = le32_put((uint32_t)getpid());
	arena->unclean = outcome == ARENA_UNVERIFIED;
	arena_load(arena);
	return outcome;
}

static void arena_release(struct arena *arena)
{
	list_for_each_safe (node, &arena->classes)
		free(list_entry(node, struct arena_class, link));
	if (arena->superblock)
		munmap(arena->superblock, arena->superblock_bytes);
	if (arena->slots)
		munmap(arena->slots, slots_bytes(arena));
	if (arena->reserved)
		munmap(arena->reserved, arena->reserved_bytes);
	free(arena->regions);
	if (arena->lock_fd >= 0)
		close(arena->lock_fd); /* ends the lock, too */
	if (arena->dir_fd >= 0)
		close(arena->dir_fd);
	pthread_mutex_destroy(&arena->grow_lock);
	pthread_mutex_destroy(&arena->lock);
	free(arena);
}

int arena_open(const struct arena_config *config, struct arena **ret)
{
	struct arena *arena = NULL;
	int rc;

	if (posix_memalign((void **)&arena, 64, sizeof(*arena)))
		return -ENOMEM;
	*arena = (struct arena){
		.dir_fd = -1, .lock_fd = -1, .drained = UINT32_MAX};
	pthread_mutex_init(&arena->grow_lock, NULL);
	pthread_mutex_init(&arena->lock, NULL);
	list_init(&arena->classes);
	rc = size_up(arena, config);
	if (!rc)
		rc = start(arena, config->dir);
	if (rc < 0) {
		arena_release(arena);
		return rc;
	}
	*ret = arena;
	return rc;
}

void arena_close(struct arena *arena, bool keep)
{
	if (!arena)
		return;
	if (keep)
		set_clean(arena, 1);
	else
		arena_remove_files(arena, true);
	arena_release(arena);
}
