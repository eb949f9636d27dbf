/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/checksum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Three whole blocks and a bit. */
#define LEN (3 * CHECKSUM_BLOCK_BYTES + 100)

static int set_up(void **state)
{
	unsigned char *data = malloc(LEN);

	if (!data)
		return -1;
	for (size_t i = 0; i < LEN; i++)
		data[i] = (unsigned char)(i * 31 + i / 251);
	*state = data;
	return 0;
}

static int tear_down(void **state)
{
	free(*state);
	return 0;
}

/* They stand in files and go over the wire: they may never change. */
static void values_are_those_of_the_formats(void **state)
{
	uint64_t id[2];

	(void)state;
	assert_true(checksum_bytes("", 0, 0) == UINT64_C(0x2d06800538d394c2));
	assert_true(checksum_bytes("pagefs", 6, 1) ==
		    UINT64_C(0x389f084d6b00628d));
	checksum_key("a/key", 5, id);
	assert_true(id[0] == UINT64_C(0x49fb7d6be706a8ae));
	assert_true(id[1] == UINT64_C(0x09b1cb139d05cfb1));
}

static void blocks_are_counted_up(void **state)
{
	(void)state;
	assert_int_equal(checksum_block_count(0), 0);
	assert_int_equal(checksum_block_count(1), 1);
	assert_int_equal(checksum_block_count(CHECKSUM_BLOCK_BYTES), 1);
	assert_int_equal(checksum_block_count(CHECKSUM_BLOCK_BYTES + 1), 2);
	assert_int_equal(checksum_block_count(LEN), 4);
	assert_int_equal(checksum_block_count(UINT64_MAX), UINT64_C(1) << 46);
}

static void a_block_is_the_checksum_of_its_bytes_with_its_seed(void **state)
{
	const unsigned char *data = *state;
	uint64_t sums[4];

	checksum_blocks(data, LEN, 9, sums);
	for (size_t i = 0; i < 3; i++)
		assert_true(sums[i] ==
			    checksum_bytes(data + i * CHECKSUM_BLOCK_BYTES,
					   CHECKSUM_BLOCK_BYTES, 9 + i));
	assert_true(sums[3] ==
		    checksum_bytes(data + 3 * CHECKSUM_BLOCK_BYTES, 100, 12));
}

static void a_flipped_bit_is_found_in_its_block(void **state)
{
	unsigned char *data = *state;
	uint64_t sums[4];

	checksum_blocks(data, LEN, 9, sums);
	assert_true(checksum_verify(data, LEN, 9, sums) == SIZE_MAX);
	for (size_t i = 0; i < 4; i++) {
		size_t at = i * CHECKSUM_BLOCK_BYTES + 77;

		data[at] ^= 4;
		assert_int_equal(checksum_verify(data, LEN, 9, sums), i);
		data[at] ^= 4;
	}
	assert_int_equal(checksum_verify(data, LEN - 1, 9, sums), 3);
	assert_int_equal(checksum_verify(data, LEN, 8, sums), 0);
	assert_true(checksum_verify(data, 0, 9, NULL) == SIZE_MAX);
}

static void equal_blocks_that_changed_places_are_found(void **state)
{
	unsigned char *data = *state;
	uint64_t sums[2], swapped[2];

	memset(data, 7, 2 * CHECKSUM_BLOCK_BYTES);
	checksum_blocks(data, 2 * CHECKSUM_BLOCK_BYTES, 0, sums);
	swapped[0] = sums[1];
	swapped[1] = sums[0];
	assert_int_equal(
		checksum_verify(data, 2 * CHECKSUM_BLOCK_BYTES, 0, swapped), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(values_are_those_of_the_formats),
		TEST(blocks_are_counted_up),
		TEST(a_block_is_the_checksum_of_its_bytes_with_its_seed),
		TEST(a_flipped_bit_is_found_in_its_block),
		TEST(equal_blocks_that_changed_places_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
