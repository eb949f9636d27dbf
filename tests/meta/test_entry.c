/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "meta/meta.h"
#include "meta/row.h"
#include "tests/meta/scratch.h"

static void an_entry_survives_its_encoding(void **state)
{
	struct meta_entry entry = scratch_entry(77, 123456789), got;
	uint8_t bytes[META_ENTRY_BYTES], again[META_ENTRY_BYTES];

	(void)state;
	entry.flags = META_ON_DISK;
	entry.mode = 07777;
	entry.size_bytes = PAGE_MAX_BYTES;
	entry.atime_ns = -1;
	meta_entry_encode(&entry, bytes);
	assert_int_equal(meta_entry_decode(bytes, sizeof(bytes), &got), 0);
	meta_entry_encode(&got, again);
	assert_memory_equal(bytes, again, sizeof(bytes));
	assert_int_equal(got.object, 77);
	assert_int_equal(got.version.node, 7);
	assert_int_equal(got.atime_ns, -1);
	assert_int_equal(got.successor, 78);
}

static void an_entry_survives_its_packing(void **state)
{
	struct meta_entry entries[4];
	uint8_t row[ENTRY_ROW_MAX], want[META_ENTRY_BYTES],
		bytes[META_ENTRY_BYTES];
	struct meta_entry got;

	(void)state;
	entries[0] = scratch_entry(77, UINT64_C(1700000000000) << 16);
	entries[1] = scratch_entry(1, UINT64_MAX);
	entries[1].atime_ns = INT64_MIN;
	entries[1].mtime_ns = INT64_MAX;
	entries[1].ctime_ns = -1;
	entries[1].uid = entries[1].gid = UINT32_MAX;
	entries[1].chunks = UINT32_MAX;
	entries[1].successor = UINT64_MAX;
	entries[1].stored_bytes = PAGE_MAX_BYTES;
	entries[1].size_bytes = 0;
	entries[1].version.node = UINT64_MAX;
	entries[2] = scratch_entry(UINT64_MAX, 0);
	entries[2].successor = 0;
	entries[2].size_bytes = PAGE_MAX_BYTES;
	entries[2].stored_bytes = 0;
	entries[3] = (struct meta_entry){.type = META_DIR, .object = 1};
	for (size_t i = 0; i < 4; i++) {
		size_t len = entry_row_encode(&entries[i], row);

		assert_in_range(len, 1, sizeof(row));
		if (i == 0)
			assert_in_range(len, 1, 42);
		assert_int_equal(entry_row_decode(row, len, &got), 0);
		meta_entry_encode(&entries[i], want);
		meta_entry_encode(&got, bytes);
		assert_memory_equal(bytes, want, sizeof(want));
		for (size_t cut = 0; cut < len; cut++)
			assert_int_equal(entry_row_decode(row, cut, &got),
					 -EBADMSG);
		row[len] = 0;
		assert_int_equal(entry_row_decode(row, len + 1, &got),
				 -EBADMSG);
	}
}

static void an_entry_that_cannot_be_is_refused(void **state)
{
	static const struct {
		size_t offset;
		uint8_t value;
		const char *why;
	} rows[] = {
		{0, 2, "a version of later"},
		{1, 0, "no type"},
		{1, 4, "an unknown type"},
		{2, 27, "chunks of 128 MiB"},
		{3, 1, "a reserved byte"},
		{5, 0x80, "mode bits that tell the type"},
		{19, 1, "an unknown flag"},
		{55, 1, "larger than a page can be"},
		{63, 1, "stores more than a page can be"},
		{103, 1, "reserved bytes at the end"},
	};
	struct meta_entry entry = scratch_entry(1, 1), got;
	uint8_t bytes[META_ENTRY_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		meta_entry_encode(&entry, bytes);
		bytes[rows[i].offset] = rows[i].value;
		if (meta_entry_decode(bytes, sizeof(bytes), &got) != -EBADMSG)
			fail_msg("taken: %s", rows[i].why);
	}
	meta_entry_encode(&entry, bytes);
	bytes[24] = 0; /* object 0 */
	assert_int_equal(meta_entry_decode(bytes, sizeof(bytes), &got),
			 -EBADMSG);
	assert_int_equal(meta_entry_decode(bytes, sizeof(bytes) - 1, &got),
			 -EBADMSG);
}

/* ---- facts ---- */

static size_t xattrs_make(uint8_t *bytes)
{
	struct meta_xattr a = {.name = "user.a",
			       .name_bytes = 6,
			       .value = "one",
			       .value_bytes = 3};
	struct meta_xattr b = {.name = "user.b", .name_bytes = 6};
	size_t len = meta_xattr_encode(&a, bytes);

	assert_int_equal(len, meta_xattr_bytes(&a));
	return len + meta_xattr_encode(&b, bytes + len);
}

static void facts_of_each_kind_survive_their_encoding(void **state)
{
	uint8_t xattrs[64], bytes[1024];
	size_t xattrs_bytes = xattrs_make(xattrs);
	struct meta_fact facts[] = {
		{.kind = META_FACT_SET,
		 .key = "dir/page",
		 .key_bytes = 8,
		 .xattrs = xattrs,
		 .xattrs_bytes = xattrs_bytes},
		{.kind = META_FACT_SET,
		 .key = "link",
		 .key_bytes = 4,
		 .target = "/elsewhere",
		 .target_bytes = 10},
		{.kind = META_FACT_SET}, /* the root */
		{.kind = META_FACT_GONE, .key = "a\xff b", .key_bytes = 4},
		{.kind = META_FACT_MOVED,
		 .key = "a",
		 .key_bytes = 1,
		 .to_key = "b/..c/...",
		 .to_key_bytes = 9},
	};
	size_t count = sizeof(facts) / sizeof(facts[0]), len = 0, at = 0;

	(void)state;
	for (size_t i = 0; i < count; i++) {
		facts[i].at.clock = 100 + i;
		facts[i].at.node = 9;
		facts[i].entry = scratch_entry(i + 1, 100 + i);
	}
	facts[1].entry.type = META_SYMLINK;
	facts[2].entry.type = META_DIR;
	for (size_t i = 0; i < count; i++) {
		size_t put = meta_fact_encode(&facts[i], bytes + len);

		assert_int_equal(put, meta_fact_bytes(&facts[i]));
		len += put;
	}
	for (size_t i = 0; i < count; i++) {
		struct meta_fact got;
		size_t used;

		assert_int_equal(
			meta_fact_decode(bytes + at, len - at, &got, &used), 0);
		at += used;
		assert_int_equal(got.kind, facts[i].kind);
		assert_int_equal(got.at.clock, 100 + i);
		assert_int_equal(got.key_bytes, facts[i].key_bytes);
		if (got.key_bytes > 0)
			assert_memory_equal(got.key, facts[i].key,
					    got.key_bytes);
		assert_int_equal(got.to_key_bytes, facts[i].to_key_bytes);
		assert_int_equal(got.target_bytes, facts[i].target_bytes);
		assert_int_equal(got.xattrs_bytes, facts[i].xattrs_bytes);
		if (got.kind == META_FACT_SET)
			assert_int_equal(got.entry.object, i + 1);
	}
	assert_int_equal(at, len);
}

static void xattrs_are_walked_to_their_end(void **state)
{
	uint8_t bytes[64];
	size_t len = xattrs_make(bytes), offset = 0;
	struct meta_xattr xattr;

	(void)state;
	assert_int_equal(meta_xattr_next(bytes, len, &offset, &xattr), 1);
	assert_int_equal(xattr.value_bytes, 3);
	assert_memory_equal(xattr.value, "one", 3);
	assert_int_equal(meta_xattr_next(bytes, len, &offset, &xattr), 1);
	assert_memory_equal(xattr.name, "user.b", 6);
	assert_int_equal(xattr.value_bytes, 0);
	assert_int_equal(meta_xattr_next(bytes, len, &offset, &xattr), 0);
	for (size_t cut = 1; cut < len; cut++) {
		int rc;

		offset = 0;
		while ((rc = meta_xattr_next(bytes, cut, &offset, &xattr)) > 0)
			;
		assert_int_equal(rc,
				 cut == 17 ? 0 : -EBADMSG); /* the first one */
	}
}

static void keys_that_lead_elsewhere_are_refused(void **state)
{
	static const struct {
		const char *key;
		size_t len;
	} rows[] = {{"", 0},   {"/a", 2},     {"a/", 2},  {"a//b", 4}, {".", 1},
		    {"..", 2}, {"a/../b", 6}, {"a/.", 3}, {"a\0b", 3}};
	uint8_t bytes[256];
	struct meta_fact got;
	size_t used;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct meta_fact fact = {.kind = META_FACT_GONE,
					 .key = rows[i].key,
					 .key_bytes = rows[i].len};
		size_t len = meta_fact_encode(&fact, bytes);

		assert_int_equal(meta_fact_decode(bytes, len, &got, &used),
				 -EBADMSG);
	}
}

static void a_fact_cut_short_anywhere_is_refused(void **state)
{
	struct meta_fact fact = {.kind = META_FACT_SET,
				 .key = "key",
				 .key_bytes = 3,
				 .entry = scratch_entry(1, 1)};
	uint8_t bytes[256];
	size_t len = meta_fact_encode(&fact, bytes), used;
	struct meta_fact got;

	(void)state;
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(meta_fact_decode(bytes, cut, &got, &used),
				 -EBADMSG);
	assert_int_equal(meta_fact_decode(bytes, len, &got, &used), 0);
}

/* ---- the clock ---- */

static void the_clock_never_runs_backwards(void **state)
{
	static const uint64_t walls_ms[] = {1000, 1000, 999, 5, 2000, 0, 2000};
	struct hlc hlc;
	uint64_t last = 0;

	(void)state;
	hlc_init(&hlc, 4, 0);
	for (size_t i = 0; i < sizeof(walls_ms) / sizeof(walls_ms[0]); i++) {
		struct page_version v = hlc_next(&hlc, walls_ms[i]);

		assert_true(v.clock > last);
		assert_true(v.clock >= walls_ms[i] << 16);
		assert_int_equal(v.node, 4);
		last = v.clock;
	}
	hlc_init(&hlc, 4, last);
	assert_true(hlc_next(&hlc, 1).clock > last);
}

static void a_clock_too_far_ahead_is_refused(void **state)
{
	struct hlc hlc;
	uint64_t now_ms = 1000000;

	(void)state;
	hlc_init(&hlc, 1, 0);
	assert_int_equal(
		hlc_merge(&hlc, (now_ms + HLC_MAX_AHEAD_MS) << 16, now_ms), 0);
	assert_true(hlc_next(&hlc, now_ms).clock > (now_ms + HLC_MAX_AHEAD_MS)
							   << 16);
	assert_int_equal(
		hlc_merge(&hlc, (now_ms + HLC_MAX_AHEAD_MS + 1) << 16, now_ms),
		-ERANGE);
	assert_int_equal(hlc_merge(&hlc, 5, now_ms), 0);
	assert_true(hlc_next(&hlc, now_ms).clock > (now_ms + HLC_MAX_AHEAD_MS)
							   << 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_entry_survives_its_encoding),
		cmocka_unit_test(an_entry_survives_its_packing),
		cmocka_unit_test(an_entry_that_cannot_be_is_refused),
		cmocka_unit_test(facts_of_each_kind_survive_their_encoding),
		cmocka_unit_test(xattrs_are_walked_to_their_end),
		cmocka_unit_test(keys_that_lead_elsewhere_are_refused),
		cmocka_unit_test(a_fact_cut_short_anywhere_is_refused),
		cmocka_unit_test(the_clock_never_runs_backwards),
		cmocka_unit_test(a_clock_too_far_ahead_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
