/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "arena_fixture.h"

#define ENTRIES 512
#define READERS 3
#define WRITERS 3
#define SECONDS 2

/* What an index would be: which object is where, or was a moment ago. */
struct entry {
	uint64_t object;
	slot_t slot;
};

static struct shared {
	struct arena *arena;
	pthread_mutex_t lock;
	struct entry entries[ENTRIES]; /* guarded by lock */
	_Atomic uint64_t next_object;
	_Atomic uint64_t hits, gone, puts, wrong, failed;
	_Atomic bool stop;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_object = 1};

static uint32_t random_of(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

static void *reader(void *arg)
{
	uint32_t seed = 77u + (uint32_t)(uintptr_t)arg;

	while (!shared.stop) {
		struct entry entry;
		struct chunk_id id, found;
		uint32_t len_bytes;

		pthread_mutex_lock(&shared.lock);
		entry = shared.entries[random_of(&seed) % ENTRIES];
		pthread_mutex_unlock(&shared.lock);
		id = chunk_of(entry.object);
		if (!entry.object)
			continue;
		if (arena_pin(shared.arena, entry.slot, &id)) {
			shared.gone++;
			continue;
		}
		arena_ref(shared.arena, entry.slot);
		arena_describe(shared.arena, entry.slot, &found, &len_bytes);
		if (!chunk_id_equal(&found, &id) ||
		    !chunk_check(arena_data(shared.arena, entry.slot),
				 len_bytes, &id))
			shared.wrong++;
		arena_unpin(shared.arena, entry.slot);
		arena_unpin(shared.arena, entry.slot);
		shared.hits++;
	}
	return NULL;
}

/* Some victims are kept, some reserved slots given up or quarantined. */
static int put_or_not(const struct slot_class *class, uint64_t object,
		      uint32_t dice)
{
	struct chunk_id id = chunk_of(object);
	slot_t slot;
	int rc = arena_alloc(shared.arena, class, &slot);

	if (rc)
		return rc;
	chunk_fill(arena_data(shared.arena, slot), class->slot_bytes, &id);
	if (dice % 32 == 0) {
		arena_quarantine(shared.arena, slot);
		arena_quarantine_end(shared.arena, slot);
		return 0;
	}
	if (dice % 32 == 1) {
		arena_free(shared.arena, slot);
		return 0;
	}
	arena_commit(shared.arena, slot, &id, class->slot_bytes, dice % 4 == 0);
	pthread_mutex_lock(&shared.lock);
	shared.entries[object % ENTRIES] = (struct entry){object, slot};
	pthread_mutex_unlock(&shared.lock);
	arena_set_dirty(shared.arena, slot, false);
	arena_unpin(shared.arena, slot);
	shared.puts++;
	return 0;
}

static void evict(const struct slot_class *class, uint32_t dice)
{
	struct arena_victim victims[16];
	size_t count = arena_victims(shared.arena, class->slot_bytes,
				     dice % 3 ? class : NULL, victims, 16);

	for (size_t i = 0; i < count; i++) {
		if (dice % 64 == 2)
			arena_restore(shared.arena, victims[i].slot);
		else
			arena_free(shared.arena, victims[i].slot);
	}
}

static void *writer(void *arg)
{
	static const struct slot_class classes[] = {
		{KIB(256), 0, 0, 0600},
		{KIB(64), 0, 0, 0600},
		{KIB(300), 0, 0, 0600},
		{KIB(8), 0, 0, 0600},
	};
	uint32_t seed = 12345u + (uint32_t)(uintptr_t)arg;

	while (!shared.stop) {
		uint32_t dice = random_of(&seed);
		const struct slot_class *class = &classes[dice / 1024 % 4];
		int rc = put_or_not(class, shared.next_object++, dice);

		if (rc == ARENA_FULL)
			evict(class, random_of(&seed));
		else if (rc)
			shared.failed++;
	}
	return NULL;
}

static void readers_see_the_bytes_of_their_id_while_others_evict(void **state)
{
	struct arena_fixture *fixture = *state;
	pthread_t threads[READERS + WRITERS];
	struct arena_stats stats;
	struct arena_victim victim;

	shared.arena = fixture->arena;
	for (uintptr_t i = 0; i < READERS + WRITERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
						i < READERS ? reader : writer,
						(void *)i),
				 0);
	nanosleep(&(struct timespec){.tv_sec = SECONDS}, NULL);
	shared.stop = true;
	for (unsigned i = 0; i < READERS + WRITERS; i++)
		pthread_join(threads[i], NULL);
	print_message("%llu puts, %llu hits, %llu gone\n",
		      (unsigned long long)shared.puts,
		      (unsigned long long)shared.hits,
		      (unsigned long long)shared.gone);
	assert_int_equal(shared.wrong, 0);
	assert_int_equal(shared.failed, 0);
	assert_true(shared.hits > 100 && shared.gone > 100);
	assert_true(shared.puts > 100);

	/* Every counter comes back to nothing when everything is freed. */
	while (arena_victims(fixture->arena, 1, NULL, &victim, 1))
		arena_free(fixture->arena, victim.slot);
	arena_get_stats(fixture->arena, &stats);
	assert_int_equal(stats.used_bytes, 0);
	assert_int_equal(stats.live_slots, 0);
	assert_int_equal(stats.pinned_bytes, 0);
	assert_int_equal(stats.dirty_bytes, 0);
	assert_int_equal(stats.wasted_bytes, 0);
	assert_int_equal(stats.quarantined_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			readers_see_the_bytes_of_their_id_while_others_evict,
			arena_fixture_setup, arena_fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
