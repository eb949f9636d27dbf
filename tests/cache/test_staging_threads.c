/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define PAGES 12

/* cmocka's asserts must not be used in a worker: what went wrong is counted,
 * and looked at after the join. */
struct worker {
	pthread_t thread;
	struct rig *rig;
	unsigned number;
	unsigned wrong;
};

static void start(struct rig *rig, void *(*run)(void *), struct worker *workers,
		  unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		workers[i] = (struct worker){.rig = rig, .number = i};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, run,
						&workers[i]),
				 0);
	}
}

static void join(struct worker *workers, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		pthread_join(workers[i].thread, NULL);
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(workers[i].wrong, 0);
}

/* ---- each its own pages ---- */

#define LEN 700000

static bool put(struct worker *worker, const char *path, unsigned seed)
{
	struct cache_creator creator = {.uid = 1000, .gid = 1000, .mode = 0644};
	struct cache_name name = rig_name(path);
	struct cache_writer *writer;
	uint64_t offset = 0;
	uint8_t *data = malloc(LEN);
	bool committed, right;

	rig_fill(data, 0, LEN, seed);
	if (cache_stage_open(worker->rig->cache, &name,
			     CACHE_STAGE_CREATE | CACHE_STAGE_TRUNCATE,
			     &creator, (pid_t)worker->number + 1, &writer)) {
		free(data);
		return false;
	}
	right = cache_stage_write(writer, data, LEN, &offset) == LEN &&
		cache_stage_flush(writer, false, &committed) == 0;
	cache_stage_close(writer, &committed);
	free(data);
	return right;
}

static void *write_and_rename(void *arg)
{
	struct worker *worker = arg;

	for (unsigned i = 0; i < PAGES; i++) {
		char temp[32], page[32];
		struct cache_name from, to;

		snprintf(temp, sizeof(temp), "%u.tmp", worker->number);
		snprintf(page, sizeof(page), "%u-%u", worker->number, i % 4);
		from = rig_name(temp);
		to = rig_name(page);
		if (!put(worker, temp, i) ||
		    cache_rename(worker->rig->cache, &from, &to, 0))
			worker->wrong++;
	}
	return NULL;
}

static void threads_write_pages_of_their_own(void **state)
{
	struct rig *rig = *state;
	struct worker workers[THREADS];

	start(rig, write_and_rename, workers, THREADS);
	join(workers, THREADS);
	for (unsigned t = 0; t < THREADS; t++)
		for (unsigned i = 0; i < 4; i++) {
			char page[32];

			snprintf(page, sizeof(page), "%u-%u", t, i);
			rig_assert_page(rig, page, LEN, PAGES - 4 + i);
		}
}

/* ---- all the same name ---- */

static void *write_one_name(void *arg)
{
	struct worker *worker = arg;

	for (unsigned i = 0; i < PAGES; i++) {
		struct cache_name name = rig_name("same"), to = rig_name("to");

		if (!put(worker, "same", 3))
			worker->wrong++;
		if (i % 3 == 1)
			cache_rename(worker->rig->cache, &name, &to, 0);
		if (i % 3 == 2)
			cache_unlink(worker->rig->cache, &name);
	}
	return NULL;
}

static void *read_one_name(void *arg)
{
	struct worker *worker = arg;

	for (unsigned i = 0; i < 4 * PAGES; i++) {
		struct cache_name name = rig_name(i & 1 ? "same" : "to");
		struct cache_found found = {.staging = NULL};
		int outcome =
			cache_lookup(worker->rig->cache, &name, 9999, &found);

		if (outcome != 0 && outcome != CACHE_MISS)
			worker->wrong++;
		/* One fixed name cuts the page of another short, as on any
		 * file system; what is committed was written by somebody. */
		if (outcome == 0 && found.entry.size_bytes > LEN)
			worker->wrong++;
	}
	return NULL;
}

static void threads_share_one_name(void **state)
{
	struct rig *rig = *state;
	struct worker writers[THREADS], readers[2];

	start(rig, write_one_name, writers, THREADS);
	start(rig, read_one_name, readers, 2);
	join(writers, THREADS);
	join(readers, 2);
	assert_int_equal(rig_put(rig, "same", LEN, 7), 0);
	rig_assert_page(rig, "same", LEN, 7);
}

/* ---- parts of one page ---- */

struct part {
	struct worker worker;
	struct cache_writer *writer;
};

static void *write_part(void *arg)
{
	struct part *part = arg;
	unsigned n = part->worker.number;
	uint8_t *data = malloc(RIG_MIB);
	bool committed;

	for (unsigned i = 0; i < 4; i++) {
		uint64_t offset = (n * 4 + i) * (uint64_t)100000;

		rig_fill(data, offset, 100000, 1);
		if (cache_stage_write(part->writer, data, 100000, &offset) !=
		    100000)
			part->worker.wrong++;
	}
	free(data);
	if (cache_stage_flush(part->writer, false, &committed))
		part->worker.wrong++;
	cache_stage_close(part->writer, &committed);
	return NULL;
}

static void parts_written_by_threads_make_one_page(void **state)
{
	struct rig *rig = *state;
	struct part parts[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		parts[i] = (struct part){
			.worker = {.rig = rig, .number = i},
			.writer = rig_writer(rig, "page", CACHE_STAGE_CREATE),
		};
	for (unsigned i = 0; i < THREADS; i++)
		pthread_create(&parts[i].worker.thread, NULL, write_part,
			       &parts[i]);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(parts[i].worker.thread, NULL);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(parts[i].worker.wrong, 0);
	rig_assert_page(rig, "page", THREADS * 400000, 1);
}

/* ---- more than memory holds ---- */

static void *fill_memory(void *arg)
{
	struct worker *worker = arg;

	for (unsigned i = 0; i < 3 * PAGES; i++) {
		char page[32];

		snprintf(page, sizeof(page), "%u-%u", worker->number, i);
		if (!put(worker, page, worker->number * 1000 + i))
			worker->wrong++;
	}
	return NULL;
}

static void threads_write_more_than_memory_holds(void **state)
{
	struct rig *rig = *state;
	struct worker workers[THREADS];

	start(rig, fill_memory, workers, THREADS);
	join(workers, THREADS);
	for (unsigned t = 0; t < THREADS; t++)
		for (unsigned i = 0; i < 3 * PAGES; i++) {
			char page[32];

			snprintf(page, sizeof(page), "%u-%u", t, i);
			rig_assert_page(rig, page, LEN, t * 1000 + i);
		}
}

#define ON_RIG(test)                                                           \
	cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_RIG(threads_write_pages_of_their_own),
		ON_RIG(threads_share_one_name),
		ON_RIG(parts_written_by_threads_make_one_page),
		ON_RIG(threads_write_more_than_memory_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
