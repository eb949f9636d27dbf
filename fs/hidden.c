/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/hidden.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/list.h"

struct name {
	struct list place;
	uint64_t dir;
	uint64_t end_ns;
	size_t len;
	char bytes[];
};

struct hidden {
	pthread_mutex_t lock;
	struct list names; /* in the order told; guarded by lock */
	unsigned count;	   /* guarded by lock */
};

int hidden_new(struct hidden **ret)
{
	struct hidden *hidden = calloc(1, sizeof(*hidden));

	if (!hidden)
		return -ENOMEM;
	pthread_mutex_init(&hidden->lock, NULL);
	list_init(&hidden->names);
	*ret = hidden;
	return 0;
}

/* TTLs differ little, so those whose time is over stand at the front. */
static void drop_old(struct hidden *hidden, uint64_t now_ns)
{
	while (!list_empty(&hidden->names)) {
		struct name *name =
			list_first(&hidden->names, struct name, place);

		if (name->end_ns > now_ns)
			return;
		list_remove(&name->place);
		hidden->count--;
		free(name);
	}
}

void hidden_free(struct hidden *hidden)
{
	if (!hidden)
		return;
	drop_old(hidden, UINT64_MAX);
	pthread_mutex_destroy(&hidden->lock);
	free(hidden);
}

bool hidden_add(struct hidden *hidden, uint64_t dir, const char *bytes,
		size_t len, uint64_t now_ns, uint64_t ttl_ns)
{
	struct name *name = malloc(sizeof(*name) + len);

	if (!name)
		return false;
	name->dir = dir;
	name->end_ns = now_ns + ttl_ns;
	name->len = len;
	memcpy(name->bytes, bytes, len);

	pthread_mutex_lock(&hidden->lock);
	drop_old(hidden, now_ns);
	bool room = hidden->count < HIDDEN_MAX;

	if (room) {
		list_push_back(&hidden->names, &name->place);
		hidden->count++;
	}
	pthread_mutex_unlock(&hidden->lock);
	if (!room)
		free(name);
	return room;
}

void hidden_take(struct hidden *hidden, uint64_t now_ns,
		 void (*each)(void *arg, uint64_t dir, const char *name,
			      size_t len),
		 void *arg)
{
	struct list names = LIST_INIT(names), *node;

	pthread_mutex_lock(&hidden->lock);
	list_splice_back(&names, &hidden->names);
	hidden->count = 0;
	pthread_mutex_unlock(&hidden->lock);
	while ((node = list_pop_front(&names))) {
		struct name *name = list_entry(node, struct name, place);

		if (name->end_ns > now_ns)
			each(arg, name->dir, name->bytes, name->len);
		free(name);
	}
}
