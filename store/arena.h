/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_STORE_ARENA_H
#define PAGEFS_STORE_ARENA_H

/*
 * The memory tier: regions of 256 MiB (an eighth of the arena where that is
 * less), each cut into slots of one class.  A slot holds one chunk, from its
 * first byte.  Slots of 256 KiB and more are files of their own on a tmpfs
 * (so that the kernel can pass a page's file through), mapped at their place
 * in the region's one address range; smaller ones share one file a region.
 * A table of slot headers in a file of its own (shared memory, too) says what
 * each slot holds, so that the arena outlives the daemon: see
 * arena_claim().  A region that has emptied can change its class.
 *
 * Threads: every function may be called from any thread unless it says
 * otherwise.  Pinning a slot that is there takes no lock that eviction holds
 * for long and makes no system call.
 *
 * Cost: 64 bytes of header and at most 32 of state a slot.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/lib/page.h"

struct arena;

/* A slot's number: region << 16 | index in the region. */
typedef uint32_t slot_t;
#define SLOT_NONE UINT32_MAX

enum arena_outcome {
	ARENA_FRESH = 1,      /* open: a new, empty arena */
	ARENA_KEPT = 2,	      /* open: found as a clean stop left it */
	ARENA_UNVERIFIED = 3, /* open: found after a crash: check each slot
				 again at its first use */
	ARENA_FULL = 4,	      /* alloc: no slot of this class can be had until
				 something is evicted */
	ARENA_GONE = 5,	      /* pin: the slot holds something else now */
};

struct arena_config {
	uint64_t bytes;	       /* the arena never grows past this, headers
				  included */
	const char *dir;       /* an existing directory on a tmpfs (or, for
				  tests, anywhere); the arena makes its files in
				  it.  arena_place() finds the usual one */
	bool slot_files;       /* large slots as files of their own */
	uint32_t max_mappings; /* slot files stop at this many (0: half of
				 vm.max_map_count) */
};

/* What a slot may be used for.  Slots of one class have one length (rounded
 * up to 4 KiB), owner and mode, so that a recycled slot, handed to a client
 * as a file, shows nobody what he could not read before. */
struct slot_class {
	uint32_t slot_bytes;
	uid_t uid;
	gid_t gid;
	mode_t mode; /* permission bits */
};

struct arena_stats {
	uint64_t capacity_bytes; /* slots of regions that have a class, and
				    what is left for more of them */
	uint64_t used_bytes;	 /* slots that are not free: reserved, live,
				    evicted but not freed yet, quarantined */
	uint64_t wasted_bytes;	 /* slot length minus chunk length, live */
	uint64_t pinned_bytes;	 /* live slots with a pin */
	uint64_t dirty_bytes;	 /* live slots whose bytes are nowhere else */
	uint64_t quarantined_bytes; /* a late read may still write to them */
	uint64_t free_slots;	    /* in regions that have a class */
	uint64_t live_slots;
	uint32_t regions;
	uint32_t regions_unassigned;
};

/* Chooses and makes the directory for an arena of `bytes`: as root a private
 * tmpfs mounted on /run/pagefs/<instance> (mode 0700, huge=within_size where
 * the kernel knows it); else $XDG_RUNTIME_DIR/pagefs/<instance> or
 * /dev/shm/pagefs-<uid>/<instance>, whichever file system has room.  Writes
 * the path to ret_path.  0, or -ENOSPC with *ret_room set to the bytes that
 * are there; -EBUSY, with the path: another pagefs has that arena open, and it
 * is left alone; or another -errno.  Call before any thread starts. */
int arena_place(const char *instance, uint64_t bytes, char *ret_path,
		size_t path_bytes, uint64_t *ret_room);
/* What lies in the directory that arena_place() chose: ARENA_FRESH (nothing
 * yet), ARENA_KEPT (an arena; nobody has it open), or -EBUSY: some pagefs has.
 */
struct arena_found {
	uint64_t bytes; /* its size; 0: it can't be read */
	pid_t pid;	/* who has it open, or had it last */
};
int arena_look(const char *path, struct arena_found *ret);
/* Undoes arena_place(): removes the directory, its files and its tmpfs. */
int arena_unplace(const char *path);

/* ARENA_FRESH, ARENA_KEPT or ARENA_UNVERIFIED; -EBUSY when another process
 * has it; -ENOSPC, -EINVAL (smaller than 16 MiB), -errno.  An arena found
 * with another size, format or configuration that cannot be kept is emptied
 * (ARENA_FRESH).  After KEPT and UNVERIFIED the caller claims what its index
 * still names, then calls arena_sweep(). */
int arena_open(const struct arena_config *config, struct arena **ret);
/* Marks the arena clean and unmaps it; the files stay (`keep`), or go.  The
 * caller has unpinned everything and no I/O is in flight. */
void arena_close(struct arena *arena, bool keep);

/* Before arena_sweep(): this slot holds this chunk, says the index.  0, or
 * ARENA_GONE when the slot's header says otherwise or its file is not whole,
 * or -errno when it can't be mapped: then, too, it is gone for this index. */
int arena_claim(struct arena *arena, slot_t slot, const struct chunk_id *id,
		uint32_t len_bytes, bool dirty);
/* Frees every slot that nobody claimed.  Regions found at open change their
 * class only after it. */
void arena_sweep(struct arena *arena);

/* The largest chunk this arena takes, as a shift (at most CHUNK_SHIFT_MAX):
 * a small arena has small regions. */
unsigned arena_chunk_shift(const struct arena *arena);

/* Reserves a slot: fallocated (never SIGBUS), content undefined, pinned once
 * by the caller, invisible to eviction.  0, ARENA_FULL, or -ENOSPC when the
 * tmpfs is full although the arena is not. */
int arena_alloc(struct arena *arena, const struct slot_class *class,
		slot_t *ret);
/* Slots that were never used cost ten times as much at their first touch: the
 * kernel clears them.  While a class takes such slots, arena_hungry() says so
 * (any thread, no lock), and arena_ahead() makes the next of them ready, one a
 * call, up to 32 MiB of free ones a region (arenas below 128 MiB: none);
 * false: that is enough for now.  For a thread of its own. */
bool arena_hungry(const struct arena *arena);
bool arena_ahead(struct arena *arena);
/* The smallest class with room for len_bytes as this arena rounds them: the
 * exact length for sizes that repeat, else steps of an eighth. */
struct slot_class arena_class_for(struct arena *arena, uint64_t len_bytes,
				  uid_t uid, gid_t gid, mode_t mode);
/* The reserved slot now holds this chunk; it becomes live, evictable once
 * unpinned, most recent in age.  `dirty`: its bytes are nowhere else.  The
 * caller has zeroed from len_bytes to the next 4 KiB. */
void arena_commit(struct arena *arena, slot_t slot, const struct chunk_id *id,
		  uint32_t len_bytes, bool dirty);
/* The slot's bytes are in a bucket (or at a peer) as well, or no longer. */
void arena_set_dirty(struct arena *arena, slot_t slot, bool dirty);

/* First byte of the slot: 4 KiB-aligned, slot_bytes long.  Valid while
 * pinned.  Nobody writes to a live slot. */
void *arena_data(const struct arena *arena, slot_t slot);
uint32_t arena_slot_bytes(const struct arena *arena, slot_t slot);
/* What the slot holds and how long it is; caller has it pinned. */
void arena_describe(const struct arena *arena, slot_t slot,
		    struct chunk_id *ret_id, uint32_t *ret_len_bytes);
/* True until the first arena_set_verified() of a slot found after a crash. */
bool arena_unverified(const struct arena *arena, slot_t slot);
void arena_set_verified(struct arena *arena, slot_t slot);

/* Pins the slot if it still holds this chunk (then counts as a hit for
 * eviction): 0, or ARENA_GONE. */
int arena_pin(struct arena *arena, slot_t slot, const struct chunk_id *id);
/* The same for housekeeping: no hit. */
int arena_pin_quietly(struct arena *arena, slot_t slot,
		      const struct chunk_id *id);
/* Has it been hit since eviction last passed it, or since its commit? */
bool arena_hit_lately(const struct arena *arena, slot_t slot);
/* One more pin for a caller that has one. */
void arena_ref(struct arena *arena, slot_t slot);
void arena_unpin(struct arena *arena, slot_t slot);
/* Frees a live or reserved slot: now, or with its last pin.  No new pin is
 * given from here on.  For a reserved slot the caller gives up its pin. */
void arena_free(struct arena *arena, slot_t slot);

/* A read into this reserved slot was answered by its deadline but may still
 * write: the slot is kept from use until arena_quarantine_end().  Takes over
 * the caller's pin. */
void arena_quarantine(struct arena *arena, slot_t slot);
void arena_quarantine_end(struct arena *arena, slot_t slot);

/* Takes up to `max` of the coldest unpinned live slots (SIEVE), of at least
 * bytes_wanted in all if there are that many, out of circulation: they can't
 * be pinned any more.  They are the caller's alone: nobody else may free them.
 * He ends each by arena_free(), or by arena_restore() (keep it after all). With
 * `class` not NULL slots are chosen so that an arena_alloc() of that class will
 * succeed: of that class, or a whole region's (a region of more than `max`
 * slots takes more than one call: evict and allocate again until it succeeds or
 * nothing is returned; its slots can be more than bytes_wanted).  Returns how
 * many. */
struct arena_victim {
	slot_t slot;
	struct chunk_id id;
	uint32_t len_bytes;
	bool dirty;
};
size_t arena_victims(struct arena *arena, uint64_t bytes_wanted,
		     const struct slot_class *class,
		     struct arena_victim *victims, size_t max);
void arena_restore(struct arena *arena, slot_t slot);

void arena_get_stats(struct arena *arena, struct arena_stats *ret);

/* For registering the arena with io_uring or a network card: calls `each`
 * for every region that has a class, once for each run of slots that are
 * mapped (a slot is from its first use on; before it, touching its address
 * faults). In the usual case that is one run a region. No region changes its
 * class meanwhile: `each` must not allocate. */
void arena_each_region(struct arena *arena,
		       void (*each)(void *arg, void *start, size_t len_bytes,
				    uint32_t slot_bytes),
		       void *arg);
/* Rises when slots are mapped for the first time, and when they are unmapped.
 * Any thread, no lock. */
uint64_t arena_layout(const struct arena *arena);
/* `gone` is called before the memory of a region that changes its class is
 * unmapped (nothing uses it any more): with locks held, so it must neither
 * block nor call the arena.  NULL: nobody any more; returns when no call is
 * under way.
 */
void arena_on_unmap(struct arena *arena,
		    void (*gone)(void *arg, void *start, size_t len_bytes),
		    void *arg);

#endif
