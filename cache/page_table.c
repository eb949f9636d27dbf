/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/reads.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define CHAINS_FIRST 256u

int pages_new(struct cache *cache, struct pages **ret)
{
	struct pages *pages = calloc(1, sizeof(*pages));
	struct arena_stats arena;
	void *zeroes;

	if (!pages)
		return -ENOMEM;
	pages->chains = calloc(CHAINS_FIRST, sizeof(struct pages_node *));
	pages->hits = calloc(PAGES_HITS, sizeof(*pages->hits));
	/* Never written to, so it costs address space only. */
	zeroes = mmap(NULL, PAGES_ZERO_BYTES, PROT_READ,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!pages->chains || !pages->hits || zeroes == MAP_FAILED) {
		free(pages->chains);
		free(pages->hits);
		free(pages);
		return -ENOMEM;
	}
	arena_get_stats(cache->arena, &arena);
	pages->cache = cache;
	pages->chain_count = CHAINS_FIRST;
	pages->zeroes = zeroes;
	pages->pin_max_bytes = arena.capacity_bytes / 2;
	pages->last_max_bytes = arena.capacity_bytes / 5 * 4;
	pthread_mutex_init(&pages->lock, NULL);
	*ret = pages;
	return 0;
}

void pages_free(struct pages *pages)
{
	if (!pages)
		return;
	assert(!pages->node_count);
	assert(!pages->sweeps);
	munmap((void *)(uintptr_t)pages->zeroes, PAGES_ZERO_BYTES);
	pthread_mutex_destroy(&pages->lock);
	free(pages->chains);
	free(pages->hits);
	free(pages);
}

static struct pages_node **chain_of(struct pages *pages, uint64_t object)
{
	uint64_t hash = object * 0x9E3779B97F4A7C15ull;

	return &pages->chains[(hash >> 32) & (pages->chain_count - 1)];
}

/* By object alone: questions about an object meet all its versions. */
struct pages_node *pages_find(struct pages *pages, uint64_t object,
			      uint64_t clock)
{
	struct pages_node *node = *chain_of(pages, object);

	while (node &&
	       !(node->page && node->object == object && node->clock == clock))
		node = node->next;
	return node;
}

static void grow(struct pages *pages)
{
	size_t old_count = pages->chain_count;
	struct pages_node **old = pages->chains;
	struct pages_node **chains =
		calloc(old_count * 2, sizeof(struct pages_node *));

	if (!chains)
		return; /* longer chains, then */
	pages->chains = chains;
	pages->chain_count = old_count * 2;
	for (size_t i = 0; i < old_count; i++) {
		while (old[i]) {
			struct pages_node *node = old[i];
			struct pages_node **chain =
				chain_of(pages, node->object);

			old[i] = node->next;
			node->next = *chain;
			*chain = node;
		}
	}
	free(old);
}

void pages_insert(struct pages *pages, struct pages_node *node)
{
	struct pages_node **chain;

	if (pages->node_count >= pages->chain_count)
		grow(pages);
	chain = chain_of(pages, node->object);
	node->next = *chain;
	*chain = node;
	pages->node_count++;
}

void pages_remove(struct pages *pages, struct pages_node *node)
{
	struct pages_node **at = chain_of(pages, node->object);

	while (*at != node)
		at = &(*at)->next;
	*at = node->next;
	node->next = NULL;
	pages->node_count--;
}

/* ---- hits ---- */

static struct pages_hits *hits_of(struct pages *pages, uint64_t object)
{
	uint64_t hash = object * 0x9E3779B97F4A7C15ull;

	return &pages->hits[(hash >> 32) % PAGES_HITS & ~1ull];
}

void pages_keep_hits(struct pages *pages, const struct pages_node *node)
{
	struct pages_hits *pair = hits_of(pages, node->object);
	struct pages_hits kept = {node->object, node->hits};

	if (!node->hits)
		return;
	if (pair[0].object != node->object) {
		struct pages_hits first = pair[0];

		if (pair[1].object == node->object)
			kept.count += pair[1].count;
		pair[1] = first;
	} else {
		kept.count += pair[0].count;
	}
	pair[0] = kept;
}

uint64_t pages_hits(struct pages *pages, uint64_t object)
{
	const struct pages_hits *pair = hits_of(pages, object);
	uint64_t hits = 0;

	pthread_mutex_lock(&pages->lock);
	for (int i = 0; i < 2; i++)
		hits += pair[i].object == object ? pair[i].count : 0;
	for (struct pages_node *node = *chain_of(pages, object); node;
	     node = node->next)
		hits += node->object == object ? node->hits : 0;
	pthread_mutex_unlock(&pages->lock);
	return hits;
}

void pages_retire(struct pages *pages, struct pages_node *node)
{
	if (!node->sweep) {
		node->free(node);
		return;
	}
	pthread_mutex_lock(&pages->lock);
	node->next = pages->sweeps;
	pages->sweeps = node;
	pthread_mutex_unlock(&pages->lock);
	evictor_kick(pages->cache->evictor);
}

void pages_work(struct pages *pages)
{
	struct pages_node *node;

	pthread_mutex_lock(&pages->lock);
	while ((node = pages->sweeps) != NULL) {
		pages->sweeps = node->next;
		pthread_mutex_unlock(&pages->lock);
		cache_object_sweep(pages->cache, node->object);
		node->free(node);
		pthread_mutex_lock(&pages->lock);
	}
	pthread_mutex_unlock(&pages->lock);
}

/* ---- what changes of the index ask ---- */

bool pages_need(struct pages *pages, uint64_t object, uint64_t old_clock,
		uint64_t new_clock)
{
	bool needed = false;

	pthread_mutex_lock(&pages->lock);
	for (struct pages_node *node = *chain_of(pages, object); node;
	     node = node->next) {
		if (node->object != object || node->clock < old_clock ||
		    node->clock >= new_clock)
			continue;
		node->sweep = true;
		needed = true;
	}
	pthread_mutex_unlock(&pages->lock);
	return needed;
}

bool pages_open(struct pages *pages, uint64_t object)
{
	bool open = false;

	pthread_mutex_lock(&pages->lock);
	for (struct pages_node *node = *chain_of(pages, object); node;
	     node = node->next) {
		if (node->object != object)
			continue;
		node->sweep = true;
		open = true;
	}
	pthread_mutex_unlock(&pages->lock);
	return open;
}

void pages_lose(struct pages *pages, uint64_t object, uint64_t clock)
{
	pthread_mutex_lock(&pages->lock);
	for (struct pages_node *node = *chain_of(pages, object); node;
	     node = node->next) {
		if (node->object == object && node->clock >= clock)
			node->lost = true;
	}
	pthread_mutex_unlock(&pages->lock);
}

bool pages_lost(struct pages *pages, uint64_t object, uint64_t clock)
{
	bool lost = false;

	pthread_mutex_lock(&pages->lock);
	for (struct pages_node *node = *chain_of(pages, object); node;
	     node = node->next) {
		if (node->object == object && node->clock == clock)
			lost = lost || node->lost;
	}
	pthread_mutex_unlock(&pages->lock);
	return lost;
}

/* ---- writers' holds: a node each ---- */

static void hold_free(struct pages_node *node)
{
	free(node);
}

int pages_hold(struct pages *pages, uint64_t object, uint64_t clock)
{
	struct pages_node *node = calloc(1, sizeof(*node));

	if (!node)
		return -ENOMEM;
	node->object = object;
	node->clock = clock;
	node->refs = 1;
	node->free = hold_free;
	pthread_mutex_lock(&pages->lock);
	pages_insert(pages, node);
	pthread_mutex_unlock(&pages->lock);
	return 0;
}

static struct pages_node *find_hold(struct pages *pages, uint64_t object,
				    uint64_t clock)
{
	struct pages_node *node = *chain_of(pages, object);

	while (node->page || node->object != object || node->clock != clock)
		node = node->next;
	return node;
}

void pages_hold_move(struct pages *pages, uint64_t object, uint64_t from_clock,
		     uint64_t to_clock)
{
	pthread_mutex_lock(&pages->lock);
	find_hold(pages, object, from_clock)->clock = to_clock;
	pthread_mutex_unlock(&pages->lock);
}

void pages_release(struct pages *pages, uint64_t object, uint64_t clock)
{
	struct pages_node *node;

	pthread_mutex_lock(&pages->lock);
	node = find_hold(pages, object, clock);
	pages_remove(pages, node);
	pthread_mutex_unlock(&pages->lock);
	pages_retire(pages, node);
}
