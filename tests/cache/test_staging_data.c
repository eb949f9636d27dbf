/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/lib/clock.h"

#define PAGE 3670016

static int set_size(struct cache_writer *writer, uint64_t size)
{
	return cache_stage_truncate(cache_writer_staging(writer), size);
}

/* ---- against a model ---- */

#define MODEL_BYTES (6u << 20)

struct model {
	uint8_t *bytes;
	size_t len;
	uint64_t random;
};

static uint64_t draw(struct model *model, uint64_t below)
{
	model->random = model->random * UINT64_C(6364136223846793005) +
			UINT64_C(1442695040888963407);
	return (model->random >> 33) % below;
}

static void model_write(struct model *model, struct cache_writer *writer)
{
	size_t at = (size_t)draw(model, MODEL_BYTES - 1);
	size_t len = 1 + (size_t)draw(model, draw(model, 4) ? 9000 : RIG_MIB);
	uint64_t offset;

	if (len > MODEL_BYTES - at)
		len = MODEL_BYTES - at;
	offset = at;
	rig_fill(model->bytes + at, at, len, (unsigned)draw(model, 1000));
	assert_int_equal(
		cache_stage_write(writer, model->bytes + at, len, &offset),
		len);
	if (model->len < at + len)
		model->len = at + len;
}

static void model_resize(struct model *model, struct cache_writer *writer)
{
	size_t len = draw(model, 6) ? (size_t)draw(model, MODEL_BYTES) : 0;

	assert_int_equal(set_size(writer, len), 0);
	if (len < model->len)
		memset(model->bytes + len, 0, model->len - len);
	model->len = len;
}

static void model_punch(struct model *model, struct cache_writer *writer)
{
	size_t at = (size_t)draw(model, MODEL_BYTES - 1);
	size_t len = 1 + (size_t)draw(model, MODEL_BYTES - at);

	assert_int_equal(
		cache_stage_allocate(writer,
				     FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				     at, len),
		0);
	if (at < model->len)
		memset(model->bytes + at, 0,
		       len < model->len - at ? len : model->len - at);
}

static void model_compare(struct model *model, struct cache_writer *writer)
{
	size_t at = (size_t)draw(model, MODEL_BYTES);
	size_t len = (size_t)draw(model, RIG_MIB);
	size_t expected = at >= model->len	  ? 0
			  : len < model->len - at ? len
						  : model->len - at;
	uint8_t *data;

	assert_int_equal(rig_staged(writer, at, len, &data), expected);
	assert_memory_equal(data, model->bytes + at, expected);
	free(data);
}

static void model_reopen(struct model *model, struct rig *rig,
			 struct cache_writer **writer)
{
	uint8_t *data;
	size_t len;

	assert_int_equal(rig_finish(*writer), 0);
	assert_int_equal(rig_get(rig, "page", &data, &len), 0);
	assert_int_equal(len, model->len);
	for (size_t i = 0; i < len; i++)
		if (data[i] != model->bytes[i])
			fail_msg("byte %zu of %zu", i, len);
	free(data);
	if (draw(model, 3) == 0) {
		struct cache_name name = rig_name("page");

		cache_evict(rig->cache, &name);
	}
	*writer =
		rig_writer(rig, "page", draw(model, 2) ? CACHE_STAGE_READ : 0);
}

static void run_model(struct rig *rig, uint64_t seed, int steps)
{
	struct model model = {.random = seed};
	struct cache_writer *writer = rig_create(rig, "page");

	model.bytes = calloc(1, MODEL_BYTES);
	for (int i = 0; i < steps; i++) {
		uint64_t what = draw(&model, 100);

		if (what < 60)
			model_write(&model, writer);
		else if (what < 68)
			model_resize(&model, writer);
		else if (what < 74)
			model_punch(&model, writer);
		else if (what < 92)
			model_compare(&model, writer);
		else if (what < 95)
			assert_int_equal(cache_stage_sync(writer), 0);
		else
			model_reopen(&model, rig, &writer);
	}
	model_reopen(&model, rig, &writer);
	assert_int_equal(rig_finish(writer), 0);
	free(model.bytes);
}

static void any_mix_of_calls_gives_the_bytes_of_a_local_file(void **state)
{
	struct rig *rig = *state;
	int rounds = getenv("PAGEFS_TEST_SHORT") ? 6 : 20;

	for (int i = 0; i < rounds; i++)
		run_model(rig, (uint64_t)i * 7919 + 1, 120);
}

/* Chunks go to buckets and come back, again and again. */
static void so_it_does_where_memory_is_short(void **state)
{
	struct rig *rig = *state;

	for (uint64_t i = 0; i < 4; i++)
		run_model(rig, i * 104729 + 3, 120);
}

static void a_page_is_the_same_after_a_restart(void **state)
{
	struct rig *rig = *state;

	run_model(rig, 42, 100);
	assert_int_equal(rig_put(rig, "other", PAGE, 5), 0);
	rig_close(rig, true);
	rig_open(rig);
	rig_assert_page(rig, "other", PAGE, 5);
	rig_close(rig, false);
	rig_open(rig);
	rig_assert_page(rig, "other", PAGE, 5);
}

/* ---- slots ---- */

static void pages_of_one_size_waste_nothing(void **state)
{
	struct rig *rig = *state;
	struct arena_stats stats;
	char name[16];

	for (int i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "page%d", i);
		assert_int_equal(rig_put(rig, name, PAGE, (unsigned)i), 0);
	}
	arena_get_stats(rig->cache->arena, &stats);
	assert_true(stats.wasted_bytes <= PAGE / 8 * 2);
}

/* What is copied a second time shows in the slots: of the right class from the
 * first request on, although a small file comes between. */
static void a_guess_of_the_size_saves_the_second_copy(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer;
	uint64_t before;

	for (int i = 0; i < 3; i++)
		assert_int_equal(rig_put(rig, "page", PAGE, 1), 0);
	assert_int_equal(rig_put(rig, "small", 4096, 1), 0);
	assert_int_equal(cache_sync(rig->cache), 0);
	before = rig_used(rig);
	writer = rig_create(rig, "next");
	rig_write(writer, 0, RIG_MIB, 1);
	assert_int_equal(rig_used(rig) - before, PAGE);
	for (size_t at = RIG_MIB; at < PAGE;
	     at += PAGE - at < RIG_MIB ? PAGE - at : RIG_MIB)
		rig_write(writer, at, PAGE - at < RIG_MIB ? PAGE - at : RIG_MIB,
			  1);
	assert_int_equal(rig_finish(writer), 0);
	assert_int_equal(rig_used(rig) - before, PAGE);
	rig_assert_page(rig, "next", PAGE, 1);
}

static void small_pieces_grow_the_slot(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page");
	struct arena_stats stats;

	for (size_t at = 0; at < 1500000; at += 5000)
		rig_write(writer, at, 5000, 1);
	assert_int_equal(rig_finish(writer), 0);
	rig_assert_page(rig, "page", 1500000, 1);
	arena_get_stats(rig->cache->arena, &stats);
	assert_true(stats.wasted_bytes <= 1500000 / 8);
}

static void what_was_never_written_reads_as_zeroes(void **state)
{
	struct rig *rig = *state;
	uint8_t *data;
	size_t len;

	/* Slots that held something are used again. */
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(rig_put(rig, "page", PAGE, i), 0);
	for (unsigned i = 0; i < 10; i++) {
		struct cache_writer *writer = rig_create(rig, "page");

		rig_write(writer, 1000, 10, 1);
		rig_write(writer, 3000000, 10, 1);
		assert_int_equal(set_size(writer, PAGE), 0);
		assert_int_equal(rig_finish(writer), 0);
		assert_int_equal(rig_get(rig, "page", &data, &len), 0);
		assert_int_equal(len, PAGE);
		for (size_t at = 0; at < len; at++)
			if ((at < 1000 || at >= 1010) &&
			    (at < 3000000 || at >= 3000010))
				assert_int_equal(data[at], 0);
		free(data);
	}
}

/* ---- sparse and checkpointed pages ---- */

static void a_sparse_page_takes_what_was_written(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page");
	struct meta_entry entry;
	uint8_t *data;

	assert_int_equal(set_size(writer, UINT64_C(1) << 40), 0);
	rig_write(writer, UINT64_C(1) << 39, 5000, 1);
	assert_int_equal(cache_stage_seek(writer, 0, SEEK_DATA), UINT64_C(1)
									 << 39);
	assert_int_equal(
		rig_staged(writer, (UINT64_C(1) << 39) - 10, 20, &data), 20);
	free(data);
	assert_int_equal(rig_finish(writer), 0);
	assert_int_equal(rig_lookup(rig, "page", 0, &entry), 0);
	assert_int_equal(entry.size_bytes, UINT64_C(1) << 40);
	assert_int_equal(entry.chunk_shift, CHUNK_SHIFT_SMALL);
	assert_int_equal(entry.chunks, 1);
	assert_true(entry.stored_bytes <= 1 << CHUNK_SHIFT_SMALL);
}

static void the_length_of_a_sparse_page_costs_nothing(void **state)
{
	const uint64_t size = UINT64_C(1) << 40;
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page");
	uint64_t start = clock_monotonic_ns();
	struct meta_entry entry;

	assert_int_equal(set_size(writer, size), 0);
	rig_write(writer, size / 2, 5000, 1);
	rig_write(writer, size / 2 + RIG_MIB, 5000, 1);
	assert_int_equal(cache_stage_sync(writer), 0);
	assert_int_equal(cache_stage_seek(writer, 5, SEEK_HOLE), 5);
	assert_int_equal(cache_stage_seek(writer, 5, SEEK_DATA), size / 2);
	assert_int_equal(
		cache_stage_seek(writer, (off_t)size / 2 + 7, SEEK_DATA),
		size / 2 + 7);
	assert_int_equal(
		cache_stage_seek(writer, (off_t)size / 2 + 7, SEEK_HOLE),
		size / 2 + 2 * RIG_MIB);
	assert_int_equal(cache_stage_seek(writer,
					  (off_t)(size / 2 + 2 * RIG_MIB),
					  SEEK_DATA),
			 -ENXIO);
	assert_int_equal(set_size(writer, 10), 0);
	assert_int_equal(cache_stage_sync(writer), 0);
	assert_int_equal(set_size(writer, size), 0);
	assert_int_equal(rig_finish(writer), 0);
	assert_int_equal(rig_lookup(rig, "page", 0, &entry), 0);
	assert_int_equal(entry.size_bytes, size);
	assert_true(entry.chunks <= 3);
	assert_true(clock_monotonic_ns() - start < CLOCK_NS_PER_SECOND);
}

static void a_thousand_checkpoints_share_their_chunks(void **state)
{
	const uint64_t size = UINT64_C(10) << 30;
	struct rig *rig = *state;
	struct cache_writer *one = rig_create(rig, "page");
	struct cache_writer *two = rig_writer(rig, "page", CACHE_STAGE_CREATE);
	int rounds = getenv("PAGEFS_TEST_SHORT") ? 200 : 1000;
	uint64_t start = clock_monotonic_ns();
	struct meta_entry entry;
	uint8_t *data;

	assert_int_equal(set_size(one, size), 0);
	for (int i = 0; i < rounds; i++) {
		uint64_t at = (uint64_t)i * 7919 % 100 * (100 * RIG_MIB);

		rig_write(i & 1 ? one : two, at, 8192, (unsigned)i);
		assert_int_equal(cache_stage_sync(two), 0);
	}
	assert_int_equal(rig_lookup(rig, "page", 0, &entry), 0);
	assert_int_equal(entry.size_bytes, size);
	assert_int_equal(entry.chunks, 100);
	/* One row a chunk and tier: what was superseded is gone. */
	assert_true(rig_rows(rig, META_MEMORY, entry.object) <= 100);
	assert_true(rig_rows(rig, META_DISK, entry.object) <= 100);
	assert_int_equal(rig_finish(one), 0);
	assert_int_equal(rig_staged(two, 0, 8192, &data), 8192);
	rig_assert_bytes(data, 0, 8192, (unsigned)rounds - 100);
	free(data);
	assert_int_equal(rig_finish(two), 0);
	print_message("%d checkpoints: %.2f s\n", rounds,
		      (double)(clock_monotonic_ns() - start) / 1e9);
}

static void a_page_written_on_after_a_checkpoint_is_cut_smaller(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page");
	struct meta_entry entry;

	rig_write(writer, 0, PAGE, 1);
	assert_int_equal(cache_stage_sync(writer), 0);
	assert_int_equal(rig_lookup(rig, "page", 0, &entry), 0);
	assert_int_equal(entry.chunks, 1);
	rig_write(writer, PAGE, 10000, 1);
	assert_int_equal(cache_stage_sync(writer), 0);
	assert_int_equal(rig_lookup(rig, "page", 0, &entry), 0);
	assert_int_equal(entry.chunk_shift, CHUNK_SHIFT_SMALL);
	assert_int_equal(entry.chunks, 4);
	assert_int_equal(rig_finish(writer), 0);
	rig_assert_page(rig, "page", PAGE + 10000, 1);
}

static void a_page_cut_short_and_grown_again_has_zeroes_there(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer;
	uint8_t *data;
	size_t len;

	/* Two chunks and more, whatever the arena's largest is. */
	assert_int_equal(rig_put(rig, "page", 20 * RIG_MIB, 1), 0);
	writer = rig_writer(rig, "page", 0);
	assert_int_equal(set_size(writer, RIG_MIB), 0);
	assert_int_equal(rig_finish(writer), 0);
	rig_assert_page(rig, "page", RIG_MIB, 1);
	writer = rig_writer(rig, "page", 0);
	assert_int_equal(set_size(writer, 18 * RIG_MIB), 0);
	assert_int_equal(rig_finish(writer), 0);
	assert_int_equal(rig_get(rig, "page", &data, &len), 0);
	assert_int_equal(len, 18 * RIG_MIB);
	rig_assert_bytes(data, 0, RIG_MIB, 1);
	for (size_t at = RIG_MIB; at < len; at++)
		assert_int_equal(data[at], 0);
	free(data);
}

/* ---- larger than memory ---- */

static void a_page_larger_than_memory_is_spilled(void **state)
{
	struct rig *rig = *state;
	const uint64_t size = 150 * RIG_MIB + 12345;
	struct meta_entry entry;

	assert_int_equal(rig_put(rig, "page", size, 1), 0);
	assert_int_equal(rig_lookup(rig, "page", 0, &entry), 0);
	assert_int_equal(entry.size_bytes, size);
	rig_assert_page(rig, "page", size, 1);
}

static void spilled_chunks_can_be_read_and_written_again(void **state)
{
	struct rig *rig = *state;
	const uint64_t size = 100 * RIG_MIB;
	struct cache_writer *writer = rig_create(rig, "page");
	uint8_t *data;
	size_t len;

	for (uint64_t at = 0; at < size; at += RIG_MIB)
		rig_write(writer, at, RIG_MIB, 1);
	assert_int_equal(rig_staged(writer, 1000, 5000, &data), 5000);
	rig_assert_bytes(data, 1000, 5000, 1);
	free(data);
	rig_write(writer, 2000, 3000, 2);
	assert_int_equal(rig_finish(writer), 0);
	assert_int_equal(rig_get(rig, "page", &data, &len), 0);
	assert_int_equal(len, size);
	rig_assert_bytes(data, 0, 2000, 1);
	rig_assert_bytes(data + 2000, 2000, 3000, 2);
	rig_assert_bytes(data + 5000, 5000, size - 5000, 1);
	free(data);
}

static void a_spilled_page_of_a_killed_writer_is_forgotten(void **state)
{
	struct rig *rig = *state;
	struct cache_writer *writer = rig_create(rig, "page");
	struct buckets_stats stats;
	bool committed;

	for (uint64_t at = 0; at < 60 * RIG_MIB; at += RIG_MIB)
		rig_write(writer, at, RIG_MIB, 1);
	buckets_get_stats(rig->cache->buckets, &stats);
	assert_true(stats.live_bytes > 0);
	assert_int_equal(cache_stage_flush(writer, true, &committed), 0);
	rig_release(writer);
	buckets_get_stats(rig->cache->buckets, &stats);
	assert_int_equal(stats.live_bytes, 0);
}

#define ON_RIG(test)                                                           \
	cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)

#define ON_LARGE_RIG(test)                                                     \
	cmocka_unit_test_setup_teardown(test, rig_setup_large, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_RIG(any_mix_of_calls_gives_the_bytes_of_a_local_file),
		cmocka_unit_test_setup_teardown(
			so_it_does_where_memory_is_short, rig_setup_small,
			rig_teardown),
		ON_RIG(a_page_is_the_same_after_a_restart),
		ON_LARGE_RIG(pages_of_one_size_waste_nothing),
		ON_LARGE_RIG(a_guess_of_the_size_saves_the_second_copy),
		ON_LARGE_RIG(small_pieces_grow_the_slot),
		ON_RIG(what_was_never_written_reads_as_zeroes),
		ON_LARGE_RIG(a_sparse_page_takes_what_was_written),
		ON_LARGE_RIG(the_length_of_a_sparse_page_costs_nothing),
		ON_LARGE_RIG(a_thousand_checkpoints_share_their_chunks),
		ON_LARGE_RIG(
			a_page_written_on_after_a_checkpoint_is_cut_smaller),
		ON_RIG(a_page_cut_short_and_grown_again_has_zeroes_there),
		ON_RIG(a_page_larger_than_memory_is_spilled),
		ON_RIG(spilled_chunks_can_be_read_and_written_again),
		ON_RIG(a_spilled_page_of_a_killed_writer_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
