/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/meta/scratch.h"

/* A model of the name space in RAM, beside which the index must agree after
 * any sequence of changes, commits, aborts and restarts. */
#define NAMES 64
#define DIRS 3

struct model {
	struct meta_entry names[DIRS][NAMES]; /* object 0: none */
};

static size_t name_of(char *ret, unsigned n)
{
	return (size_t)sprintf(ret, "name-%u", n);
}

static struct meta_totals totals_of(const struct model *model)
{
	struct meta_totals totals = {0};

	for (unsigned d = 0; d < DIRS; d++) {
		for (unsigned n = 0; n < NAMES; n++) {
			const struct meta_entry *entry = &model->names[d][n];

			if (entry->object == 0 || entry->object == META_ROOT)
				continue;
			totals.pages += entry->type == META_FILE;
			totals.directories += entry->type == META_DIR;
			totals.symlinks += entry->type == META_SYMLINK;
			totals.logical_bytes += entry->stored_bytes;
		}
	}
	return totals;
}

static void totals_agree(struct meta_txn *txn, const struct model *model)
{
	struct meta_totals want = totals_of(model), got;

	assert_int_equal(meta_get_totals(txn, &got), 0);
	assert_memory_equal(&got, &want, sizeof(got));
}

static void change_once(struct meta_txn *txn, struct model *model,
			uint64_t *random)
{
	unsigned d = scratch_random(random) % DIRS;
	unsigned n = scratch_random(random) % NAMES;
	struct meta_entry *at = &model->names[d][n];
	char name[32];
	size_t len = name_of(name, n);

	if (scratch_random(random) % 3 == 0) {
		int rc = meta_name_del(txn, d + 1, name, len);

		assert_int_equal(rc, at->object == 0 ? META_ABSENT : 0);
		at->object = 0;
		return;
	}
	*at = scratch_entry(scratch_random(random) % 1000 + 1, 1);
	at->type = (enum meta_type)(scratch_random(random) % 3 + 1);
	at->stored_bytes = scratch_random(random) % 100000;
	assert_int_equal(meta_name_put(txn, d + 1, name, len, at), 0);
}

static void the_totals_agree_with_a_model_after_any_changes(void **state)
{
	struct scratch *s = *state;
	struct model model = {0}, before;
	uint64_t random = 42;

	scratch_open(s);
	for (int round = 0; round < 400; round++) {
		struct meta_txn *txn = scratch_write(s);
		unsigned changes = scratch_random(&random) % 40;

		before = model;
		while (changes-- > 0)
			change_once(txn, &model, &random);
		totals_agree(txn, &model);
		if (scratch_random(&random) % 4 == 0) {
			meta_abort(txn);
			model = before;
		} else {
			scratch_commit(txn);
		}
		if (round % 100 == 99) {
			scratch_close(s);
			assert_int_equal(scratch_open(s), 0);
		}
		txn = scratch_read(s);
		totals_agree(txn, &model);
		meta_abort(txn);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			the_totals_agree_with_a_model_after_any_changes,
			scratch_setup, scratch_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
