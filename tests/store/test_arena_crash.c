/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "arena_fixture.h"

#define ROUNDS 50
#define ENTRIES 1024

static const struct slot_class classes[] = {
	{KIB(512), 0, 0, 0600},
	{KIB(64), 0, 0, 0600},
	{KIB(256), 1000, 0, 0600},
	{KIB(4), 0, 0, 0644},
};

/* An index in shared memory that outlives the child: an object is in it from
 * its commit until just before its slot is freed. */
struct book {
	_Atomic uint64_t puts;
	_Atomic uint64_t evictions;
	_Atomic bool working;
	struct {
		_Atomic uint64_t object; /* 0: none */
		_Atomic slot_t slot;
		_Atomic uint32_t slot_bytes;
	} entries[ENTRIES];
};

/* In the child nothing is asserted: it leaves with a number that says where. */
#define CHECK(condition)                                                       \
	do {                                                                   \
		if (!(condition))                                              \
			_exit(100);                                            \
	} while (0)

static bool claim_all(struct arena *arena, struct book *book)
{
	for (unsigned i = 0; i < ENTRIES; i++) {
		uint64_t object = book->entries[i].object;
		struct chunk_id id = chunk_of(object);

		if (object && arena_claim(arena, book->entries[i].slot, &id,
					  book->entries[i].slot_bytes, false))
			return false;
	}
	arena_sweep(arena);
	return true;
}

static bool all_right(struct arena *arena, struct book *book, bool unverified)
{
	for (unsigned i = 0; i < ENTRIES; i++) {
		uint64_t object = book->entries[i].object;
		struct chunk_id id = chunk_of(object);
		slot_t slot = book->entries[i].slot;
		bool right;

		if (!object)
			continue;
		if (arena_pin(arena, slot, &id))
			return false;
		right = chunk_check(arena_data(arena, slot),
				    book->entries[i].slot_bytes, &id) &&
			arena_unverified(arena, slot) == unverified;
		arena_set_verified(arena, slot);
		right = right && !arena_unverified(arena, slot);
		arena_unpin(arena, slot);
		if (!right)
			return false;
	}
	return true;
}

static void drop(struct arena *arena, struct book *book,
		 const struct arena_victim *victim)
{
	/* The index first, as the cache does. */
	book->entries[victim->id.object % ENTRIES].object = 0;
	arena_free(arena, victim->slot);
	book->evictions++;
}

static void make_room(struct arena *arena, struct book *book,
		      const struct slot_class *class)
{
	struct arena_victim victims[32];
	size_t count =
		arena_victims(arena, class->slot_bytes, class, victims, 32);

	CHECK(count > 0);
	for (size_t i = 0; i < count; i++)
		drop(arena, book, &victims[i]);
}

static void put(struct arena *arena, struct book *book, uint64_t object)
{
	/* The class changes slowly, so that regions change theirs. */
	const struct slot_class *class = &classes[object / 61 % 4];
	struct chunk_id id = chunk_of(object);
	slot_t slot;
	int rc;

	if (book->entries[object % ENTRIES].object)
		return;
	while ((rc = arena_alloc(arena, class, &slot)) == ARENA_FULL)
		make_room(arena, book, class);
	CHECK(!rc);
	chunk_fill(arena_data(arena, slot), class->slot_bytes, &id);
	arena_commit(arena, slot, &id, class->slot_bytes, false);
	book->entries[object % ENTRIES].slot = slot;
	book->entries[object % ENTRIES].slot_bytes = class->slot_bytes;
	book->entries[object % ENTRIES].object = object;
	arena_unpin(arena, slot);
	book->puts++;
}

static void work_until_killed(const struct arena_config *config,
			      struct book *book)
{
	uint64_t object = book->puts + 1;
	struct arena *arena;
	int rc = arena_open(config, &arena);

	CHECK(rc == ARENA_KEPT || rc == ARENA_FRESH);
	CHECK(claim_all(arena, book));
	book->working = true;
	for (;; object++)
		put(arena, book, object);
}

static void kill_one(const struct arena_config *config, struct book *book,
		     unsigned round)
{
	pid_t child;
	int status;

	book->working = false;
	child = fork();
	assert_true(child >= 0);
	if (!child)
		work_until_killed(config, book);
	while (!book->working && !waitpid(child, &status, WNOHANG))
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	nanosleep(&(struct timespec){.tv_nsec = (rand() % 20000) * 1000L},
		  NULL);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (!WIFSIGNALED(status))
		fail_msg("round %u: the child failed: %d", round,
			 WEXITSTATUS(status));
}

static uint64_t booked_bytes(struct book *book)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < ENTRIES; i++) {
		if (book->entries[i].object)
			bytes += book->entries[i].slot_bytes;
	}
	return bytes;
}

static void whatever_was_committed_is_there_after_kill_9(void **state)
{
	struct arena_fixture *fixture = *state;
	unsigned interrupted = 0;
	struct arena_stats stats;
	struct book *book = mmap(NULL, sizeof(*book), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(book != MAP_FAILED);
	srand(4711);
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t before = book->puts;
		int rc;

		kill_one(&fixture->config, book, round);
		interrupted += book->puts > before;
		rc = arena_open(&fixture->config, &fixture->arena);
		assert_int_equal(rc, ARENA_UNVERIFIED);
		assert_true(claim_all(fixture->arena, book));
		assert_true(all_right(fixture->arena, book, true));
		arena_get_stats(fixture->arena, &stats);
		assert_int_equal(stats.used_bytes, booked_bytes(book));
		/* More of the same on top of it. */
		for (uint64_t i = 0; i < 20; i++)
			put(fixture->arena, book, book->puts + 1);
		assert_true(all_right(fixture->arena, book, false));
		arena_close(fixture->arena, true);
		fixture->arena = NULL;
	}
	print_message("%llu puts, %llu evictions, %u of %u kills at work\n",
		      (unsigned long long)book->puts,
		      (unsigned long long)book->evictions, interrupted, ROUNDS);
	assert_true(interrupted > ROUNDS / 2);
	assert_true(book->evictions > 100);
	munmap(book, sizeof(*book));
}

static void a_page_not_claimed_is_swept_away(void **state)
{
	struct arena_fixture *fixture = *state;
	struct chunk_id first = chunk_of(1), second = chunk_of(2);
	struct arena_stats stats;
	slot_t one, two;

	assert_int_equal(arena_open(&fixture->config, &fixture->arena),
			 ARENA_FRESH);
	assert_int_equal(chunk_put(fixture->arena, &classes[0], 1, &one), 0);
	assert_int_equal(chunk_put(fixture->arena, &classes[0], 2, &two), 0);
	assert_int_equal(arena_fixture_reopen(fixture, true), ARENA_KEPT);
	assert_int_equal(arena_pin(fixture->arena, one, &first), ARENA_GONE);
	/* Wrong length, wrong id, then right, then twice. */
	assert_int_equal(
		arena_claim(fixture->arena, one, &first, KIB(511), false),
		ARENA_GONE);
	assert_int_equal(
		arena_claim(fixture->arena, one, &second, KIB(512), false),
		ARENA_GONE);
	assert_int_equal(
		arena_claim(fixture->arena, one, &first, KIB(512), true), 0);
	assert_int_equal(
		arena_claim(fixture->arena, one, &first, KIB(512), true),
		ARENA_GONE);
	arena_sweep(fixture->arena);
	assert_int_equal(
		arena_claim(fixture->arena, two, &second, KIB(512), false),
		ARENA_GONE);
	assert_int_equal(arena_pin(fixture->arena, two, &second), ARENA_GONE);
	arena_get_stats(fixture->arena, &stats);
	assert_int_equal(stats.used_bytes, KIB(512));
	assert_int_equal(stats.dirty_bytes, KIB(512));
	assert_false(arena_unverified(fixture->arena, one));
	/* The swept slot is used again, its memory held. */
	assert_int_equal(chunk_put(fixture->arena, &classes[0], 3, &one), 0);
	assert_int_equal(one, two);
}

static void doubt_outlives_a_clean_stop(void **state)
{
	struct arena_fixture *fixture = *state;
	struct chunk_id id = chunk_of(1);
	pid_t child;
	slot_t slot = 0;

	child = fork();
	if (!child) {
		CHECK(arena_open(&fixture->config, &fixture->arena) ==
		      ARENA_FRESH);
		CHECK(!chunk_put(fixture->arena, &classes[0], 1, &slot));
		_exit(slot != 0);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(arena_fixture_reopen(fixture, true),
				 i ? ARENA_KEPT : ARENA_UNVERIFIED);
		assert_int_equal(
			arena_claim(fixture->arena, slot, &id, KIB(512), false),
			0);
		arena_sweep(fixture->arena);
		assert_true(arena_unverified(fixture->arena, slot));
	}
	arena_set_verified(fixture->arena, slot);
	assert_int_equal(arena_fixture_reopen(fixture, true), ARENA_KEPT);
	assert_int_equal(
		arena_claim(fixture->arena, slot, &id, KIB(512), false), 0);
	assert_false(arena_unverified(fixture->arena, slot));
}

#define CLOSED(test)                                                           \
	cmocka_unit_test_setup_teardown(test, arena_fixture_setup_closed,      \
					arena_fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CLOSED(whatever_was_committed_is_there_after_kill_9),
		CLOSED(a_page_not_claimed_is_swept_away),
		CLOSED(doubt_outlives_a_clean_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
