/* SPDX-License-Identifier: Apache-2.0 */

/*
 * kill -9 of the daemon at random points under load, again and again on one
 * disk directory. After each kill it is mounted anew, and every key must hold
 * what was last acknowledged for it, or what was being done to it when the
 * daemon died; never anything else. In every third round the memory tier is
 * thrown away as well, as a reboot would, and in every sixth the index, too:
 * then a key must hold what fsync last confirmed, or anything that was done
 * after it, or, where something was, nothing: a version that was in memory only
 * is lost, and it had replaced the one before. The run fails unless most rounds
 * interrupted an operation.
 */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 4
#define KEYS 24 /* a thread */
#define PAGE_MAX (768u << 10)
#define HISTORY 64

/* The states of a key, oldest first: from the last that fsync confirmed to the
 * last that was tried. A generation of 0 is "not there"; the others say which
 * bytes it has. Written by its own thread, read when that has ended. */
struct key_state {
	uint64_t history[HISTORY];
	size_t count;
	bool trying; /* the last one was not acknowledged */
};

struct worker {
	pthread_t thread;
	unsigned number;
	uint64_t random;
	uint64_t generation;
	struct key_state keys[KEYS];
	uint64_t operations;
	bool interrupted; /* an operation was cut off by the kill */
	int unexpected;	  /* errno of one that failed otherwise */
	uint8_t *buffer;
};

static struct {
	char root[64], mount[96], disk[96], memory_dir[256];
	struct worker workers[THREADS];
	unsigned interruptions;
} crash;

static uint64_t random_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9E3779B97F4A7C15u);

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

/* ---- what a generation looks like ---- */

static size_t page_bytes(const struct worker *worker, unsigned key,
			 uint64_t generation)
{
	static const size_t sizes[] = {
		0,	1,	4096,	5000,	      65536,   100000,
		262144, 300001, 393216, PAGE_MAX - 7, PAGE_MAX};
	uint64_t pick = generation * 31 + key * 7 + worker->number;

	return sizes[pick % (sizeof(sizes) / sizeof(*sizes))];
}

static void page_fill(const struct worker *worker, unsigned key,
		      uint64_t generation, uint8_t *ret)
{
	uint64_t seed = generation * 1000003 + worker->number * 1009 + key;
	size_t len = page_bytes(worker, key, generation);

	for (size_t at = 0; at < len; at += 8) {
		uint64_t word = (seed + at) * 0x9E3779B97F4A7C15u;

		memcpy(ret + at, &word, len - at < 8 ? len - at : 8);
	}
}

static void key_path(const struct worker *worker, unsigned key, char ret[160])
{
	snprintf(ret, 160, "%s/t%u/key%02u.bin", crash.mount, worker->number,
		 key);
}

/* ---- load ---- */

static int write_file(struct worker *worker, unsigned key, const char *path,
		      uint64_t generation, bool sync)
{
	size_t len = page_bytes(worker, key, generation), at = 0;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	int error = 0;

	if (fd < 0)
		return errno;
	page_fill(worker, key, generation, worker->buffer);
	while (!error && at < len) {
		ssize_t n = write(fd, worker->buffer + at, len - at);

		if (n < 0)
			error = errno;
		else
			at += (size_t)n;
	}
	if (!error && sync && fsync(fd))
		error = errno;
	if (close(fd) && !error)
		error = errno;
	return error;
}

static int put_by_rename(struct worker *worker, unsigned key,
			 uint64_t generation, bool sync)
{
	char path[160], temporary[180];
	int error;

	key_path(worker, key, path);
	snprintf(temporary, sizeof(temporary), "%s.tmp.%u", path,
		 worker->number);
	error = write_file(worker, key, temporary, generation, sync);
	if (!error && rename(temporary, path))
		error = errno;
	return error;
}

static int put_in_place(struct worker *worker, unsigned key,
			uint64_t generation, bool sync)
{
	char path[160];

	key_path(worker, key, path);
	return write_file(worker, key, path, generation, sync);
}

static int delete_key(struct worker *worker, unsigned key)
{
	char path[160];

	key_path(worker, key, path);
	return unlink(path) && errno != ENOENT ? errno : 0;
}

static void confirm(struct key_state *state)
{
	state->history[0] = state->history[state->count - 1];
	state->count = 1;
}

/* One operation on one key, with its book-keeping: first what is tried, then
 * that it was acknowledged, so that a kill in between is told. */
static int one_operation(struct worker *worker)
{
	uint64_t dice = random_next(&worker->random);
	unsigned key = (unsigned)(dice % KEYS);
	struct key_state *state = &worker->keys[key];
	bool full = state->count == HISTORY - 1;
	bool sync = full || (dice >> 8) % 4 == 0;
	bool rename_it = !full && (dice >> 24) % 2;
	int error;

	state->trying = true;
	if (!full && (dice >> 16) % 8 == 0) {
		state->history[state->count++] = 0;
		error = delete_key(worker, key);
		sync = false;
	} else {
		uint64_t generation = ++worker->generation;

		state->history[state->count++] = generation;
		error = rename_it ? put_by_rename(worker, key, generation, sync)
				  : put_in_place(worker, key, generation, sync);
	}
	if (error)
		return error;
	state->trying = false;
	/* An fsync before the rename promises the bytes, not the new name. */
	if (sync && !rename_it)
		confirm(state);
	return 0;
}

static void *load(void *arg)
{
	struct worker *worker = arg;
	int error;

	while (!(error = one_operation(worker)))
		worker->operations++;
	if (error == ENOTCONN || error == ECONNABORTED || error == EIO ||
	    error == EINTR)
		worker->interrupted = true;
	else
		worker->unexpected = error;
	return NULL;
}

/* ---- the daemon ---- */

static int run_pagefs(const char *const *arguments)
{
	const char *program = getenv("PAGEFS_BIN");
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		execv(program ? program : "build/pagefs",
		      (char **)(uintptr_t)arguments);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void start_daemon(void)
{
	const char *arguments[] = {"pagefs", "mount",	 "--memory",  "48M",
				   "--disk", crash.disk, crash.mount, NULL};

	assert_int_equal(run_pagefs(arguments), 0);
}

static void read_stats(char *ret, size_t room)
{
	char path[128];
	FILE *file;
	size_t len;

	snprintf(path, sizeof(path), "%s/.pagefs/stats.json", crash.mount);
	file = fopen(path, "r");
	assert_non_null(file);
	len = fread(ret, 1, room - 1, file);
	fclose(file);
	ret[len] = '\0';
}

/* What the daemon says of itself: its pid, and where its arena is (root's). */
static pid_t ask_daemon(void)
{
	char text[16384];
	const char *pid, *instance;

	read_stats(text, sizeof(text));
	pid = strstr(text, "\"pid\":");
	instance = strstr(text, "\"instance\": \"");
	assert_non_null(pid);
	assert_non_null(instance);
	instance += strlen("\"instance\": \"");
	snprintf(crash.memory_dir, sizeof(crash.memory_dir), "/run/pagefs/%.*s",
		 (int)strcspn(instance, "\""), instance);
	return (pid_t)strtol(pid + 6, NULL, 10);
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *where)
{
	(void)st, (void)type, (void)where;
	return remove(path);
}

static int remove_tree(const char *path)
{
	return nftw(path, remove_one, 16, FTW_PHYS | FTW_DEPTH | FTW_MOUNT);
}

static void wait_until_gone(pid_t pid)
{
	for (int i = 0; i < 2000 && !kill(pid, 0); i++)
		usleep(5000);
	assert_int_equal(kill(pid, 0), -1);
}

/* As a reboot would: the arena's tmpfs goes, that is what is mounted now and
 * was not before the daemon was started. */
static void drop_memory_tier(void)
{
	char path[300];

	snprintf(path, sizeof(path), "%s", crash.memory_dir);
	assert_true(strlen(path) > 4);
	if (umount2(path, MNT_DETACH))
		assert_int_equal(remove_tree(path), 0);
}

static void drop_index(void)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/index", crash.disk);
	assert_int_equal(remove_tree(path), 0);
}

/* ---- a round ---- */

static void run_load_and_kill(uint64_t *random)
{
	pid_t pid = ask_daemon();
	bool interrupted = false;

	for (unsigned i = 0; i < THREADS; i++) {
		struct worker *worker = &crash.workers[i];

		worker->interrupted = false;
		worker->unexpected = 0;
		assert_int_equal(
			pthread_create(&worker->thread, NULL, load, worker), 0);
	}
	usleep((useconds_t)(5000 + random_next(random) % 200000));
	kill(pid, SIGKILL);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(crash.workers[i].thread, NULL);
		assert_int_equal(crash.workers[i].unexpected, 0);
		interrupted |= crash.workers[i].interrupted;
	}
	wait_until_gone(pid);
	crash.interruptions += interrupted;
}

/* Whether the key's file holds this generation; `found` is its content. */
static bool holds(struct worker *worker, unsigned key, uint64_t generation,
		  const uint8_t *found, ssize_t len)
{
	if (!generation || len < 0)
		return !generation && len < 0;
	if ((size_t)len != page_bytes(worker, key, generation))
		return false;
	page_fill(worker, key, generation, worker->buffer);
	return !memcmp(found, worker->buffer, (size_t)len);
}

/* The whole file: its length, or -1 where it isn't there. */
static ssize_t read_key(struct worker *worker, unsigned key, uint8_t *ret)
{
	char path[160];
	size_t len = 0;
	ssize_t n;
	int fd;

	key_path(worker, key, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		assert_int_equal(errno, ENOENT);
		return -1;
	}
	while ((n = read(fd, ret + len, PAGE_MAX + 1 - len)) > 0)
		len += (size_t)n;
	assert_int_equal(n, 0);
	close(fd);
	return (ssize_t)len;
}

/* What was found is what it is now. Without the memory tier that is on disk for
 * good; else what came before it may come back when memory goes. */
static void now_holds(struct key_state *state, size_t index,
		      bool memory_is_gone)
{
	state->count = index + 1;
	state->trying = false;
	if (memory_is_gone)
		confirm(state);
}

static void check_key(struct worker *worker, unsigned key, bool memory_is_gone)
{
	static uint8_t found[PAGE_MAX + 1];
	struct key_state *state = &worker->keys[key];
	ssize_t len = read_key(worker, key, found);
	size_t oldest = memory_is_gone	? 0
			: state->trying ? state->count - 2
					: state->count - 1;

	for (size_t i = state->count; i-- > oldest;)
		if (holds(worker, key, state->history[i], found, len)) {
			now_holds(state, i, memory_is_gone);
			return;
		}
	if (len < 0 && memory_is_gone && state->count > 1) {
		state->history[state->count - 1] = 0;
		now_holds(state, state->count - 1, true);
		return;
	}
	fail_msg("thread %u, key %u: %zd bytes that are none of the %zu "
		 "states it may be in (the last: generation %llu, %zu bytes)",
		 worker->number, key, len, state->count - oldest,
		 (unsigned long long)state->history[state->count - 1],
		 page_bytes(worker, key, state->history[state->count - 1]));
}

static void check_all(bool memory_is_gone)
{
	for (unsigned i = 0; i < THREADS; i++)
		for (unsigned key = 0; key < KEYS; key++)
			check_key(&crash.workers[i], key, memory_is_gone);
}

static void make_directories(void)
{
	char path[160];

	for (unsigned i = 0; i < THREADS; i++) {
		snprintf(path, sizeof(path), "%s/t%u", crash.mount, i);
		if (mkdir(path, 0755))
			assert_int_equal(errno, EEXIST);
	}
}

static void nothing_acknowledged_is_lost_by_kill_9(void **state)
{
	const char *setting = getenv("CRASH_ROUNDS");
	unsigned rounds = setting ? (unsigned)atoi(setting) : 20;
	uint64_t random = (uint64_t)time(NULL);

	(void)state;
	print_message("seed %llu, %u rounds\n", (unsigned long long)random,
		      rounds);
	for (unsigned i = 0; i < THREADS; i++)
		crash.workers[i].random = random + i;
	start_daemon();
	make_directories();
	for (unsigned round = 1; round <= rounds; round++) {
		bool without_memory = round % 3 == 0;

		run_load_and_kill(&random);
		if (without_memory)
			drop_memory_tier();
		if (round % 6 == 0)
			drop_index();
		start_daemon();
		make_directories();
		check_all(without_memory);
	}
	print_message("%u of %u kills interrupted an operation\n",
		      crash.interruptions, rounds);
	assert_true(crash.interruptions * 2 > rounds);
}

static int set_up(void **state)
{
	(void)state;
	snprintf(crash.root, sizeof(crash.root),
		 "/var/tmp/pagefs-crash.XXXXXX");
	if (!mkdtemp(crash.root))
		return -1;
	snprintf(crash.mount, sizeof(crash.mount), "%s/mount", crash.root);
	snprintf(crash.disk, sizeof(crash.disk), "%s/disk", crash.root);
	for (unsigned i = 0; i < THREADS; i++) {
		crash.workers[i].number = i;
		crash.workers[i].buffer = malloc(PAGE_MAX);
		for (unsigned key = 0; key < KEYS; key++)
			crash.workers[i].keys[key].count = 1;
	}
	return mkdir(crash.mount, 0755);
}

static int tear_down(void **state)
{
	const char *arguments[] = {"pagefs", "umount", crash.mount, NULL};

	(void)state;
	run_pagefs(arguments);
	umount2(crash.mount, MNT_DETACH);
	for (unsigned i = 0; i < THREADS; i++)
		free(crash.workers[i].buffer);
	return remove_tree(crash.root);
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
