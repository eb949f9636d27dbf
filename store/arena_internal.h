/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_STORE_ARENA_INTERNAL_H
#define PAGEFS_STORE_ARENA_INTERNAL_H

/*
 * What the arena's own files share. Two locks: `grow_lock` (one region at a
 * time gets a class; held over system calls), then `lock` (lists, counters,
 * never held over I/O once the arena serves). A slot's word is changed by
 * compare-and-swap without either.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "store/arena.h"
#include "store/arena_format.h"
#include "tools/lib/list.h"

#define ARENA_MIN_BYTES (16ull << 20)
#define ARENA_REGION_MAX_BYTES (256ull << 20)
#define ARENA_REGIONS_MAX 65535u
/* Slots from here on are files of their own. */
#define ARENA_SLOT_FILE_MIN_BYTES (256u << 10)
#define ARENA_SIZES_MAX 64u /* sizes remembered, for arena_class_for() */
#define ARENA_SIZES_AGE 1024u
#define ARENA_STRIPES 16u

/* A slot's life; arena_state.c has the table.
 *
 *	EMPTY --> RESERVED --> LIVE <--> VICTIM
 *	  |        ^ |  ^        |         |
 *	  |        | |  |        |         |
 *	  |        | |  `--> QUARANTINED   |
 *	  v        | v           v         |
 *	 FREE -----' FREEING <--'----------'
 *	  ^             |
 *	  `-------------'
 *
 * EMPTY is LIVE or FREE at once where a slot was found at open. */
enum slot_state {
	SLOT_EMPTY = 0, /* never used, or (before the sweep) not claimed */
	SLOT_FREE,
	SLOT_RESERVED,
	SLOT_LIVE,
	SLOT_VICTIM,	  /* the evictor has it: no pin is given */
	SLOT_QUARANTINED, /* a late read may still write to it */
	SLOT_FREEING,	  /* on its way to FREE, in one thread's hands */
	SLOT_STATES,
};

/* A slot's word: pins, state and flags, so that one CAS sees all of them. */
#define WORD_PINS 0xffffffffull
#define WORD_STATE_SHIFT 32
#define WORD_STATE (0xffull << WORD_STATE_SHIFT)
#define WORD_VISITED (1ull << 40)    /* hit since the hand last passed */
#define WORD_DIRTY (1ull << 41)	     /* its bytes are nowhere else */
#define WORD_UNVERIFIED (1ull << 42) /* found after a crash */
#define WORD_READY (1ull << 43)	     /* allocated and mapped */
#define WORD_DOOMED (1ull << 44)     /* to be freed with its last pin */

struct arena_slot {
	_Atomic uint64_t word;
	uint64_t seq; /* insertion number; guarded by `lock` */
	slot_t newer; /* in its class's queue; guarded by `lock` */
	slot_t older; /* the same; next free index while FREE */
};
static_assert(sizeof(struct arena_slot) <= 32, "RAM a slot");

struct arena_class {
	struct list link; /* in arena->classes */
	struct slot_class key;
	struct list usable; /* regions with a free slot */
	struct list full;
	uint32_t regions;
	/* SIEVE: a queue by insertion, and a hand that goes from the oldest
	 * to the newest and starts again. */
	slot_t newest, oldest, hand;
	uint64_t queued;
};

/* Guarded by `lock`, but for what a pinned slot holds still: class, base,
 * slot_bytes, slots. */
struct arena_region {
	struct list link; /* in one of its class's lists, or none */
	struct arena_class *class;
	uint32_t index;
	uint32_t slot_bytes, slots;
	uint32_t fresh;	 /* slots from here on were never used */
	uint32_t loaded; /* slots before this were found at open */
	/* Recycled slots, by index: allocated ones from the head, those whose
	 * allocation failed from the tail. */
	uint32_t free_head, free_tail;
	uint32_t recycled;
	uint32_t used; /* not free: reserved, live, victims, quarantined */
	uint32_t live; /* live and not a victim */
	uint64_t held_bytes; /* of the arena's bytes; its files exist */
	uint32_t mappings;
	bool slot_files;
	bool draining; /* a whole region is being evicted */
	bool busy;     /* in the hands of the grower */
	bool hungry;   /* slots are to be made ready ahead */
};

struct arena_stripe {
	_Alignas(64) _Atomic int64_t pinned_bytes;
};

struct arena {
	/* Fixed at open. */
	int dir_fd, lock_fd;
	uint64_t bytes, region_bytes;
	uint32_t regions_count, slots_max;
	bool slot_files;
	bool unclean;
	uint32_t max_mappings;
	void *reserved;
	size_t reserved_bytes;
	char *data;		  /* regions_count * region_bytes */
	char *headers;		  /* regions_count * region_bytes / 64 */
	struct arena_slot *slots; /* regions_count * slots_max */
	struct arena_superblock *superblock;
	size_t superblock_bytes;

	pthread_mutex_t grow_lock;
	pthread_mutex_t lock;
	/* Guarded by `lock`. */
	struct arena_region *regions;
	struct list classes;
	uint64_t seq;
	uint64_t budget_bytes; /* not held by any region */
	uint32_t mappings;
	uint32_t drained; /* region to go on with, or UINT32_MAX */
	uint32_t cursor;  /* where the search for a cold region goes on */
	uint64_t used_bytes, wasted_bytes, quarantined_bytes, live_slots;
	struct arena_size {
		uint32_t slot_bytes, seen;
	} sizes[ARENA_SIZES_MAX]; /* most recent first */
	uint32_t sizes_seen;	  /* sum of theirs */

	/* Guarded by grow_lock, under which regions are unmapped. */
	void (*on_unmap)(void *arg, void *start, size_t len_bytes);
	void *on_unmap_arg;

	_Atomic uint64_t layout;
	_Atomic uint64_t dirty_bytes;
	_Atomic bool hungry; /* a region may be; set under `lock` */
	struct arena_stripe pinned[ARENA_STRIPES];
};

static inline uint32_t slot_region(slot_t slot)
{
	return slot >> 16;
}

static inline uint32_t slot_index(slot_t slot)
{
	return slot & 0xffff;
}

static inline slot_t slot_number(uint32_t region, uint32_t index)
{
	return region << 16 | index;
}

static inline struct arena_slot *slot_at(const struct arena *arena, slot_t slot)
{
	return &arena->slots[(size_t)slot_region(slot) * arena->slots_max +
			     slot_index(slot)];
}

static inline struct arena_region *region_of(const struct arena *arena,
					     slot_t slot)
{
	return &arena->regions[slot_region(slot)];
}

static inline enum slot_state word_state(uint64_t word)
{
	return (enum slot_state)((word & WORD_STATE) >> WORD_STATE_SHIFT);
}

static inline char *region_data(const struct arena *arena, uint32_t region)
{
	return arena->data + (size_t)region * arena->region_bytes;
}

static inline struct arena_slot_header *
region_headers(const struct arena *arena, uint32_t region)
{
	char *at = arena->headers +
		   (size_t)region * (size_t)(arena->region_bytes / 64);

	return (struct arena_slot_header *)(void *)at;
}

static inline struct arena_slot_header *slot_header(const struct arena *arena,
						    slot_t slot)
{
	return region_headers(arena, slot_region(slot)) + slot_index(slot);
}

static inline struct arena_region_record *
region_record(const struct arena *arena, uint32_t region)
{
	char *at = (char *)arena->superblock + ARENA_SUPERBLOCK_BYTES;

	return (struct arena_region_record *)(void *)at + region;
}

/* ---- arena_state.c ---- */
bool arena_state_allows(enum slot_state from, enum slot_state to);
const char *arena_state_name(enum slot_state state);
/* The word with that state in it, and its pins and flags as they were. */
uint64_t arena_word_move(uint64_t word, enum slot_state to);

/* ---- arena_sys.c: system calls, each with its fault point ---- */
int arena_sys_open(int dir_fd, const char *name, int flags, int *ret_fd);
int arena_sys_truncate(int fd, uint64_t len_bytes);
int arena_sys_allocate(int fd, uint64_t offset, uint64_t len_bytes);
/* Maps a file shared, at `at` (replacing what is there) or anywhere. */
int arena_sys_map(void *at, size_t len_bytes, int fd, void **ret);
/* Turns a range back into a reserved one. */
int arena_sys_unmap(void *at, size_t len_bytes);

/* ---- arena_header.c: records and headers in shared memory ---- */
void arena_superblock_init(struct arena *arena);
bool arena_superblock_valid(const struct arena_superblock *superblock,
			    const struct arena *arena);
void arena_record_write(struct arena *arena, const struct arena_region *region);
void arena_record_clear(struct arena *arena, uint32_t region);
bool arena_record_valid(const struct arena *arena, uint32_t region);
unsigned arena_header_state(const struct arena_slot_header *header);
void arena_header_reserve(struct arena *arena, slot_t slot);
void arena_header_commit(struct arena *arena, slot_t slot,
			 const struct chunk_id *id, uint32_t len_bytes,
			 bool unverified);
void arena_header_free(struct arena *arena, slot_t slot);
struct chunk_id arena_header_id(const struct arena_slot_header *header);

/* ---- arena_class.c ---- */
bool arena_class_equal(const struct slot_class *a, const struct slot_class *b);
struct arena_class *arena_class_find(struct arena *arena,
				     const struct slot_class *key);
struct arena_class *arena_class_get(struct arena *arena,
				    const struct slot_class *key);
/* The region leaves its class, which goes with its last one. */
void arena_class_leave(struct arena *arena, struct arena_region *region);
/* Puts the region into the list where it belongs. */
void arena_class_place(struct arena_region *region);
/* The same, to be tried last. */
void arena_class_place_last(struct arena_region *region);

/* ---- arena_region.c: a region's files and memory ---- */
uint64_t arena_region_overhead(uint32_t slots);
/* Gives an empty region to a class; makes its files. Caller holds grow_lock
 * only. 0, ARENA_FULL or -errno. */
int arena_region_grow(struct arena *arena, const struct slot_class *key);
/* The list of recycled slots. Under `lock`. */
void arena_region_put_free(struct arena *arena, struct arena_region *region,
			   slot_t slot);
slot_t arena_region_take_free(struct arena *arena, struct arena_region *region);
/* A free slot, out of the lists, is reserved, with one pin. Under `lock`. */
void arena_region_reserve(struct arena *arena, struct arena_region *region,
			  slot_t slot);
/* Makes a slot's bytes usable: allocated and mapped. */
int arena_region_prepare(struct arena *arena, slot_t slot);
/* Maps a slot found at open; ARENA_GONE where its file isn't whole. */
int arena_region_adopt(struct arena *arena, slot_t slot);
int arena_region_map_headers(struct arena *arena, struct arena_region *region,
			     bool create);
int arena_region_map_file(struct arena *arena, struct arena_region *region,
			  bool create, uint64_t *ret_held_bytes);
/* Removes its files and mappings; not its record. */
int arena_region_clean(struct arena *arena, struct arena_region *region);
/* An empty draining region leaves its class. Under `lock`. */
void arena_region_vacate(struct arena *arena, struct arena_region *region);

/* ---- arena_ahead.c ---- */
/* A slot of the region was taken. Under `lock`. */
void arena_look_ahead(struct arena *arena, struct arena_region *region);

/* ---- arena_pin.c ---- */
void arena_pinned_add(struct arena *arena, slot_t slot, int64_t bytes);
/* Puts a slot that is FREEING onto its region's free list. */
void arena_slot_finish(struct arena *arena, slot_t slot, enum slot_state was);

/* ---- arena_queue.c: SIEVE. Under `lock`. ---- */
void arena_queue_push(struct arena *arena, slot_t slot);
void arena_queue_remove(struct arena *arena, slot_t slot);
/* Moves the hand to the next slot to evict; SLOT_NONE where all are pinned. */
slot_t arena_queue_next(struct arena *arena, struct arena_class *class);

/* ---- arena_recover.c ---- */
void arena_load(struct arena *arena);
/* Removes the arena's files that no region in use owns; all: every one. */
void arena_remove_files(struct arena *arena, bool all);

#endif
