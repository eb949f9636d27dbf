/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/negative.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/checksum.h"
#include "tools/lib/clock.h"

#define NONE UINT32_MAX
#define ENTRIES_FIRST 64u

/* A held entry waits for a look-up that the kernel makes at once.  Should it
 * never come (the caller was killed), the entry is let go this long after its
 * end. */
#define HOLD_MAX_NS (2 * CLOCK_NS_PER_SECOND)

/* 48 bytes, and 4 to 8 of the table's. */
struct entry {
	struct key_id key;
	uint64_t end_ns;
	uint32_t holds;
	uint32_t chain;	     /* next in its place of the table, or free */
	uint32_t prev, next; /* in the order of ends */
};

struct negative {
	pthread_mutex_t lock;
	/* Also read without the lock: most look-ups find nothing here. */
	_Atomic uint64_t count;
	_Atomic uint64_t ttl_ns;
	_Atomic uint32_t max_entries;

	/* Guarded by lock. */
	struct entry *entries;
	uint32_t *table; /* as many as entries: the first of each chain */
	uint32_t room;	 /* a power of two */
	uint32_t free;
	uint32_t first, last; /* nearest and farthest end */
	struct negative_stats stats;
};

int negative_new(uint64_t ttl_ns, unsigned max_entries, struct negative **ret)
{
	struct negative *negative = calloc(1, sizeof(*negative));

	if (!negative)
		return -ENOMEM;
	pthread_mutex_init(&negative->lock, NULL);
	negative->free = negative->first = negative->last = NONE;
	negative->ttl_ns = ttl_ns;
	negative->max_entries = max_entries;
	*ret = negative;
	return 0;
}

void negative_free(struct negative *negative)
{
	if (!negative)
		return;
	pthread_mutex_destroy(&negative->lock);
	free(negative->entries);
	free(negative->table);
	free(negative);
}

bool negative_enabled(const struct negative *negative)
{
	return negative->ttl_ns && negative->max_entries;
}

struct key_id negative_key(uint64_t dir, const char *name, size_t len)
{
	char bytes[sizeof(dir) + NAME_MAX_BYTES];
	uint64_t hash[2];

	if (len > NAME_MAX_BYTES)
		len = NAME_MAX_BYTES;
	memcpy(bytes, &dir, sizeof(dir));
	memcpy(bytes + sizeof(dir), name, len);
	checksum_key(bytes, sizeof(dir) + len, hash);
	return (struct key_id){hash[0], hash[1]};
}

/* ---- the table; under lock ---- */

static uint32_t *chain_of(struct negative *negative, struct key_id key)
{
	return &negative->table[key.lo & (negative->room - 1)];
}

static uint32_t find(struct negative *negative, struct key_id key)
{
	uint32_t at;

	if (!negative->count)
		return NONE;
	at = *chain_of(negative, key);
	while (at != NONE && (negative->entries[at].key.lo != key.lo ||
			      negative->entries[at].key.hi != key.hi))
		at = negative->entries[at].chain;
	return at;
}

static void order_remove(struct negative *negative, uint32_t at)
{
	struct entry *entry = &negative->entries[at];

	if (entry->prev == NONE)
		negative->first = entry->next;
	else
		negative->entries[entry->prev].next = entry->next;
	if (entry->next == NONE)
		negative->last = entry->prev;
	else
		negative->entries[entry->next].prev = entry->prev;
}

/* Ends come in nearly ascending order: one TTL, and clocks of many threads. */
static void order_insert(struct negative *negative, uint32_t at)
{
	struct entry *entry = &negative->entries[at];
	uint32_t before = negative->last;

	while (before != NONE &&
	       negative->entries[before].end_ns > entry->end_ns)
		before = negative->entries[before].prev;
	entry->prev = before;
	entry->next = before == NONE ? negative->first
				     : negative->entries[before].next;
	if (before == NONE)
		negative->first = at;
	else
		negative->entries[before].next = at;
	if (entry->next == NONE)
		negative->last = at;
	else
		negative->entries[entry->next].prev = at;
}

static void remove_at(struct negative *negative, uint32_t at)
{
	struct entry *entry = &negative->entries[at];
	uint32_t *link = chain_of(negative, entry->key);

	while (*link != at)
		link = &negative->entries[*link].chain;
	*link = entry->chain;
	order_remove(negative, at);
	entry->chain = negative->free;
	negative->free = at;
	negative->count--;
}

static bool grow(struct negative *negative)
{
	uint32_t old = negative->room;
	uint32_t room = old ? 2 * old : ENTRIES_FIRST;
	struct entry *entries =
		realloc(negative->entries, room * sizeof(*entries));
	uint32_t *table;

	if (!entries)
		return false;
	negative->entries = entries;
	table = malloc(room * sizeof(*table));
	if (!table)
		return false;
	free(negative->table);
	negative->table = table;
	negative->room = room;
	memset(table, 0xff, room * sizeof(*table));
	for (uint32_t at = negative->first; at != NONE; at = entries[at].next) {
		uint32_t *chain = chain_of(negative, entries[at].key);

		entries[at].chain = *chain;
		*chain = at;
	}
	for (uint32_t at = old; at < room; at++) {
		entries[at].chain = negative->free;
		negative->free = at;
	}
	return true;
}

/* ---- ends ---- */

static bool over(const struct entry *entry, uint64_t now_ns)
{
	uint64_t end_ns = entry->end_ns + (entry->holds ? HOLD_MAX_NS : 0);

	return now_ns >= end_ns;
}

static void expire(struct negative *negative, uint64_t now_ns)
{
	uint32_t at = negative->first, next;

	for (; at != NONE && negative->entries[at].end_ns <= now_ns;
	     at = next) {
		next = negative->entries[at].next;
		if (!over(&negative->entries[at], now_ns))
			continue;
		remove_at(negative, at);
		negative->stats.expired++;
	}
}

/* One entry goes, the nearest to its end that nobody holds.  With all of them
 * held the cache is as large as there are failed opens under way. */
static void evict(struct negative *negative)
{
	uint32_t at = negative->first;

	while (at != NONE && negative->entries[at].holds)
		at = negative->entries[at].next;
	if (at == NONE)
		return;
	remove_at(negative, at);
	negative->stats.evicted_early++;
}

static uint64_t left(struct negative *negative, struct key_id key,
		     uint64_t now_ns)
{
	uint32_t at = find(negative, key);
	const struct entry *entry;

	if (at == NONE)
		return 0;
	entry = &negative->entries[at];
	if (over(entry, now_ns)) {
		remove_at(negative, at);
		negative->stats.expired++;
		return 0;
	}
	negative->stats.hits++;
	/* A held entry is there until it has been seen. */
	return now_ns < entry->end_ns ? entry->end_ns - now_ns : 1;
}

static bool insert(struct negative *negative, struct key_id key,
		   uint64_t now_ns, bool hold)
{
	uint32_t at = find(negative, key);
	struct entry *entry;

	if (at != NONE) {
		order_remove(negative, at);
	} else {
		expire(negative, now_ns);
		while (negative->count >= negative->max_entries) {
			uint64_t before = negative->count;

			evict(negative);
			if (negative->count == before)
				break;
		}
		if (negative->free == NONE && !grow(negative))
			return false;
		at = negative->free;
		entry = &negative->entries[at];
		negative->free = entry->chain;
		entry->key = key;
		entry->holds = 0;
		entry->chain = *chain_of(negative, key);
		*chain_of(negative, key) = at;
		negative->count++;
	}
	entry = &negative->entries[at];
	entry->end_ns = now_ns + negative->ttl_ns;
	entry->holds += hold;
	order_insert(negative, at);
	negative->stats.inserts++;
	return true;
}

static bool remove_key(struct negative *negative, struct key_id key)
{
	uint32_t at = find(negative, key);

	if (at == NONE)
		return false;
	remove_at(negative, at);
	negative->stats.cleared++;
	return true;
}

/* ---- one key ---- */

uint64_t negative_left(struct negative *negative, struct key_id key,
		       uint64_t now_ns)
{
	uint64_t result;

	if (!negative->count)
		return 0;
	pthread_mutex_lock(&negative->lock);
	result = left(negative, key, now_ns);
	pthread_mutex_unlock(&negative->lock);
	return result;
}

bool negative_insert(struct negative *negative, struct key_id key,
		     uint64_t now_ns, bool hold)
{
	bool result = false;

	pthread_mutex_lock(&negative->lock);
	if (negative_enabled(negative))
		result = insert(negative, key, now_ns, hold);
	pthread_mutex_unlock(&negative->lock);
	return result;
}

void negative_release(struct negative *negative, struct key_id key)
{
	uint32_t at;

	if (!negative->count)
		return;
	pthread_mutex_lock(&negative->lock);
	at = find(negative, key);
	if (at != NONE && negative->entries[at].holds)
		negative->entries[at].holds--;
	pthread_mutex_unlock(&negative->lock);
}

bool negative_remove(struct negative *negative, struct key_id key)
{
	bool result;

	if (!negative->count)
		return false;
	pthread_mutex_lock(&negative->lock);
	result = remove_key(negative, key);
	pthread_mutex_unlock(&negative->lock);
	return result;
}

/* ---- batches ---- */

void negative_left_batch(struct negative *negative, const struct key_id *keys,
			 size_t count, uint64_t now_ns, uint64_t *ret_left)
{
	pthread_mutex_lock(&negative->lock);
	for (size_t i = 0; i < count; i++)
		ret_left[i] = left(negative, keys[i], now_ns);
	pthread_mutex_unlock(&negative->lock);
}

void negative_insert_batch(struct negative *negative, const struct key_id *keys,
			   size_t count, uint64_t now_ns)
{
	pthread_mutex_lock(&negative->lock);
	for (size_t i = 0; i < count && negative_enabled(negative); i++)
		insert(negative, keys[i], now_ns, false);
	pthread_mutex_unlock(&negative->lock);
}

void negative_remove_batch(struct negative *negative, const struct key_id *keys,
			   size_t count)
{
	pthread_mutex_lock(&negative->lock);
	for (size_t i = 0; i < count; i++)
		remove_key(negative, keys[i]);
	pthread_mutex_unlock(&negative->lock);
}

/* ---- all of them ---- */

void negative_configure(struct negative *negative, uint64_t ttl_ns,
			unsigned max_entries)
{
	uint64_t latest_ns = clock_monotonic_ns() + ttl_ns;

	pthread_mutex_lock(&negative->lock);
	negative->ttl_ns = ttl_ns;
	negative->max_entries = max_entries;
	/* Order is kept: only ends at the tail are cut, to one value. */
	for (uint32_t at = negative->last; at != NONE;
	     at = negative->entries[at].prev) {
		if (negative->entries[at].end_ns <= latest_ns)
			break;
		negative->entries[at].end_ns = latest_ns;
	}
	for (uint64_t before = negative->count + 1;
	     negative->count > max_entries && negative->count < before;) {
		before = negative->count;
		evict(negative);
	}
	pthread_mutex_unlock(&negative->lock);
}

size_t negative_clear(struct negative *negative)
{
	size_t count;

	pthread_mutex_lock(&negative->lock);
	count = negative->count;
	while (negative->first != NONE)
		remove_at(negative, negative->first);
	negative->stats.cleared += count;
	pthread_mutex_unlock(&negative->lock);
	return count;
}

void negative_each(struct negative *negative, uint64_t now_ns,
		   void (*each)(void *arg, struct key_id key, uint64_t left_ns),
		   void *arg)
{
	struct entry *copy;
	size_t count = 0;

	pthread_mutex_lock(&negative->lock);
	copy = calloc(negative->count + 1, sizeof(*copy));
	for (uint32_t at = negative->first; copy && at != NONE;
	     at = negative->entries[at].next)
		copy[count++] = negative->entries[at];
	pthread_mutex_unlock(&negative->lock);
	for (size_t i = 0; i < count; i++)
		if (copy[i].end_ns > now_ns)
			each(arg, copy[i].key, copy[i].end_ns - now_ns);
	free(copy);
}

void negative_get_stats(struct negative *negative, struct negative_stats *ret)
{
	pthread_mutex_lock(&negative->lock);
	*ret = negative->stats;
	ret->entries = negative->count;
	pthread_mutex_unlock(&negative->lock);
}
