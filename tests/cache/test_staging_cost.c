/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/clock.h"

#define PAGE ((size_t)3670016)
#define PAGES 64
#define ROUNDS 5

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double median_us(uint64_t *ns, size_t count)
{
	qsort(ns, count, sizeof(*ns), compare);
	return (double)ns[count / 2] / 1e3;
}

/* create, write in requests of 1 MiB, flush, close. */
static uint64_t write_page(struct rig *rig, const char *name, uint8_t *data)
{
	uint64_t start = clock_monotonic_ns();
	struct cache_writer *writer = rig_create(rig, name);

	for (size_t at = 0; at < PAGE; at += RIG_MIB) {
		uint64_t offset = at;
		size_t len = PAGE - at < RIG_MIB ? PAGE - at : RIG_MIB;

		assert_int_equal(
			cache_stage_write(writer, data + at, len, &offset),
			len);
	}
	assert_int_equal(rig_finish(writer), 0);
	return clock_monotonic_ns() - start;
}

static double memcpy_us(const uint8_t *data)
{
	uint8_t *pool = malloc(PAGES * PAGE);
	uint64_t ns[PAGES];

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < PAGES; i++) {
			uint64_t start = clock_monotonic_ns();

			memcpy(pool + i * PAGE, data, PAGE);
			ns[i] = clock_monotonic_ns() - start;
		}
	}
	free(pool);
	return median_us(ns, PAGES);
}

/* What the daemon adds to the copy of the bytes: checksums and one
 * transaction.  The bound is far off; the figure is what one looks at. */
static void
writing_a_page_costs_a_copy_a_checksum_and_a_transaction(void **state)
{
	struct rig *rig = *state;
	uint8_t *data = malloc(PAGE);
	uint64_t ns[PAGES];
	double copy_us, page_us = 0;

	rig_fill(data, 0, PAGE, 1);
	copy_us = memcpy_us(data);
	/* The first rounds touch the slots for the first time. */
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < PAGES; i++) {
			char name[16];

			snprintf(name, sizeof(name), "page%d", i);
			ns[i] = write_page(rig, name, data);
		}
		page_us = median_us(ns, PAGES);
		print_message("round %d: %.0f us a page\n", round, page_us);
		cache_sync(rig->cache);
	}
	print_message("3.5 MiB: %.0f us a page, memcpy %.0f us\n", page_us,
		      copy_us);
	assert_true(page_us < 20 * copy_us + 5000);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			writing_a_page_costs_a_copy_a_checksum_and_a_transaction,
			rig_setup_large, rig_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
