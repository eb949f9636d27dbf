/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/crash/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/crash/shared.h"

/* ---- small parts ---- */

static int write_at(int fd, const uint8_t *bytes, size_t from, size_t end)
{
	while (from < end) {
		ssize_t n = pwrite(fd, bytes + from, end - from, (off_t)from);

		if (n < 0)
			return errno;
		from += (size_t)n;
	}
	return 0;
}

static int close_after(int fd, int error)
{
	return close(fd) && !error ? errno : error;
}

int load_write(struct worker *worker, const char *path,
	       const struct page_state *state, bool sync)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	int error;

	if (fd < 0)
		return errno;
	page_fill(state, worker->buffer);
	error = write_at(fd, worker->buffer, 0, state->len);
	if (!error && sync && fsync(fd))
		error = errno;
	return close_after(fd, error);
}

/* What was acknowledged before is on disk then, all over the mount. */
int load_sync(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), error = 0;

	if (fd < 0)
		return errno;
	if (fsync(fd))
		error = errno;
	return close_after(fd, error);
}

static struct page_state *last_of(struct worker *worker, unsigned key)
{
	return history_last(&worker->keys[key]);
}

static unsigned other_key(struct worker *worker, unsigned key)
{
	return (key + 1 +
		(unsigned)(random_next(&worker->random) % (LOAD_KEYS - 1))) %
	       LOAD_KEYS;
}

static int is_wrong(struct worker *worker, unsigned key, ssize_t len)
{
	const struct page_state *state = last_of(worker, key);

	snprintf(worker->wrong, sizeof(worker->wrong),
		 "thread %u, key %u: %zd bytes read that are not generation "
		 "%llu (%u bytes)",
		 worker->number, key, len,
		 (unsigned long long)state->generation, state->len);
	return EBADMSG;
}

/* ---- operations: 0 or an errno ---- */

static int put_in_place(struct worker *worker, unsigned key)
{
	struct key_history *history = &worker->keys[key];
	struct page_state state = page_of(worker_generation(worker));
	bool sync = random_next(&worker->random) % 3 == 0;
	char path[LOAD_PATH];
	int error;

	/* Who has it open elsewhere may go on to write, as shells do: an empty
	 * page is published some time after its close then. */
	sync |= state.len == 0;
	worker_path(worker, key, path);
	history_try(history, &state);
	error = load_write(worker, path, &state, sync);
	if (!error && sync)
		history_confirm(history);
	return error;
}

static int put_by_rename(struct worker *worker, unsigned key)
{
	bool sync = random_next(&worker->random) % 4 == 0;
	struct page_state state = page_of(worker_generation(worker));
	char path[LOAD_PATH], temporary[LOAD_PATH + 8];
	int error;

	worker_path(worker, key, path);
	snprintf(temporary, sizeof(temporary), "%s.tmp.1", path);
	error = load_write(worker, temporary, &state, sync);
	if (error)
		return error;
	/* The bytes are promised, not the name. */
	state.durable = sync;
	history_try(&worker->keys[key], &state);
	return rename(temporary, path) ? errno : 0;
}

static int delete_key(struct worker *worker, unsigned key)
{
	char path[LOAD_PATH];
	bool there = last_of(worker, key)->generation;

	worker_path(worker, key, path);
	history_try(&worker->keys[key], &(struct page_state){0});
	if (unlink(path))
		return errno == ENOENT && !there ? 0 : errno;
	return there ? 0 : is_wrong(worker, key, 0);
}

/* A rename of two names of one file does nothing: left out. */
static int rename_over(struct worker *worker, unsigned from)
{
	unsigned to = other_key(worker, from);
	struct page_state state = *last_of(worker, from);
	char path[LOAD_PATH], to_path[LOAD_PATH];

	if (!state.generation ||
	    state.generation == last_of(worker, to)->generation)
		return 0;
	worker_path(worker, from, path);
	worker_path(worker, to, to_path);
	worker->moving_from = (int)from;
	worker->moving_to = (int)to;
	history_try(&worker->keys[to], &state);
	history_try(&worker->keys[from], &(struct page_state){0});
	if (rename(path, to_path))
		return errno;
	worker->keys[to].trying = false;
	worker->moving_from = -1;
	return 0;
}

static int link_key(struct worker *worker, unsigned from)
{
	unsigned to = other_key(worker, from);
	struct page_state state = *last_of(worker, from);
	char path[LOAD_PATH], to_path[LOAD_PATH];

	if (!state.generation || last_of(worker, to)->generation)
		return 0;
	worker_path(worker, from, path);
	worker_path(worker, to, to_path);
	history_try(&worker->keys[to], &state);
	if (link(path, to_path))
		return errno;
	worker->keys[to].trying = false;
	return 0;
}

/* Growing makes a hole, which is committed with the last close only, and that
 * nobody can wait for: so it is synced. */
static int truncate_key(struct worker *worker, unsigned key)
{
	struct key_history *history = &worker->keys[key];
	struct page_state state = *last_of(worker, key);
	uint32_t old_len = state.len;
	char path[LOAD_PATH];
	int fd, error = 0;

	if (!state.generation || state.patch_len)
		return 0;
	state.durable = false;
	state.len = (uint32_t)(random_next(&worker->random) % PAGE_MAX);
	if (state.len % 3)
		state.len = state.len % (old_len + 1);
	if (state.kept > state.len)
		state.kept = state.len;
	worker_path(worker, key, path);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno;
	history_try(history, &state);
	if (ftruncate(fd, state.len))
		error = errno;
	if (!error && state.len > old_len && fsync(fd))
		error = errno;
	if (!error && state.len > old_len)
		history_confirm(history);
	return close_after(fd, error);
}

/* A part is written over: the other chunks are shared with the version before.
 */
static int patch_key(struct worker *worker, unsigned key)
{
	struct key_history *history = &worker->keys[key];
	struct page_state state = *last_of(worker, key);
	bool sync = random_next(&worker->random) % 3 == 0;
	char path[LOAD_PATH];
	int fd, error;

	if (!state.generation || state.patch_len || !state.len)
		return 0;
	state.durable = false;
	state.patch_generation = worker_generation(worker);
	state.patch_at = (uint32_t)(random_next(&worker->random) % state.len);
	state.patch_len = 1 + (uint32_t)(random_next(&worker->random) %
					 (state.len - state.patch_at));
	worker_path(worker, key, path);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno;
	page_fill(&state, worker->buffer);
	history_try(history, &state);
	error = write_at(fd, worker->buffer, state.patch_at,
			 state.patch_at + state.patch_len);
	if (!error && sync && fsync(fd))
		error = errno;
	if (!error && sync)
		history_confirm(history);
	return close_after(fd, error);
}

/* fsync in the middle: what was written so far is a version. */
static int put_with_checkpoint(struct worker *worker, unsigned key)
{
	struct key_history *history = &worker->keys[key];
	struct page_state whole = page_of(worker_generation(worker));
	struct page_state half = whole;
	char path[LOAD_PATH];
	int fd, error;

	half.len = half.kept = whole.len / 2;
	worker_path(worker, key, path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return errno;
	page_fill(&whole, worker->buffer);
	error = write_at(fd, worker->buffer, 0, half.len);
	history_try(history, &half);
	if (!error && fsync(fd))
		error = errno;
	if (!error)
		history_confirm(history);
	if (!error)
		error = write_at(fd, worker->buffer, half.len, whole.len);
	if (!error)
		history_try(history, &whole);
	return close_after(fd, error);
}

/* Who has the page open goes on reading it, whatever takes its name. */
static int overwrite_while_reading(struct worker *worker, unsigned key)
{
	struct page_state before = *last_of(worker, key);
	char path[LOAD_PATH];
	size_t len = 0;
	ssize_t n;
	int fd, error;

	if (!before.generation)
		return 0;
	worker_path(worker, key, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	error = put_in_place(worker, key);
	if (error)
		return close_after(fd, error);
	worker->keys[key].trying = false;
	while ((n = pread(fd, worker->buffer + len, PAGE_MAX + 1 - len,
			  (off_t)len)) > 0)
		len += (size_t)n;
	if (n < 0)
		error = errno;
	else if (!page_is(&before, worker->buffer, (ssize_t)len,
			  worker->scratch))
		error = is_wrong(worker, key, (ssize_t)len);
	return close_after(fd, error);
}

static int read_back(struct worker *worker, unsigned key)
{
	char path[LOAD_PATH];
	ssize_t len;

	worker_path(worker, key, path);
	len = page_read(path, worker->buffer);
	if (len == -2)
		return errno;
	return page_is(last_of(worker, key), worker->buffer, len,
		       worker->scratch)
		       ? 0
		       : is_wrong(worker, key, len);
}

static int sync_all(struct worker *worker)
{
	char path[LOAD_PATH];
	int error;

	worker_dir(worker, worker->second_name, path);
	error = load_sync(path);
	for (unsigned key = 0; !error && key < LOAD_KEYS; key++)
		history_confirm(&worker->keys[key]);
	return error;
}

static int rename_directory(struct worker *worker)
{
	char from[LOAD_PATH], to[LOAD_PATH];
	int error;

	worker_dir(worker, worker->second_name, from);
	worker_dir(worker, !worker->second_name, to);
	worker->to_second = !worker->second_name;
	worker->renaming = RENAMING;
	if (rename(from, to))
		return errno;
	worker->second_name = worker->to_second;
	worker->renaming = RENAMED;
	error = sync_all(worker);
	if (!error)
		worker->renaming = NOT_RENAMED;
	return error;
}

/* ---- the choice ---- */

struct operation {
	const char *name;
	unsigned weight;
	int (*run)(struct worker *worker, unsigned key);
};

static const struct operation operations[] = {
	{"put by rename", 24, put_by_rename},
	{"put in place", 16, put_in_place},
	{"delete", 8, delete_key},
	{"rename over a key", 7, rename_over},
	{"hard link", 6, link_key},
	{"truncate", 5, truncate_key},
	{"patch", 7, patch_key},
	{"put with a checkpoint", 3, put_with_checkpoint},
	{"overwrite while reading", 5, overwrite_while_reading},
	{"read back", 6, read_back},
};

static int one_operation(struct worker *worker)
{
	unsigned key = (unsigned)(random_next(&worker->random) % LOAD_KEYS);
	unsigned dice = (unsigned)(random_next(&worker->random) % 100);
	const struct operation *operation = operations;
	int error;

	worker->at = "sync";
	for (unsigned i = 0; i < LOAD_KEYS; i++)
		if (worker->keys[i].count + 3 > HISTORY)
			return sync_all(worker);
	for (;
	     operation < operations + sizeof(operations) / sizeof(*operations);
	     operation++) {
		if (dice < operation->weight) {
			worker->at = operation->name;
			error = operation->run(worker, key);
			if (!error)
				worker->keys[key].trying = false;
			return error;
		}
		dice -= operation->weight;
	}
	if (dice == 0)
		return sync_all(worker);
	worker->at = "rename of a directory";
	if (dice == 1)
		return rename_directory(worker);
	worker->at = "a shared key";
	return shared_operation(worker);
}

void *worker_run(void *arg)
{
	struct worker *worker = arg;
	int error;

	while (!(error = one_operation(worker)))
		worker->operations++;
	if (atomic_load(worker->killed) && !worker->wrong[0] &&
	    (error == ENOTCONN || error == ECONNABORTED || error == EINTR ||
	     error == EIO))
		worker->interrupted = true;
	else
		worker->unexpected = error;
	return NULL;
}

/* ---- workers ---- */

int worker_init(struct worker *worker, unsigned number, uint64_t seed)
{
	*worker = (struct worker){
		.number = number,
		.random = seed + number,
		.generation = (uint64_t)(number + 1) << 40,
		.moving_from = -1,
		.buffer = malloc(PAGE_MAX + 1),
		.scratch = malloc(PAGE_MAX + 1),
	};
	for (unsigned key = 0; key < LOAD_KEYS; key++)
		worker->keys[key].count = 1;
	return worker->buffer && worker->scratch ? 0 : -1;
}

void worker_release(struct worker *worker)
{
	free(worker->buffer);
	free(worker->scratch);
}

uint64_t worker_generation(struct worker *worker)
{
	return ++worker->generation;
}

void worker_dir(const struct worker *worker, bool second, char ret[LOAD_PATH])
{
	snprintf(ret, LOAD_PATH, "%s/t%u%s", worker->mount, worker->number,
		 second ? ".b" : ".a");
}

void worker_path(const struct worker *worker, unsigned key, char ret[LOAD_PATH])
{
	char dir[LOAD_PATH - 16];

	snprintf(dir, sizeof(dir), "%s/t%u%s", worker->mount, worker->number,
		 worker->second_name ? ".b" : ".a");
	snprintf(ret, LOAD_PATH, "%s/key%02u.bin", dir, key % 100);
}
