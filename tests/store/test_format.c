/* SPDX-License-Identifier: Apache-2.0 */
#include "store/format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct format_position position = {
	.bucket = 3, .block = 5, .durable_block = 4, .salt = 99};

static struct bucket_record sample(const uint64_t *sums)
{
	return (struct bucket_record){
		.kind = BUCKET_CHUNK,
		.id = {.object = 11,
		       .index = 2,
		       .version = {.clock = 77, .node = 8}},
		.key = "a/key",
		.key_bytes = 5,
		.checksums = sums,
		.extra = "extra",
		.extra_bytes = 5,
		.len_bytes = 300000,
	};
}

static void a_record_comes_back_as_it_was(void **state)
{
	static unsigned char header[FORMAT_HEADER_MAX];
	static struct format_record found;
	uint64_t sums[] = {1234, 5678};
	struct bucket_record record = sample(sums);
	size_t need;

	(void)state;
	assert_int_equal(format_header_bytes(&record), BLOCK_BYTES);
	format_encode_record(&record, &position, header);
	assert_int_equal(record.place.bucket, 3);
	assert_int_equal(record.place.data_block, 6);
	assert_int_equal(
		format_decode_record(header, BLOCK_BYTES, 3, 5, &found, &need),
		0);
	assert_true(chunk_id_equal(&found.record.id, &record.id));
	assert_int_equal(found.record.key_bytes, 5);
	assert_memory_equal(found.record.key, "a/key", 5);
	assert_memory_equal(found.record.extra, "extra", 5);
	assert_int_equal(found.record.len_bytes, 300000);
	assert_int_equal(found.record.checksums[1], 5678);
	assert_int_equal(found.durable_block, 4);
	assert_int_equal(found.salt, 99);
}

static void a_record_verifies_in_its_own_place_only(void **state)
{
	static unsigned char header[FORMAT_HEADER_MAX];
	static struct format_record found;
	uint64_t sums[] = {1234, 5678};
	struct bucket_record record = sample(sums);
	size_t need;

	(void)state;
	format_encode_record(&record, &position, header);
	assert_int_equal(
		format_decode_record(header, BLOCK_BYTES, 3, 6, &found, &need),
		FORMAT_DAMAGED);
	assert_int_equal(
		format_decode_record(header, BLOCK_BYTES, 4, 5, &found, &need),
		FORMAT_DAMAGED);
}

static void each_flipped_bit_of_a_header_is_noticed(void **state)
{
	static unsigned char header[FORMAT_HEADER_MAX];
	static struct format_record found;
	uint64_t sums[] = {1234, 5678};
	struct bucket_record record = sample(sums);
	size_t need;

	(void)state;
	format_encode_record(&record, &position, header);
	for (size_t bit = 0; bit < BLOCK_BYTES * 8; bit++) {
		header[bit / 8] ^= (unsigned char)(1 << bit % 8);
		assert_int_not_equal(format_decode_record(header, BLOCK_BYTES,
							  3, 5, &found, &need),
				     0);
		header[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
}

static void the_longest_header_fits_and_asks_for_what_it_needs(void **state)
{
	static unsigned char header[FORMAT_HEADER_MAX];
	static char key[KEY_MAX_BYTES], extra[FORMAT_EXTRA_MAX];
	static uint64_t sums[FORMAT_CHECKSUMS_MAX];
	static struct format_record found;
	struct bucket_record record = {.kind = BUCKET_CHUNK,
				       .key = key,
				       .key_bytes = sizeof(key),
				       .extra = extra,
				       .extra_bytes = sizeof(extra),
				       .checksums = sums,
				       .len_bytes = FORMAT_CHUNK_MAX};
	size_t need = 0;

	(void)state;
	assert_int_equal(format_header_bytes(&record), FORMAT_HEADER_MAX);
	format_encode_record(&record, &position, header);
	assert_int_equal(
		format_decode_record(header, BLOCK_BYTES, 3, 5, &found, &need),
		FORMAT_SHORT);
	assert_int_equal(need, FORMAT_HEADER_MAX);
	assert_int_equal(
		format_decode_record(header, need, 3, 5, &found, &need), 0);
}

static void an_entry_of_the_index_says_what_the_header_said(void **state)
{
	static unsigned char header[FORMAT_HEADER_MAX], entry[8192];
	static struct format_record found;
	uint64_t sums[] = {1234, 5678};
	struct bucket_record record = sample(sums);
	size_t len;

	(void)state;
	format_encode_record(&record, &position, header);
	format_encode_entry(header, 5, entry);
	assert_int_equal(
		format_decode_entry(entry, sizeof(entry), 3, 80, &found, &len),
		0);
	assert_int_equal(len, format_entry_bytes(&record));
	assert_true(len % 8 == 0 && len < 200);
	assert_memory_equal(found.record.key, "a/key", 5);
	assert_int_equal(found.record.place.data_block, 6);
	/* 5 + 1 + 74 blocks: it has to end before the index. */
	assert_int_equal(
		format_decode_entry(entry, sizeof(entry), 3, 79, &found, &len),
		FORMAT_DAMAGED);
	assert_int_equal(
		format_decode_entry(entry, len - 1, 3, 80, &found, &len),
		FORMAT_DAMAGED);
}

static void a_trailer_and_a_superblock_come_back_unless_damaged(void **state)
{
	struct format_trailer trailer = {.bucket = 9,
					 .index_block = 100,
					 .entry_count = 5,
					 .index_bytes = 900,
					 .index_check = 1,
					 .salt = 2};
	struct format_superblock superblock = {
		.next_bucket = 4, .node = 5, .created_ns = 6};
	struct format_trailer trailer_back;
	struct format_superblock superblock_back;
	unsigned char block[BLOCK_BYTES];

	(void)state;
	format_encode_trailer(&trailer, block);
	assert_int_equal(
		format_decode_trailer(block, BLOCK_BYTES, 9, &trailer_back), 0);
	assert_int_equal(trailer_back.bucket, 9);
	assert_int_equal(trailer_back.index_block, 100);
	assert_int_equal(trailer_back.entry_count, 5);
	assert_int_equal(trailer_back.index_bytes, 900);
	assert_int_equal(trailer_back.index_check, 1);
	assert_int_equal(trailer_back.salt, 2);
	assert_int_not_equal(
		format_decode_trailer(block, BLOCK_BYTES, 8, &trailer_back), 0);
	block[4000] ^= 1;
	assert_int_equal(
		format_decode_trailer(block, BLOCK_BYTES, 9, &trailer_back),
		FORMAT_DAMAGED);

	format_encode_superblock(&superblock, block);
	assert_int_equal(
		format_decode_superblock(block, BLOCK_BYTES, &superblock_back),
		0);
	assert_int_equal(superblock_back.version, FORMAT_VERSION);
	assert_int_equal(superblock_back.next_bucket, 4);
	assert_int_equal(superblock_back.node, 5);
	assert_int_equal(superblock_back.created_ns, 6);
	block[30] ^= 1;
	assert_int_equal(
		format_decode_superblock(block, BLOCK_BYTES, &superblock_back),
		FORMAT_DAMAGED);
	assert_int_equal(format_decode_superblock(block, 10, &superblock_back),
			 FORMAT_DAMAGED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_comes_back_as_it_was),
		cmocka_unit_test(a_record_verifies_in_its_own_place_only),
		cmocka_unit_test(each_flipped_bit_of_a_header_is_noticed),
		cmocka_unit_test(
			the_longest_header_fits_and_asks_for_what_it_needs),
		cmocka_unit_test(
			an_entry_of_the_index_says_what_the_header_said),
		cmocka_unit_test(
			a_trailer_and_a_superblock_come_back_unless_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
