/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/crash/shared.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* For what is found between two confirmations. */
#define SHARED_SPARE 8u

void shared_init(struct shared *shared, const char *mount)
{
	*shared = (struct shared){.mount = mount};
	pthread_mutex_init(&shared->lock, NULL);
	for (unsigned key = 0; key < SHARED_KEYS; key++)
		shared->keys[key].count = 1;
}

void shared_path(const struct shared *shared, unsigned key, char ret[LOAD_PATH])
{
	snprintf(ret, LOAD_PATH, "%s/shared/key%02u.bin", shared->mount, key);
}

/* ---- changes ---- */

/* NULL: no room for one more. */
static struct shared_change *begin(struct shared *shared, unsigned key,
				   const struct page_state *state)
{
	struct shared_key *at = &shared->keys[key];
	struct shared_change *change = NULL;

	pthread_mutex_lock(&shared->lock);
	if (at->count < SHARED_CHANGES - SHARED_SPARE) {
		change = &at->changes[at->count++];
		*change = (struct shared_change){
			.state = *state,
			.begun = ++shared->now,
			.done = UINT64_MAX,
		};
	}
	pthread_mutex_unlock(&shared->lock);
	return change;
}

static void end(struct shared *shared, struct shared_change *change)
{
	pthread_mutex_lock(&shared->lock);
	change->done = ++shared->now;
	pthread_mutex_unlock(&shared->lock);
}

static int put(struct worker *worker, unsigned key)
{
	struct shared *shared = worker->shared;
	struct page_state state = page_of(worker_generation(worker));
	bool sync = random_next(&worker->random) % 4 == 0;
	char path[LOAD_PATH], temporary[LOAD_PATH + 16];
	struct shared_change *change;
	int error;

	shared_path(shared, key, path);
	snprintf(temporary, sizeof(temporary), "%s.tmp.%u", path,
		 worker->number);
	error = load_write(worker, temporary, &state, sync);
	if (error)
		return error;
	state.durable = sync;
	change = begin(shared, key, &state);
	if (!change)
		return 0;
	if (rename(temporary, path))
		return errno;
	end(shared, change);
	return 0;
}

/* Found nothing: then there was nothing, as if it had deleted it. */
static int delete (struct worker *worker, unsigned key)
{
	struct shared_change *change =
		begin(worker->shared, key, &(struct page_state){0});
	char path[LOAD_PATH];

	if (!change)
		return 0;
	shared_path(worker->shared, key, path);
	if (unlink(path) && errno != ENOENT)
		return errno;
	end(worker->shared, change);
	return 0;
}

/* ---- what may be found ---- */

/* Has another change replaced this one for sure, before `now`? */
static bool is_replaced(const struct shared_key *key,
			const struct shared_change *change, uint64_t now)
{
	for (size_t i = 0; i < key->count; i++)
		if (key->changes[i].begun > change->done &&
		    key->changes[i].done < now)
			return true;
	return false;
}

/* `from` and `now`: when what was found was looked for, first and last. */
static struct shared_change *find(struct shared_key *key, uint64_t from,
				  bool replaced_too, const uint8_t *found,
				  ssize_t len, uint8_t *scratch)
{
	for (size_t i = key->count; i-- > 0;)
		if ((replaced_too ||
		     !is_replaced(key, &key->changes[i], from)) &&
		    page_is(&key->changes[i].state, found, len, scratch))
			return &key->changes[i];
	return NULL;
}

static int read_it(struct worker *worker, unsigned key)
{
	struct shared *shared = worker->shared;
	char path[LOAD_PATH];
	uint64_t from;
	ssize_t len;
	bool right;

	pthread_mutex_lock(&shared->lock);
	from = ++shared->now;
	pthread_mutex_unlock(&shared->lock);
	shared_path(shared, key, path);
	len = page_read(path, worker->buffer);
	if (len == -2)
		return errno;
	pthread_mutex_lock(&shared->lock);
	right = find(&shared->keys[key], from, false, worker->buffer, len,
		     worker->scratch);
	pthread_mutex_unlock(&shared->lock);
	if (right)
		return 0;
	snprintf(worker->wrong, sizeof(worker->wrong),
		 "shared key %u: %zd bytes read that nobody wrote, or that "
		 "were replaced before",
		 key, len);
	return EBADMSG;
}

int shared_operation(struct worker *worker)
{
	unsigned key = (unsigned)(random_next(&worker->random) % SHARED_KEYS);
	unsigned dice = (unsigned)(random_next(&worker->random) % 8);

	if (dice < 2)
		return read_it(worker, key);
	return dice == 2 ? delete (worker, key) : put(worker, key);
}

/* ---- after a kill ---- */

static bool may_be_lost(const struct shared_key *key)
{
	for (size_t i = 1; i < key->count; i++)
		if (key->changes[i].state.len && !key->changes[i].state.durable)
			return true;
	return false;
}

bool shared_settle(struct shared *shared, unsigned key, bool memory_is_gone,
		   const uint8_t *found, ssize_t len, uint8_t *scratch)
{
	struct shared_key *at = &shared->keys[key];
	struct shared_change *change =
		find(at, UINT64_MAX, memory_is_gone, found, len, scratch);
	struct shared_change last = {0};

	if (!change && !(len == -1 && memory_is_gone && may_be_lost(at)))
		return false;
	if (change)
		last = *change;
	/* All of them may come back without memory, until it is confirmed;
	 * but none is under way any more. */
	for (size_t i = 0; i < at->count; i++)
		at->changes[i].begun = at->changes[i].done = 0;
	assert(at->count < SHARED_CHANGES);
	last.begun = last.done = ++shared->now;
	at->changes[at->count++] = last;
	return true;
}

void shared_confirm(struct shared *shared)
{
	for (unsigned key = 0; key < SHARED_KEYS; key++) {
		struct shared_key *at = &shared->keys[key];

		at->changes[0] = at->changes[at->count - 1];
		at->changes[0].state.durable = true;
		at->count = 1;
	}
}
