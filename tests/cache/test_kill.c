/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/internal.h"
#include "tests/cache/model.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * A process changes a cache, tells of each change before and after it, and is
 * killed at some moment.  What it was done with must be there at the next
 * start; what it was at may have happened or not.  The changes are few kinds
 * on few keys, each of which says in its seed what to expect.
 */

#define KEYS 12
#define SIZE 40000

static struct fixture f;

enum kind {
	PUT,	/* in place */
	RENAME, /* a temporary page over the key */
	UNLINK
};

struct change {
	uint32_t done; /* 0: begins, 1: has happened */
	uint32_t kind;
	uint32_t key;
	uint32_t seed;
};

static void key_of(uint32_t key, char ret[32])
{
	snprintf(ret, 32, "d/%u", key);
}

static void make_change(const struct change *change)
{
	char key[32], temporary[40];
	size_t len = SIZE + change->seed % 7 * 1000;

	key_of(change->key, key);
	snprintf(temporary, sizeof(temporary), "%s.tmp", key);
	switch (change->kind) {
	case PUT:
		fixture_put(&f, key, change->seed, len);
		break;
	case RENAME:
		fixture_put(&f, temporary, change->seed, len);
		fixture_rename(&f, temporary, key, 0);
		break;
	default:
		fixture_unlink(&f, key);
	}
}

static void child_run(int out, uint64_t seed, uint32_t first)
{
	struct model random;

	model_init(&random, seed);
	fixture_start(&f);
	for (uint32_t i = 0;; i++) {
		struct change change = {
			.kind = (uint32_t)model_random(&random, 3),
			.key = (uint32_t)model_random(&random, KEYS),
			.seed = first + i,
		};

		if (write(out, &change, sizeof(change)) != sizeof(change))
			_exit(1);
		make_change(&change);
		change.done = 1;
		if (write(out, &change, sizeof(change)) != sizeof(change))
			_exit(1);
	}
}

/* What a key holds: a seed, or 0 for nothing. */
struct expected {
	uint32_t seed;
	bool unsure; /* a change of it was under way */
	uint32_t or_seed;
};

static uint32_t follow(int in, struct expected *expected)
{
	struct change change;
	uint32_t count = 0;

	while (read(in, &change, sizeof(change)) == sizeof(change)) {
		struct expected *key = &expected[change.key];
		uint32_t seed = change.kind == UNLINK ? 0 : change.seed;

		key->unsure = !change.done;
		if (change.done)
			key->seed = seed;
		else
			key->or_seed = seed;
		count += change.done;
	}
	return count;
}

static bool holds(const char *key, uint32_t seed)
{
	int outcome = fixture_get(&f, key, seed, SIZE + seed % 7 * 1000);

	if (!seed)
		return outcome == CACHE_MISS;
	return outcome == 0;
}

static void verify(struct expected *expected)
{
	char key[32];

	for (uint32_t i = 0; i < KEYS; i++) {
		struct expected *e = &expected[i];

		key_of(i, key);
		if (holds(key, e->seed)) {
			e->unsure = false;
			continue;
		}
		if (!e->unsure || !holds(key, e->or_seed))
			fail_msg("%s: not what %u wrote%s", key, e->seed,
				 e->unsure ? ", nor the next" : "");
		e->seed = e->or_seed;
		e->unsure = false;
	}
}

static uint32_t round_of(uint64_t seed, uint32_t first,
			 struct expected *expected)
{
	int pipes[2], status;
	uint32_t count;
	pid_t child;

	assert_int_equal(pipe(pipes), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		close(pipes[0]);
		child_run(pipes[1], seed, first);
	}
	close(pipes[1]);
	usleep((useconds_t)(40000 + seed * 7919 % 90000));
	kill(child, SIGKILL);
	count = follow(pipes[0], expected);
	close(pipes[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (!WIFSIGNALED(status))
		fail_msg("the child ended by itself: %x", (unsigned)status);
	return count;
}

static void rounds(bool disk, int count)
{
	struct expected expected[KEYS] = {0};
	uint32_t changes = 0, first = 1;

	fixture_open(&f, disk);
	fixture_mkdir(&f, "d");
	cache_close(f.cache, true);
	f.cache = NULL;
	f.config.writeback_max_ms = 10;
	for (int i = 0; i < count; i++) {
		uint32_t done = round_of((uint64_t)i + 1, first, expected);

		changes += done;
		first += done + 1;
		fixture_start(&f);
		verify(expected);
		/* Now and then it goes on from a clean stop. */
		cache_close(f.cache, true);
		f.cache = NULL;
	}
	/* A run that interrupted nothing shows nothing. */
	print_message("%u changes in %d rounds\n", changes, count);
	assert_true(changes > (uint32_t)count);
	fixture_start(&f);
	verify(expected);
	fixture_close(&f);
}

static int how_many(void)
{
	const char *set = getenv("PAGEFS_TEST_ROUNDS");

	if (set)
		return atoi(set);
	return getenv("PAGEFS_TEST_SHORT") ? 10 : 40;
}

static void nothing_committed_is_lost_without_a_disk(void **state)
{
	(void)state;
	rounds(false, how_many());
}

static void nothing_committed_is_lost_with_a_disk(void **state)
{
	(void)state;
	rounds(true, how_many());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_committed_is_lost_without_a_disk),
		cmocka_unit_test(nothing_committed_is_lost_with_a_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
