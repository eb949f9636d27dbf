/* SPDX-License-Identifier: Apache-2.0 */

/*
 * kill -9 of the daemon at random points under load, again and again on one
 * disk directory: at work, while it starts, while it recovers or rebuilds its
 * index.  After each kill it is mounted anew, and every key must hold what was
 * last acknowledged for it, or what was being done to it when the daemon died;
 * never anything else.  In every third round the memory tier is thrown away as
 * well, as a reboot would, in every sixth the index: then a key must hold what
 * fsync last confirmed, or anything that was done after it, or, where a version
 * in memory only had replaced that, nothing.  The run fails unless most rounds
 * interrupted an operation, and some a start.
 *
 * CRASH_ROUNDS sets how many; CRASH_SEED, which is printed, makes the load and
 * the times of the kills the same again.
 */

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/crash/daemon.h"
#include "tests/crash/load.h"
#include "tests/crash/shared.h"

#define THREADS 4u

static struct {
	struct daemon daemon;
	struct worker workers[THREADS];
	struct shared shared;
	_Atomic bool killed;
	uint64_t random;
	unsigned round;
	unsigned interruptions, starts, starts_interrupted, stuck;
	uint64_t operations;
	uint8_t found[PAGE_MAX + 1], scratch[PAGE_MAX + 1];
} crash;

/* What went with the daemon in this round. */
struct damage {
	bool memory_is_gone; /* what had not been written is */
	bool index_is_gone;
};

static unsigned dice(unsigned sides)
{
	return (unsigned)(random_next(&crash.random) % sides);
}

static const char *writeback_ms(void)
{
	static const char *const choices[] = {"2", "20", "200"};

	return choices[dice(3)];
}

/* ---- a round ---- */

/* A thread of the daemon that was telling the kernel about a name waits for the
 * lock of its directory, also after a kill -9, and whoever has the lock waits
 * for the daemon's answer: the kernel does not see that it is gone.  The guard
 * (fs/guard.h) ends that; the test fails where it did not. */
static void join(struct worker *worker)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 2;
	if (pthread_timedjoin_np(worker->thread, NULL, &until) == 0)
		return;
	crash.stuck++;
	daemon_abort(&crash.daemon);
	pthread_join(worker->thread, NULL);
}

static void run_load_and_kill(void)
{
	bool interrupted = false;

	atomic_store(&crash.killed, false);
	for (unsigned i = 0; i < THREADS; i++) {
		struct worker *worker = &crash.workers[i];

		worker->interrupted = false;
		worker->unexpected = 0;
		assert_int_equal(pthread_create(&worker->thread, NULL,
						worker_run, worker),
				 0);
	}
	usleep(3000 + dice(120000));
	atomic_store(&crash.killed, true);
	daemon_signal(&crash.daemon);
	for (unsigned i = 0; i < THREADS; i++)
		join(&crash.workers[i]);
	daemon_reap(&crash.daemon);
	for (unsigned i = 0; i < THREADS; i++) {
		struct worker *worker = &crash.workers[i];

		if (worker->unexpected)
			fail_msg("round %u, thread %u, %s: %s%s%s", crash.round,
				 i, worker->at, strerror(worker->unexpected),
				 worker->wrong[0] ? ": " : "", worker->wrong);
		interrupted |= worker->interrupted;
		crash.operations += worker->operations;
		worker->operations = 0;
	}
	crash.interruptions += interrupted;
}

static struct damage do_damage(void)
{
	struct damage damage = {
		.memory_is_gone = crash.round % 3 == 0,
		.index_is_gone = crash.round % 6 == 0,
	};

	/* With the index, what memory has is lost, also where it is there. */
	if (damage.memory_is_gone && crash.round % 12 != 6)
		daemon_drop_memory(&crash.daemon);
	if (damage.index_is_gone)
		daemon_drop_index(&crash.daemon);
	return damage;
}

/* Within the first milliseconds, or while it rebuilds. */
static void kill_starts(const struct damage *damage)
{
	unsigned times = dice(3), us = damage->index_is_gone ? 60000 : 25000;

	for (unsigned i = 0; i < times; i++) {
		crash.starts++;
		if (!daemon_start_and_kill(&crash.daemon, dice(us),
					   dice(3) == 0))
			crash.starts_interrupted++;
	}
}

/* ---- what is found ---- */

static void fail_key(struct worker *worker, unsigned key, ssize_t len)
{
	struct key_history *history = &worker->keys[key];

	for (size_t i = 0; i < history->count; i++) {
		const struct page_state *state = &history->states[i];

		print_error("state %zu: generation %llx, %u bytes, %u kept, "
			    "%u patched at %u%s%s\n",
			    i, (unsigned long long)state->generation,
			    state->len, state->kept, state->patch_len,
			    state->patch_at, state->durable ? ", durable" : "",
			    page_is(state, crash.found, len, crash.scratch)
				    ? ": this one"
				    : "");
	}
	fail_msg("round %u, thread %u (last %s), key %u: %zd bytes that are "
		 "none of the states it may be in%s",
		 crash.round, worker->number, worker->at, key, len,
		 history->trying ? "; the last was not acknowledged" : "");
}

static void check_key(struct worker *worker, unsigned key,
		      const struct damage *damage, bool *ret_there)
{
	struct key_history *history = &worker->keys[key];
	char path[LOAD_PATH];
	ssize_t len;
	int state;

	worker_path(worker, key, path);
	len = page_read(path, crash.found);
	if (len == -2)
		fail_msg("round %u, %s: %s", crash.round, path,
			 strerror(errno));
	state = history_find(history, damage->memory_is_gone, crash.found, len,
			     crash.scratch);
	if (state == -1)
		fail_key(worker, key, len);
	history_settle(history, state);
	*ret_there = len >= 0;
}

/* Both keys of a rename have changed, or none. */
static void check_move(struct worker *worker)
{
	struct key_history *from, *to;
	char path[LOAD_PATH];
	bool moved;
	ssize_t len;

	if (worker->moving_from < 0)
		return;
	from = &worker->keys[worker->moving_from];
	to = &worker->keys[worker->moving_to];
	assert_true(from->count > 1 && to->count > 1);
	worker_path(worker, (unsigned)worker->moving_from, path);
	moved = access(path, F_OK) != 0;
	worker_path(worker, (unsigned)worker->moving_to, path);
	len = page_read(path, crash.found);
	if (!page_is(&to->states[to->count - (moved ? 1 : 2)], crash.found, len,
		     crash.scratch))
		fail_msg("round %u, thread %u: a rename of key %d over key %d "
			 "has happened %s only",
			 crash.round, worker->number, worker->moving_from,
			 worker->moving_to, moved ? "to the first" : "half");
}

/* Where the index was lost, a page written after the rename may be under the
 * new name while the rename itself is not on disk: then both are there. */
static void merge_directories(struct worker *worker)
{
	char from[LOAD_PATH], to[LOAD_PATH];

	for (unsigned key = 0; key < LOAD_KEYS; key++) {
		worker->second_name = !worker->to_second;
		worker_path(worker, key, from);
		worker->second_name = worker->to_second;
		worker_path(worker, key, to);
		if (access(to, F_OK) && rename(from, to))
			assert_int_equal(errno, ENOENT);
	}
	worker_dir(worker, !worker->to_second, from);
	assert_int_equal(remove_tree(from), 0);
}

static void check_directory(struct worker *worker, const struct damage *damage)
{
	char path[LOAD_PATH];
	bool here, there;

	worker_dir(worker, worker->second_name, path);
	here = access(path, F_OK) == 0;
	worker_dir(worker, !worker->second_name, path);
	there = access(path, F_OK) == 0;
	if (here && there && worker->renaming && damage->index_is_gone)
		merge_directories(worker);
	else if (there && !here &&
		 (worker->renaming == RENAMING ||
		  (worker->renaming && damage->index_is_gone)))
		worker->second_name = !worker->second_name;
	else if (!here || there)
		fail_msg("round %u, thread %u: directory %s has %s names",
			 crash.round, worker->number, path,
			 here ? "two" : "wrong or no");
}

/* The listing has the keys that are there, and no other. */
static void check_listing(const struct worker *worker,
			  const bool there[LOAD_KEYS])
{
	bool listed[LOAD_KEYS] = {0};
	char path[LOAD_PATH];
	struct dirent *entry;
	unsigned key;
	char end;
	DIR *dir;

	worker_dir(worker, worker->second_name, path);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)))
		if (sscanf(entry->d_name, "key%2u.bin%c", &key, &end) == 1)
			listed[key] = true;
	closedir(dir);
	assert_memory_equal(listed, there, sizeof(listed));
}

static void check_worker(struct worker *worker, const struct damage *damage)
{
	bool there[LOAD_KEYS];

	check_directory(worker, damage);
	if (!damage->memory_is_gone)
		check_move(worker);
	worker->moving_from = -1;
	for (unsigned key = 0; key < LOAD_KEYS; key++)
		check_key(worker, key, damage, &there[key]);
	check_listing(worker, there);
}

static void check_shared(const struct damage *damage)
{
	char path[LOAD_PATH];

	for (unsigned key = 0; key < SHARED_KEYS; key++) {
		ssize_t len;

		shared_path(&crash.shared, key, path);
		len = page_read(path, crash.found);
		if (!shared_settle(&crash.shared, key, damage->memory_is_gone,
				   crash.found, len, crash.scratch))
			fail_msg("round %u, shared key %u: %zd bytes that it "
				 "can't hold",
				 crash.round, key, len);
	}
}

/* Nobody is at work: all of it is on disk from here on. */
static void confirm_all(void)
{
	assert_int_equal(load_sync(crash.daemon.mount), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		struct worker *worker = &crash.workers[i];

		for (unsigned key = 0; key < LOAD_KEYS; key++)
			history_confirm(&worker->keys[key]);
		worker->renaming = NOT_RENAMED;
	}
	shared_confirm(&crash.shared);
}

static void check_all(const struct damage *damage)
{
	bool sync = damage->memory_is_gone || dice(3) == 0;

	for (unsigned i = 0; i < THREADS; i++) {
		check_worker(&crash.workers[i], damage);
		sync |= crash.workers[i].renaming != NOT_RENAMED;
	}
	check_shared(damage);
	if (sync)
		confirm_all();
}

static void make_directories(void)
{
	char path[LOAD_PATH];

	snprintf(path, sizeof(path), "%s/shared", crash.daemon.mount);
	assert_int_equal(mkdir(path, 0755), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		worker_dir(&crash.workers[i], false, path);
		assert_int_equal(mkdir(path, 0755), 0);
	}
	confirm_all();
}

static void nothing_acknowledged_is_lost_by_kill_9(void **state)
{
	const char *setting = getenv("CRASH_ROUNDS");
	unsigned rounds = setting ? (unsigned)atoi(setting) : 20;

	(void)state;
	daemon_start(&crash.daemon, writeback_ms());
	make_directories();
	for (crash.round = 1; crash.round <= rounds; crash.round++) {
		struct damage damage;

		run_load_and_kill();
		damage = do_damage();
		kill_starts(&damage);
		daemon_start(&crash.daemon, writeback_ms());
		check_all(&damage);
	}
	print_message("%llu operations; %u of %u kills interrupted some, and "
		      "%u of %u came before a start was done; %u left calls "
		      "waiting\n",
		      (unsigned long long)crash.operations, crash.interruptions,
		      rounds, crash.starts_interrupted, crash.starts,
		      crash.stuck);
	assert_int_equal(crash.stuck, 0);
	assert_true(crash.interruptions * 2 > rounds);
	assert_true(rounds < 20 || crash.starts_interrupted > 0);
}

static int set_up(void **state)
{
	const char *setting = getenv("CRASH_SEED");
	uint64_t seed =
		setting ? strtoull(setting, NULL, 10) : (uint64_t)time(NULL);

	(void)state;
	print_message("CRASH_SEED=%llu\n", (unsigned long long)seed);
	crash.random = seed;
	if (daemon_prepare(&crash.daemon))
		return -1;
	shared_init(&crash.shared, crash.daemon.mount);
	for (unsigned i = 0; i < THREADS; i++) {
		struct worker *worker = &crash.workers[i];

		if (worker_init(worker, i, seed * THREADS))
			return -1;
		worker->mount = crash.daemon.mount;
		worker->shared = &crash.shared;
		worker->killed = &crash.killed;
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (unsigned i = 0; i < THREADS; i++)
		worker_release(&crash.workers[i]);
	return daemon_release(&crash.daemon);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_acknowledged_is_lost_by_kill_9),
	};

	if (access("/dev/fuse", R_OK | W_OK)) {
		puts("SKIP: /dev/fuse can't be opened");
		return 77;
	}
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
