/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/node.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"

#define FIRST_BUCKETS 1024u

/*
 * Two indexes over the same nodes: by number and by what they stand for.  Both
 * tables have the same size and grow together when there are more nodes than
 * buckets; at a million nodes one growth takes some 20 ms.
 */
struct nodes {
	pthread_mutex_t lock;
	/* Guarded by lock. */
	struct node **by_number;
	struct node **by_key;
	size_t buckets; /* a power of two */
	size_t count;
	uint64_t next_number;
};

static uint64_t mix(uint64_t v)
{
	v *= 0x9E3779B97F4A7C15ull;
	return v ^ (v >> 32);
}

static uint64_t key_hash(uint64_t object, uint64_t clock,
			 const struct cache_staging *staging)
{
	if (staging)
		return mix((uint64_t)(uintptr_t)staging);
	return mix(object ^ mix(clock));
}

static uint64_t node_hash(const struct node *node)
{
	return key_hash(node->object, node->clock, node->staging);
}

static void insert(struct nodes *nodes, struct node *node)
{
	size_t mask = nodes->buckets - 1;
	struct node **number = &nodes->by_number[mix(node->number) & mask];
	struct node **key = &nodes->by_key[node_hash(node) & mask];

	node->next_number = *number;
	*number = node;
	node->next_key = *key;
	*key = node;
}

static void unlink_node(struct nodes *nodes, struct node *node)
{
	size_t mask = nodes->buckets - 1;
	struct node **p = &nodes->by_number[mix(node->number) & mask];

	while (*p != node)
		p = &(*p)->next_number;
	*p = node->next_number;
	p = &nodes->by_key[node_hash(node) & mask];
	while (*p != node)
		p = &(*p)->next_key;
	*p = node->next_key;
	nodes->count--;
}

static int tables_new(size_t buckets, struct node ***ret_number,
		      struct node ***ret_key)
{
	struct node **number = calloc(buckets, sizeof(*number));
	struct node **key = calloc(buckets, sizeof(*key));

	if (!number || !key) {
		free(number);
		free(key);
		return -ENOMEM;
	}
	*ret_number = number;
	*ret_key = key;
	return 0;
}

/* Without memory the chains just get longer. */
static void grow(struct nodes *nodes)
{
	struct node **old = nodes->by_number;
	struct node **old_key = nodes->by_key;
	size_t buckets = nodes->buckets;

	if (tables_new(buckets * 2, &nodes->by_number, &nodes->by_key))
		return;
	nodes->buckets = buckets * 2;
	for (size_t i = 0; i < buckets; i++) {
		struct node *next;

		for (struct node *node = old[i]; node; node = next) {
			next = node->next_number;
			insert(nodes, node);
		}
	}
	free(old);
	free(old_key);
}

static bool is_key(const struct node *node, const struct node_key *key)
{
	if (node->kind != key->kind)
		return false;
	if (key->kind == NODE_STAGING)
		return node->staging == key->staging;
	return node->object == key->object && node->clock == key->clock &&
	       node->link == key->link;
}

static struct node *find_key(struct nodes *nodes, const struct node_key *key)
{
	uint64_t hash = key_hash(key->object, key->clock, key->staging);
	struct node *node = nodes->by_key[hash & (nodes->buckets - 1)];

	while (node && !is_key(node, key))
		node = node->next_key;
	return node;
}

static struct node *find_number(struct nodes *nodes, uint64_t number)
{
	struct node *node =
		nodes->by_number[mix(number) & (nodes->buckets - 1)];

	while (node && node->number != number)
		node = node->next_number;
	return node;
}

static struct node *add(struct nodes *nodes, const struct node_key *key,
			uint64_t number)
{
	struct node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	node->number = number;
	node->kind = key->kind;
	node->object = key->object;
	node->clock = key->clock;
	node->link = key->link;
	node->staging = key->staging;
	if (node->staging)
		cache_staging_ref(node->staging);
	if (nodes->count >= nodes->buckets)
		grow(nodes);
	insert(nodes, node);
	nodes->count++;
	return node;
}

static int set_name(struct node *node, uint64_t dir, const char *name,
		    size_t len)
{
	if (node->dir == dir && node->name && node->name_len == len &&
	    memcmp(node->name, name, len) == 0)
		return 0;
	assert(len <= NAME_MAX_BYTES);

	char *copy = malloc(len ? len : 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, name, len);
	free(node->name);
	node->name = copy;
	node->name_len = (uint8_t)len;
	node->dir = dir;
	return 0;
}

int nodes_new(struct nodes **ret)
{
	struct node_key root = {.kind = NODE_DIR, .object = META_ROOT};
	struct nodes *nodes = calloc(1, sizeof(*nodes));

	if (!nodes)
		return -ENOMEM;
	nodes->buckets = FIRST_BUCKETS;
	nodes->next_number = NODE_RESERVED + 1;
	pthread_mutex_init(&nodes->lock, NULL);
	if (tables_new(nodes->buckets, &nodes->by_number, &nodes->by_key) ||
	    !add(nodes, &root, NODE_ROOT)) {
		nodes_free(nodes);
		return -ENOMEM;
	}
	find_number(nodes, NODE_ROOT)->holds = 1;
	*ret = nodes;
	return 0;
}

/* Outside the table's lock: the cache may do work at a last reference. */
static void node_destroy(struct node *node)
{
	if (node->page)
		cache_page_close(node->page);
	if (node->staging)
		cache_staging_put(node->staging);
	free(node->gone);
	free(node->name);
	free(node);
}

void nodes_clear(struct nodes *nodes)
{
	for (size_t i = 0; nodes->by_number && i < nodes->buckets; i++) {
		struct node *next;

		for (struct node *n = nodes->by_number[i]; n; n = next) {
			next = n->next_number;
			node_destroy(n);
		}
		nodes->by_number[i] = NULL;
		nodes->by_key[i] = NULL;
	}
	nodes->count = 0;
}

void nodes_free(struct nodes *nodes)
{
	if (!nodes)
		return;
	nodes_clear(nodes);
	free(nodes->by_number);
	free(nodes->by_key);
	pthread_mutex_destroy(&nodes->lock);
	free(nodes);
}

uint64_t nodes_count(struct nodes *nodes)
{
	pthread_mutex_lock(&nodes->lock);
	uint64_t count = nodes->count;

	pthread_mutex_unlock(&nodes->lock);
	return count;
}

struct node *node_get(struct nodes *nodes, uint64_t number)
{
	pthread_mutex_lock(&nodes->lock);
	struct node *node = find_number(nodes, number);

	pthread_mutex_unlock(&nodes->lock);
	return node;
}

struct node *node_enter(struct nodes *nodes, const struct node_key *key,
			uint64_t dir, const char *name, size_t len)
{
	pthread_mutex_lock(&nodes->lock);
	struct node *node = find_key(nodes, key);

	if (!node) {
		uint64_t number = key->kind == NODE_CONTROL
					  ? key->clock
					  : nodes->next_number++;

		node = add(nodes, key, number);
	}
	if (node && set_name(node, dir, name, len) && !node->lookups) {
		if (!node->holds) {
			unlink_node(nodes, node);
			node_destroy(node);
		}
		node = NULL;
	}
	if (node)
		node->lookups++;
	pthread_mutex_unlock(&nodes->lock);
	return node;
}

/* Unlocks; a node that nobody needs any more goes. */
static void settle(struct nodes *nodes, struct node *node)
{
	bool gone = !node->lookups && !node->holds;

	if (gone)
		unlink_node(nodes, node);
	pthread_mutex_unlock(&nodes->lock);
	if (gone)
		node_destroy(node);
}

void node_forget(struct nodes *nodes, struct node *node, uint64_t count)
{
	pthread_mutex_lock(&nodes->lock);
	node->lookups -= count < node->lookups ? count : node->lookups;
	settle(nodes, node);
}

void node_hold(struct nodes *nodes, struct node *node)
{
	pthread_mutex_lock(&nodes->lock);
	node->holds++;
	pthread_mutex_unlock(&nodes->lock);
}

void node_release(struct nodes *nodes, struct node *node)
{
	pthread_mutex_lock(&nodes->lock);
	assert(node->holds > 0);
	node->holds--;
	settle(nodes, node);
}

bool node_name(struct nodes *nodes, struct node *node, uint64_t *ret_dir,
	       char ret_name[NAME_MAX_BYTES], size_t *ret_len)
{
	pthread_mutex_lock(&nodes->lock);
	bool named = node->name != NULL;

	if (named) {
		memcpy(ret_name, node->name, node->name_len);
		*ret_len = node->name_len;
		*ret_dir = node->dir;
	}
	pthread_mutex_unlock(&nodes->lock);
	return named;
}

void node_renamed(struct nodes *nodes, const struct node_key *key, uint64_t dir,
		  const char *name, size_t len)
{
	pthread_mutex_lock(&nodes->lock);
	struct node *node = find_key(nodes, key);

	/* Without memory the name is found again by the look-up that follows
	 * a failed open. */
	if (node)
		(void)set_name(node, dir, name, len);
	pthread_mutex_unlock(&nodes->lock);
}

void node_moved(struct nodes *nodes, const struct node_key *key,
		const struct cache_name *from, const struct cache_name *to)
{
	pthread_mutex_lock(&nodes->lock);
	struct node *node = find_key(nodes, key);

	if (node && node->name && node->dir == from->dir &&
	    node->name_len == from->len &&
	    memcmp(node->name, from->name, from->len) == 0)
		(void)set_name(node, to->dir, to->name, to->len);
	pthread_mutex_unlock(&nodes->lock);
}

void node_set_shown(struct nodes *nodes, struct node *node)
{
	pthread_mutex_lock(&nodes->lock);
	node->shown = true;
	pthread_mutex_unlock(&nodes->lock);
}

bool node_shown(struct nodes *nodes, struct node *node)
{
	char name[NAME_MAX_BYTES + 1];
	size_t len;
	uint64_t dir;
	bool named = node->staging &&
		     cache_staging_name(node->staging, &dir, name, &len);

	pthread_mutex_lock(&nodes->lock);
	bool shown = node->shown || node->kind != NODE_STAGING;

	if (named && (dir != node->dir || len != node->name_len ||
		      !node->name || memcmp(name, node->name, len) != 0))
		shown = true;
	pthread_mutex_unlock(&nodes->lock);
	return shown;
}

struct cache_page *node_opened(struct nodes *nodes, struct node *node,
			       struct cache_page *page)
{
	struct cache_page *spare = page;

	pthread_mutex_lock(&nodes->lock);
	if (!node->page) {
		node->page = page;
		spare = NULL;
	}
	node->opens++;
	page = node->page;
	pthread_mutex_unlock(&nodes->lock);
	if (spare)
		cache_page_close(spare);
	return page;
}

void node_closed(struct nodes *nodes, struct node *node)
{
	struct cache_page *page = NULL;

	pthread_mutex_lock(&nodes->lock);
	assert(node->opens > 0);
	if (--node->opens == 0) {
		page = node->page;
		node->page = NULL;
	}
	pthread_mutex_unlock(&nodes->lock);
	if (page)
		cache_page_close(page);
}

struct cache_page *node_page(struct nodes *nodes, struct node *node)
{
	pthread_mutex_lock(&nodes->lock);
	struct cache_page *page = node->page;

	if (page)
		cache_page_ref(page);
	pthread_mutex_unlock(&nodes->lock);
	return page;
}

void node_set_gone(struct nodes *nodes, const struct node_key *key,
		   const struct meta_entry *entry)
{
	struct meta_entry *copy = malloc(sizeof(*copy));

	if (!copy)
		return;
	*copy = *entry;
	pthread_mutex_lock(&nodes->lock);
	struct node *node = find_key(nodes, key);

	if (node && !node->gone) {
		node->gone = copy;
		copy = NULL;
	}
	pthread_mutex_unlock(&nodes->lock);
	free(copy);
}

bool node_gone(struct nodes *nodes, struct node *node, struct meta_entry *ret)
{
	pthread_mutex_lock(&nodes->lock);
	bool gone = node->gone != NULL;

	if (gone)
		*ret = *node->gone;
	pthread_mutex_unlock(&nodes->lock);
	return gone;
}

uint64_t node_directory(struct nodes *nodes, uint64_t object)
{
	struct node_key key = {.kind = NODE_DIR, .object = object};

	pthread_mutex_lock(&nodes->lock);
	struct node *node = find_key(nodes, &key);
	uint64_t number = node ? node->number : 0;

	pthread_mutex_unlock(&nodes->lock);
	return number;
}

void node_listing_begin(struct nodes *nodes, struct node *node)
{
	pthread_mutex_lock(&nodes->lock);
	node->opens++;
	node->listed = true;
	pthread_mutex_unlock(&nodes->lock);
}

bool node_listing_end(struct nodes *nodes, struct node *node)
{
	pthread_mutex_lock(&nodes->lock);
	assert(node->opens > 0);
	bool late = node->listed_late;

	if (--node->opens == 0)
		node->listed_late = false;
	pthread_mutex_unlock(&nodes->lock);
	return late;
}

void node_listing_drop(struct nodes *nodes, uint64_t number)
{
	pthread_mutex_lock(&nodes->lock);
	struct node *node = find_number(nodes, number);

	if (node && node->opens)
		node->listed_late = true;
	else if (node)
		node->listed = false;
	pthread_mutex_unlock(&nodes->lock);
}

bool node_listed(struct nodes *nodes, uint64_t dir_object)
{
	struct node_key key = {.kind = NODE_DIR, .object = dir_object};

	pthread_mutex_lock(&nodes->lock);
	struct node *node = find_key(nodes, &key);
	bool listed = node && node->listed;

	pthread_mutex_unlock(&nodes->lock);
	return listed;
}

/* The names seen in `dir` of some buckets, each with a length byte before it:
 * as many whole buckets from *bucket on as there is room for. */
static size_t copy_names(struct nodes *nodes, uint64_t dir, size_t *bucket,
			 char *names, size_t room)
{
	size_t used = 0, i;

	for (i = *bucket; i < nodes->buckets; i++) {
		size_t before = used;
		struct node *node = nodes->by_number[i];

		for (; node; node = node->next_number) {
			size_t need = node->name_len + 1u;

			if (!node->name || node->dir != dir)
				continue;
			if (used + need > room)
				break;
			names[used] = (char)node->name_len;
			memcpy(names + used + 1, node->name, node->name_len);
			used += need;
		}
		/* A bucket that has more than fits alone is cut. */
		if (node && before) {
			used = before;
			break;
		}
	}
	*bucket = i;
	return used;
}

void nodes_in_dir(struct nodes *nodes, uint64_t dir,
		  void (*each)(void *arg, const char *name, size_t len),
		  void *arg)
{
	char names[16384];
	size_t bucket = 0, used;
	bool more;

	/* When the table grows meanwhile, a bucket's nodes stay or move to a
	 * later one: none is missed. */
	do {
		pthread_mutex_lock(&nodes->lock);
		used = copy_names(nodes, dir, &bucket, names, sizeof(names));
		more = bucket < nodes->buckets;
		pthread_mutex_unlock(&nodes->lock);
		for (size_t at = 0; at < used;) {
			size_t len = (unsigned char)names[at];

			each(arg, names + at + 1, len);
			at += len + 1;
		}
	} while (more);
}
