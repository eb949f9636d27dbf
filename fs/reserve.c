/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/reserve.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "cache/cache.h"
#include "tools/lib/clock.h"
#include "tools/lib/list.h"

#define BUCKETS 256u
#define ABSENT_LOOKUPS 8u

struct item {
	struct list age;  /* oldest first */
	struct list same; /* in its bucket */
	pid_t thread;
	uint64_t ends_ns;
	struct reservation reservation;
};

struct reserves {
	/* Changed under lock; read without it as a hint: a thread sees what it
	 * put itself, because the kernel's reply and next request lie between.
	 */
	_Atomic unsigned count;
	pthread_mutex_t lock;
	struct list age;
	struct list buckets[BUCKETS];
};

int reserves_new(struct reserves **ret)
{
	struct reserves *reserves = calloc(1, sizeof(*reserves));

	if (!reserves)
		return -ENOMEM;
	pthread_mutex_init(&reserves->lock, NULL);
	list_init(&reserves->age);
	for (unsigned i = 0; i < BUCKETS; i++)
		list_init(&reserves->buckets[i]);
	*ret = reserves;
	return 0;
}

void reservation_release(struct reservation *reservation)
{
	bool committed;

	if (reservation->writer)
		cache_stage_close(reservation->writer, &committed);
	if (reservation->page)
		cache_page_close(reservation->page);
	*reservation = (struct reservation){0};
}

/* name NULL: whatever the thread has. */
static struct item *find(struct reserves *reserves, pid_t thread,
			 const struct key_id *name)
{
	struct list *bucket = &reserves->buckets[(unsigned)thread % BUCKETS];

	list_for_each (node, bucket) {
		struct item *item = list_entry(node, struct item, same);

		if (item->thread != thread)
			continue;
		if (!name || (item->reservation.name.lo == name->lo &&
			      item->reservation.name.hi == name->hi))
			return item;
	}
	return NULL;
}

static void detach(struct reserves *reserves, struct item *item)
{
	list_remove(&item->age);
	list_remove(&item->same);
	reserves->count--;
}

static void item_free(struct item *item)
{
	if (!item)
		return;
	reservation_release(&item->reservation);
	free(item);
}

void reserves_expire(struct reserves *reserves, uint64_t now_ns)
{
	for (;;) {
		struct item *item = NULL;

		pthread_mutex_lock(&reserves->lock);
		if (!list_empty(&reserves->age))
			item = list_first(&reserves->age, struct item, age);
		if (item && item->ends_ns > now_ns)
			item = NULL;
		if (item)
			detach(reserves, item);
		pthread_mutex_unlock(&reserves->lock);
		if (!item)
			return;
		item_free(item);
	}
}

void reserves_free(struct reserves *reserves)
{
	if (!reserves)
		return;
	reserves_expire(reserves, UINT64_MAX);
	pthread_mutex_destroy(&reserves->lock);
	free(reserves);
}

void reserve_put(struct reserves *reserves, pid_t thread,
		 const struct reservation *reservation)
{
	struct item *item = malloc(sizeof(*item));
	struct item *old, *oldest = NULL;

	if (!item) {
		struct reservation copy = *reservation;

		reservation_release(&copy);
		return;
	}
	item->thread = thread;
	item->reservation = *reservation;
	item->reservation.absent_left = ABSENT_LOOKUPS;
	item->ends_ns = clock_monotonic_ns() + RESERVE_MS * CLOCK_NS_PER_MS;

	pthread_mutex_lock(&reserves->lock);
	old = find(reserves, thread, NULL);
	if (old)
		detach(reserves, old);
	if (reserves->count >= RESERVE_MAX) {
		oldest = list_first(&reserves->age, struct item, age);
		detach(reserves, oldest);
	}
	list_push_back(&reserves->age, &item->age);
	list_push_back(&reserves->buckets[(unsigned)thread % BUCKETS],
		       &item->same);
	reserves->count++;
	pthread_mutex_unlock(&reserves->lock);
	item_free(old);
	item_free(oldest);
}

void reserve_drop(struct reserves *reserves, pid_t thread)
{
	if (!reserves->count)
		return;
	pthread_mutex_lock(&reserves->lock);
	struct item *item = find(reserves, thread, NULL);

	if (item)
		detach(reserves, item);
	pthread_mutex_unlock(&reserves->lock);
	item_free(item);
}

bool reserve_take(struct reserves *reserves, pid_t thread,
		  const struct key_id *name, struct reservation *ret)
{
	if (!reserves->count)
		return false;
	pthread_mutex_lock(&reserves->lock);
	struct item *item = find(reserves, thread, name);

	if (item)
		detach(reserves, item);
	pthread_mutex_unlock(&reserves->lock);
	if (!item)
		return false;
	*ret = item->reservation;
	free(item);
	return true;
}

bool reserve_has(struct reserves *reserves, pid_t thread,
		 const struct key_id *name)
{
	if (!reserves->count)
		return false;
	pthread_mutex_lock(&reserves->lock);
	bool has = find(reserves, thread, name) != NULL;

	pthread_mutex_unlock(&reserves->lock);
	return has;
}

struct cache_staging *reserve_staging(struct reserves *reserves, pid_t thread,
				      const struct key_id *name)
{
	struct cache_staging *staging = NULL;

	if (!reserves->count)
		return NULL;
	pthread_mutex_lock(&reserves->lock);
	struct item *item = find(reserves, thread, name);

	if (item && item->reservation.writer) {
		staging = cache_writer_staging(item->reservation.writer);
		cache_staging_ref(staging);
	}
	pthread_mutex_unlock(&reserves->lock);
	return staging;
}

bool reserve_wants_writer(struct reserves *reserves, pid_t thread,
			  const struct key_id *name, unsigned *ret_flags)
{
	if (!reserves->count)
		return false;
	pthread_mutex_lock(&reserves->lock);
	struct item *item = find(reserves, thread, name);
	bool wants =
		item && item->reservation.writes && !item->reservation.writer;

	if (wants)
		*ret_flags = item->reservation.flags;
	pthread_mutex_unlock(&reserves->lock);
	return wants;
}

void reserve_writer(struct reserves *reserves, pid_t thread,
		    const struct key_id *name, struct cache_writer *writer,
		    pid_t process)
{
	struct cache_writer *old = writer;
	bool committed;

	pthread_mutex_lock(&reserves->lock);
	struct item *item = find(reserves, thread, name);

	if (item) {
		old = item->reservation.writer;
		item->reservation.writer = writer;
		item->reservation.process = process;
	}
	pthread_mutex_unlock(&reserves->lock);
	if (old)
		cache_stage_close(old, &committed);
}

void reserve_absent(struct reserves *reserves, pid_t thread,
		    const struct key_id *name)
{
	if (!reserves->count)
		return;
	pthread_mutex_lock(&reserves->lock);
	struct item *item = find(reserves, thread, name);

	if (item && --item->reservation.absent_left == 0)
		detach(reserves, item);
	else
		item = NULL;
	pthread_mutex_unlock(&reserves->lock);
	item_free(item);
}

void reserve_page(struct reserves *reserves, pid_t thread,
		  const struct key_id *name, struct cache_page *page)
{
	struct cache_page *old = page;

	pthread_mutex_lock(&reserves->lock);
	struct item *item = find(reserves, thread, name);

	if (item) {
		old = item->reservation.page;
		item->reservation.page = page;
	}
	pthread_mutex_unlock(&reserves->lock);
	if (old)
		cache_page_close(old);
}
