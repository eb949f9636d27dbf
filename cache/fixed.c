/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/fixed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/internal.h"
#include "tools/lib/clock.h"

/* A buffer, and what is pinned at a time: the ring moves nothing meanwhile, so
 * that it stays at a few ms. */
#define PIECE_BYTES ((size_t)64 << 20)
#define MORE_PAUSE_NS (20 * CLOCK_NS_PER_MS)
/* What grows is looked at again when it may have come to rest. */
#define REST_NS (500 * CLOCK_NS_PER_MS)
/* The kernel has refused some: its limits seldom change. */
#define REFUSED_PAUSE_NS (60 * CLOCK_NS_PER_SECOND)

struct ranges {
	struct io_range *all; /* in order of address */
	size_t count, room;
	bool failed; /* no memory */
};

struct fixed {
	struct cache *cache;
	struct ranges registered;
	uint64_t layout; /* arena_layout() when we last looked */
	uint64_t epoch;	 /* io_epoch() when we last registered */
	uint64_t next_ns;
	bool unfinished; /* look again even if that stays the same */
};

static void forget(void *arg, void *start, size_t len_bytes)
{
	io_forget(arg, start, len_bytes);
}

int fixed_new(struct cache *cache, struct fixed **ret)
{
	struct fixed *fixed;
	struct io_stats stats;

	*ret = NULL;
	if (!cache->io)
		return 0;
	io_get_stats(cache->io, &stats);
	if (strcmp(stats.engine, "io_uring") != 0)
		return 0;
	fixed = calloc(1, sizeof(*fixed));
	if (!fixed)
		return -ENOMEM;
	fixed->cache = cache;
	fixed->unfinished = true;
	arena_on_unmap(cache->arena, forget, cache->io);
	*ret = fixed;
	return 0;
}

void fixed_free(struct fixed *fixed)
{
	if (!fixed)
		return;
	arena_on_unmap(fixed->cache->arena, NULL, NULL);
	free(fixed->registered.all);
	free(fixed);
}

/* ---- what is there ---- */

static void add(struct ranges *ranges, const struct io_range *range)
{
	if (ranges->count == ranges->room) {
		size_t room = ranges->room ? 2 * ranges->room : 64;
		struct io_range *all =
			realloc(ranges->all, room * sizeof(*all));

		if (!all) {
			ranges->failed = true;
			return;
		}
		ranges->all = all;
		ranges->room = room;
	}
	ranges->all[ranges->count++] = *range;
}

struct looking {
	struct fixed *fixed;
	struct ranges wanted;
	size_t at;	  /* in what is registered */
	size_t new_bytes; /* that would have to be pinned */
	bool at_rest;	  /* nothing was mapped since the last look */
	bool more;
};

/* What is registered from this address on, or NULL.  Asked for in order. */
static const struct io_range *registered(struct looking *looking,
					 const char *start)
{
	const struct ranges *ranges = &looking->fixed->registered;

	while (looking->at < ranges->count &&
	       (const char *)ranges->all[looking->at].start < start)
		looking->at++;
	if (looking->at == ranges->count ||
	    ranges->all[looking->at].start != start)
		return NULL;
	return &ranges->all[looking->at];
}

/* A piece that may still grow is pinned when it has come to rest: until then
 * what there was of it does. */
static void want(struct looking *looking, const struct io_range *range,
		 bool whole)
{
	const struct io_range *old = registered(looking, range->start);

	if (old && old->len_bytes == range->len_bytes) {
		add(&looking->wanted, range);
		return;
	}
	if ((whole || looking->at_rest) &&
	    (!looking->new_bytes ||
	     looking->new_bytes + range->len_bytes <= PIECE_BYTES)) {
		looking->new_bytes += range->len_bytes;
		add(&looking->wanted, range);
		return;
	}
	looking->more = true;
	if (old && old->len_bytes < range->len_bytes)
		add(&looking->wanted, old);
}

static void look_at_run(void *arg, void *start, size_t len_bytes,
			uint32_t slot_bytes)
{
	struct looking *looking = arg;
	size_t most = PIECE_BYTES / slot_bytes * slot_bytes;

	if (!most)
		most = slot_bytes;
	for (size_t done = 0; done < len_bytes;) {
		size_t left = len_bytes - done;
		struct io_range range = {
			.start = (char *)start + done,
			.len_bytes = left < most ? left : most,
			.piece_bytes = slot_bytes,
			.kept = true,
		};

		want(looking, &range, left >= most);
		done += range.len_bytes;
	}
}

/* ---- registering ---- */

static bool same(const struct ranges *a, const struct ranges *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (a->all[i].start != b->all[i].start ||
		    a->all[i].len_bytes != b->all[i].len_bytes)
			return false;
	return true;
}

/* What was forgotten since is still listed as registered, and `kept`: the ring
 * finds that it has none such, and pins it again. */
static uint64_t register_all(struct fixed *fixed, struct looking *looking,
			     uint64_t epoch, uint64_t now_ns)
{
	int count;

	count = io_register(fixed->cache->io, looking->wanted.all,
			    (unsigned)looking->wanted.count, epoch);
	if (count < 0) {
		free(looking->wanted.all);
		looking->more = true;
		return now_ns + MORE_PAUSE_NS;
	}
	free(fixed->registered.all);
	fixed->registered = looking->wanted;
	fixed->epoch = epoch;
	return (unsigned)count < looking->wanted.count
		       ? now_ns + REFUSED_PAUSE_NS
		       : now_ns + MORE_PAUSE_NS;
}

uint64_t fixed_work(struct fixed *fixed, uint64_t now_ns)
{
	struct looking looking = {.fixed = fixed};
	uint64_t layout, epoch;

	if (!fixed)
		return UINT64_MAX;
	layout = arena_layout(fixed->cache->arena);
	looking.at_rest = layout == fixed->layout;
	if (looking.at_rest && !fixed->unfinished)
		return UINT64_MAX;
	if (now_ns < fixed->next_ns)
		return fixed->next_ns;
	fixed->layout = layout;
	epoch = io_epoch(fixed->cache->io);
	arena_each_region(fixed->cache->arena, look_at_run, &looking);
	fixed->next_ns = now_ns + REST_NS;
	if (looking.wanted.failed ||
	    (epoch == fixed->epoch &&
	     same(&looking.wanted, &fixed->registered)))
		free(looking.wanted.all);
	else
		fixed->next_ns = register_all(fixed, &looking, epoch, now_ns);
	fixed->unfinished = looking.more;
	return looking.more ? fixed->next_ns : UINT64_MAX;
}
