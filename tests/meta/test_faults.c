/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "meta/internal.h"
#include "tests/meta/scratch.h"
#include "tools/lib/fault.h"

/* ---- what must hold after anything ---- */

struct audit {
	struct meta_txn *txn;
	uint64_t objects;
	uint64_t names;
};

static int audit_name(void *arg, uint64_t hash, const char *name, size_t len,
		      const struct meta_entry *entry)
{
	struct audit *audit = arg;
	struct meta_object row;

	(void)name;
	(void)len;
	assert_int_equal(meta_object_get(audit->txn, entry->object, &row), 0);
	assert_int_equal(row.hash, hash);
	audit->names++;
	return 0;
}

static int audit_object(void *arg, const MDB_val *key, const MDB_val *value)
{
	struct audit *audit = arg;
	char name[NAME_MAX_BYTES + 1];
	struct meta_entry entry;
	uint64_t object = 0, dir;
	size_t len;

	(void)value;
	for (int i = 0; i < 8; i++)
		object = object << 8 | ((const uint8_t *)key->mv_data)[i];
	assert_int_equal(
		meta_object_name(audit->txn, object, &dir, name, &len, &entry),
		0);
	audit->objects++;
	return 0;
}

/* Names and objects lead to each other, and the totals are theirs. */
static uint64_t index_is_consistent(struct scratch *s)
{
	struct audit audit = {.txn = scratch_read(s)};
	struct meta_totals totals;

	assert_int_equal(
		meta_list(audit.txn, META_ROOT, 0, NULL, 0, audit_name, &audit),
		0);
	assert_int_equal(db_each(audit.txn, s->meta->home, TABLE_OBJECTS, NULL,
				 0, 0, audit_object, &audit),
			 0);
	assert_int_equal(meta_get_totals(audit.txn, &totals), 0);
	meta_abort(audit.txn);
	assert_int_equal(audit.names, audit.objects);
	assert_int_equal(totals.pages, audit.names);
	assert_int_equal(totals.logical_bytes, audit.names * 65536);
	return audit.names;
}

/* ---- the n-th call fails ---- */

/* What a put does, and an overwrite: the first error, or that of commit. */
static int put_page(struct meta_txn *txn, const char *name, uint64_t object)
{
	struct meta_entry entry = scratch_entry(object, object);
	struct meta_object row = {
		.dir = META_ROOT,
		.hash = meta_name_hash(name, strlen(name)),
		.links = 1,
	};
	uint64_t check = 1;
	struct meta_chunk chunk = {
		.id = {.object = object, .version = entry.version},
		.len_bytes = 65536,
		.checksums = &check,
	};
	struct meta_pending pending = {
		.clock = object, .kind = META_PENDING_PAGE, .object = object};
	struct chunk_id none = {.object = 1};
	int rc = meta_name_put(txn, META_ROOT, name, strlen(name), &entry);

	if (rc >= 0)
		rc = meta_object_put(txn, object, &row);
	if (rc >= 0)
		rc = meta_chunk_put(txn, META_MEMORY, &chunk);
	if (rc >= 0)
		rc = meta_chunk_put(txn, META_DISK, &chunk);
	if (rc >= 0)
		rc = meta_pending_put(txn, &pending);
	if (rc >= 0)
		rc = meta_attr_put(txn, object, "user.a", 6, "v", 1);
	if (rc >= 0)
		rc = meta_attr_copy(txn, object, object + 1);
	if (rc >= 0)
		rc = meta_attr_del_all(txn, object + 1);
	if (rc >= 0)
		rc = meta_chunk_del(txn, META_DISK, &none);
	return rc;
}

static int put_and_commit(struct scratch *s, bool ignore)
{
	struct meta_txn *txn;
	int rc = meta_begin_write(s->meta, &txn);

	if (rc < 0)
		return rc;
	rc = put_page(txn, "page", 5);
	if (rc < 0 && !ignore) {
		meta_abort(txn);
		return rc;
	}
	return meta_commit(txn);
}

static void a_failing_call_leaves_nothing_and_the_next_try_works(void **state)
{
	static const char *const points[] = {"meta.begin", "meta.put",
					     "meta.del", "meta.cursor",
					     "meta.commit"};
	struct scratch *s = *state;
	struct meta_entry entry;
	struct meta_txn *txn;

	assert_int_equal(scratch_open(s), META_REBUILD);
	for (size_t p = 0; p < sizeof(points) / sizeof(points[0]); p++) {
		for (int ignore = 0; ignore < 2; ignore++) {
			uint64_t n;

			for (n = 1;; n++) {
				int rc;

				assert_int_equal(
					fault_arm(points[p], n, ENOSPC), 0);
				rc = put_and_commit(s, ignore == 1);
				fault_disarm_all();
				if (rc == 0)
					break;
				assert_int_equal(rc, -ENOSPC);
				assert_int_equal(index_is_consistent(s), 0);
			}
			assert_in_range(n, 2, 20);
			assert_int_equal(index_is_consistent(s), 1);
			txn = scratch_write(s);
			assert_int_equal(meta_name_get(txn, META_ROOT, "page",
						       4, &entry),
					 0);
			assert_int_equal(
				meta_name_del(txn, META_ROOT, "page", 4), 0);
			assert_int_equal(meta_object_del(txn, 5), 0);
			scratch_commit(txn);
		}
	}
}

static void an_open_that_fails_anywhere_can_be_tried_again(void **state)
{
	static const char *const points[] = {"meta.open",   "meta.state",
					     "meta.begin",  "meta.begin_read",
					     "meta.commit", "meta.put"};
	struct scratch *s = *state;

	for (size_t p = 0; p < sizeof(points) / sizeof(points[0]); p++) {
		for (uint64_t n = 1;; n++) {
			struct meta_config config = {.memory_dir = s->memory,
						     .disk_dir = s->disk};
			int rc;

			assert_int_equal(fault_arm(points[p], n, EIO), 0);
			rc = meta_open(&config, &s->meta);
			fault_disarm_all();
			assert_in_range(n, 1, 20);
			if (rc >= 0)
				break;
			assert_int_equal(rc, -EIO);
			s->meta = NULL;
		}
		assert_int_equal(meta_rebuilt(s->meta), 0);
		assert_int_equal(put_and_commit(s, false), 0);
		assert_int_equal(index_is_consistent(s), 1);
		scratch_close(s);
	}
}

/* ---- no room ---- */

static void a_full_file_system_fails_the_commit_and_nothing_else(void **state)
{
	struct scratch *s = *state;
	struct rlimit old, low;
	struct meta_stats stats;
	struct meta_txn *txn;
	static char value[XATTR_MAX_BYTES];
	int rc, failed = 0;

	scratch_open(s);
	assert_int_equal(put_and_commit(s, false), 0);
	assert_int_equal(meta_get_stats(s->meta, &stats), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	low = old;
	low.rlim_cur = stats.disk_bytes + (256u << 10);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	for (uint64_t object = 100; object < 120; object++) {
		txn = scratch_write(s);
		rc = meta_attr_put(txn, object, "user.a", 6, value,
				   sizeof(value));
		if (rc == 0)
			rc = meta_commit(txn);
		else
			meta_abort(txn);
		failed += rc < 0;
	}
	setrlimit(RLIMIT_FSIZE, &old);
	assert_in_range(failed, 10, 19);
	assert_int_equal(index_is_consistent(s), 1);
	txn = scratch_write(s);
	assert_int_equal(
		meta_attr_put(txn, 99, "user.a", 6, value, sizeof(value)), 0);
	scratch_commit(txn);
	scratch_close(s);
	assert_int_equal(scratch_open(s), 0);
}

static void put_mib(struct scratch *s, uint64_t object, unsigned mib)
{
	static char value[XATTR_MAX_BYTES];
	struct meta_txn *txn = scratch_write(s);

	for (unsigned i = 0; i < mib * 16; i++) {
		char name[16];
		int len = snprintf(name, sizeof(name), "user.%u", i);

		assert_int_equal(meta_attr_put(txn, object, name, (size_t)len,
					       value, sizeof(value)),
				 0);
	}
	scratch_commit(txn);
}

static void a_map_grows_under_readers_of_the_same_thread(void **state)
{
	struct scratch *s = *state;
	struct meta_stats before, after;
	struct meta_entry entry;
	struct meta_txn *reader;

	scratch_open(s);
	assert_int_equal(put_and_commit(s, false), 0);
	assert_int_equal(meta_get_stats(s->meta, &before), 0);
	for (uint64_t object = 10; object < 60; object++) {
		reader = scratch_read(s);
		assert_int_equal(
			meta_name_get(reader, META_ROOT, "page", 4, &entry), 0);
		/* Every tenth write waits for the reader, in vain. */
		if (object % 10 != 0) {
			meta_abort(reader);
			reader = NULL;
		}
		put_mib(s, object, 3);
		meta_abort(reader);
	}
	assert_int_equal(meta_get_stats(s->meta, &after), 0);
	assert_true(after.map_bytes > before.map_bytes);
	assert_true(after.disk_bytes > 150u << 20);
	assert_int_equal(index_is_consistent(s), 1);
	scratch_close(s);
	assert_int_equal(scratch_open(s), 0);
	assert_int_equal(index_is_consistent(s), 1);
}

static void a_map_that_cannot_grow_is_an_error_at_begin(void **state)
{
	struct scratch *s = *state;
	struct meta_txn *txn;
	uint64_t object = 10;
	int rc;

	scratch_open(s);
	assert_int_equal(fault_arm("meta.grow", FAULT_EVERY, ENOMEM), 0);
	while ((rc = meta_begin_write(s->meta, &txn)) == 0) {
		meta_abort(txn);
		assert_in_range(object, 10, 60);
		put_mib(s, object++, 3);
	}
	assert_int_equal(rc, -ENOMEM);
	txn = scratch_read(s);
	meta_abort(txn);
	fault_disarm_all();
	put_mib(s, object, 3);
}

/* More in one transaction than there is room for: an error, and the next one
 * finds room. */
static void a_transaction_that_is_too_large_fails_by_itself(void **state)
{
	struct scratch *s = *state;
	static char value[XATTR_MAX_BYTES];
	struct meta_txn *txn;
	int rc = 0;

	scratch_open(s);
	txn = scratch_write(s);
	for (uint64_t object = 1; object < 4096 && rc == 0; object++)
		rc = meta_attr_put(txn, object, "user.a", 6, value,
				   sizeof(value));
	assert_int_equal(rc, -ENOSPC);
	assert_int_equal(meta_commit(txn), -ENOSPC);
	put_mib(s, 5, 40);
	assert_int_equal(put_and_commit(s, false), 0);
	assert_int_equal(index_is_consistent(s), 1);
}

/* ---- kill -9 ---- */

#define CRASH_NAMES 300u

static void change_at_random(struct meta_txn *txn, uint64_t *random)
{
	char name[32];
	uint64_t n = scratch_random(random) % CRASH_NAMES;
	int len = snprintf(name, sizeof(name), "page-%ju", (uintmax_t)n);
	struct meta_entry entry;

	if (meta_name_get(txn, META_ROOT, name, (size_t)len, &entry) == 0) {
		struct chunk_id id = {.object = entry.object,
				      .version = entry.version};

		meta_chunk_del(txn, META_MEMORY, &id);
		meta_object_del(txn, entry.object);
		meta_name_del(txn, META_ROOT, name, (size_t)len);
		if (scratch_random(random) % 2 == 0)
			return;
	}
	put_page(txn, name, scratch_random(random) >> 20 | 1);
}

static _Noreturn void change_until_killed(struct scratch *s, uint64_t random,
					  _Atomic uint64_t *commits)
{
	if (scratch_open(s) < 0)
		_exit(1);
	for (;;) {
		struct meta_txn *txn;

		if (meta_begin_write(s->meta, &txn) != 0)
			_exit(2);
		for (int i = 0; i < 20; i++)
			change_at_random(txn, &random);
		if (meta_commit(txn) != 0)
			_exit(3);
		(*commits)++;
	}
}

static void an_index_is_consistent_whenever_its_process_is_killed(void **state)
{
	struct scratch *s = *state;
	uint64_t random = 99, interrupted = 0;
	_Atomic uint64_t *commits =
		mmap(NULL, sizeof(*commits), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(commits != MAP_FAILED);
	scratch_open(s);
	scratch_close(s);
	for (int round = 0; round < 50; round++) {
		pid_t pid;
		int status;

		*commits = 0;
		fflush(NULL);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			change_until_killed(s, scratch_random(&random),
					    commits);
		scratch_random(&random);
		while (*commits == 0 && waitpid(pid, &status, WNOHANG) == 0)
			usleep(100);
		usleep((useconds_t)(scratch_random(&random) % 10000));
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		interrupted += *commits > 1;
		assert_int_equal(scratch_open(s), 0);
		index_is_consistent(s);
		scratch_close(s);
	}
	assert_true(interrupted > 25);
	munmap((void *)(uintptr_t)commits, sizeof(*commits));
}

int main(void)
{
#define T(test)                                                                \
	cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)
	const struct CMUnitTest tests[] = {
		T(a_failing_call_leaves_nothing_and_the_next_try_works),
		T(an_open_that_fails_anywhere_can_be_tried_again),
		T(a_full_file_system_fails_the_commit_and_nothing_else),
		T(a_map_grows_under_readers_of_the_same_thread),
		T(a_map_that_cannot_grow_is_an_error_at_begin),
		T(a_transaction_that_is_too_large_fails_by_itself),
		T(an_index_is_consistent_whenever_its_process_is_killed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
