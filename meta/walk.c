/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/internal.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "meta/row.h"
#include "tools/lib/clock.h"
#include "tools/lib/endian.h"
#include "tools/lib/log.h"

/* LMDB trusts its file: a flipped bit makes it read wild memory.  So a child
 * reads everything first.  What it can't read within the time is taken as
 * sound, as long as it got on: a start must not take longer with more pages. */
#define WALK_MAX_NS (1200 * CLOCK_NS_PER_MS)
#define WALK_STUCK_NS (600 * CLOCK_NS_PER_MS)
#define WALK_PAUSE_US 500

#define LOOKUP_EVERY 16u /* rows that are also found from the root */
#define ENDS_ROWS 4u	 /* looked at in each table, where not all are */

enum child_exit {
	CHILD_SOUND = 0,
	CHILD_DAMAGED = 40,
	CHILD_NEWER = 41,
	CHILD_UNABLE = 42, /* says nothing about the file */
};

struct walk_report { /* shared with the child */
	_Atomic uint64_t rows;
};

/* ---- in the child ---- */

static _Noreturn void child_assert_failed(MDB_env *mdb, const char *message)
{
	(void)mdb;
	(void)message;
	_exit(CHILD_DAMAGED);
}

static void need(bool sound)
{
	if (!sound)
		_exit(CHILD_DAMAGED);
}

/* Values on overflow pages: a byte of each page. */
static void touch(const MDB_val *value)
{
	const volatile char *bytes = value->mv_data;

	for (size_t i = 0; i < value->mv_size; i += 4096)
		(void)bytes[i];
	if (value->mv_size > 0)
		(void)bytes[value->mv_size - 1];
}

static bool key_follows(const MDB_val *key, const uint8_t *last, size_t len)
{
	size_t common = key->mv_size < len ? key->mv_size : len;
	int order = memcmp(key->mv_data, last, common);

	return order > 0 || (order == 0 && key->mv_size > len);
}

static bool row_decodes(enum table table, const MDB_val *key,
			const MDB_val *value)
{
	struct meta_entry entry;
	struct meta_chunk chunk;
	struct meta_object object;
	struct meta_pending pending;

	switch (table) {
	case TABLE_NAMES:
		return entry_row_decode(value->mv_data, value->mv_size,
					&entry) == 0;
	case TABLE_CHUNKS:
		return chunk_row_decode(key->mv_data, key->mv_size,
					value->mv_data, value->mv_size,
					&chunk) == 0;
	case TABLE_OBJECTS:
		return object_row_decode(value->mv_data, value->mv_size,
					 &object) == 0;
	case TABLE_PENDING:
		return pending_row_decode(key->mv_data, key->mv_size,
					  value->mv_data, value->mv_size,
					  &pending) == 0;
	default:
		return true;
	}
}

static void walk_table(MDB_txn *txn, MDB_dbi dbi, enum table table, bool whole,
		       struct walk_report *report)
{
	uint8_t last[511];
	size_t last_len = 0;
	uint64_t rows = 0;
	MDB_cursor *cursor;
	MDB_stat stat;
	MDB_val key, value;
	int rc;

	need(mdb_stat(txn, dbi, &stat) == 0);
	need(mdb_cursor_open(txn, dbi, &cursor) == 0);
	while ((rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
		need(++rows <= stat.ms_entries);
		need(key.mv_size > 0 && key.mv_size <= sizeof(last));
		need(rows == 1 || key_follows(&key, last, last_len));
		touch(&value);
		need(row_decodes(table, &key, &value));
		last_len = key.mv_size;
		memcpy(last, key.mv_data, last_len);
		if (rows % LOOKUP_EVERY == 0) {
			MDB_val again;

			need(mdb_get(txn, dbi, &key, &again) == 0);
			need(again.mv_data == value.mv_data);
		}
		report->rows++;
		if (!whole && rows == ENDS_ROWS)
			break;
	}
	need(rc == 0 || rc == MDB_NOTFOUND);
	need(!(whole && rows != stat.ms_entries));
	rc = mdb_cursor_get(cursor, &key, &value, MDB_LAST);
	need(rc == 0 || (rc == MDB_NOTFOUND && stat.ms_entries == 0));
	if (rc == 0)
		touch(&value);
	mdb_cursor_close(cursor);
}

/* LMDB hands out what the list of free pages says: a wrong one makes it write
 * over pages in use. */
static void walk_free_list(MDB_txn *txn, uint64_t last_page, bool whole)
{
	MDB_cursor *cursor;
	MDB_val key, value;
	int rc;
	unsigned rows = 0;

	need(mdb_cursor_open(txn, 0, &cursor) == 0);
	while ((rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
		const size_t *list = value.mv_data;
		size_t previous = SIZE_MAX;

		need(key.mv_size == sizeof(size_t));
		need(value.mv_size >= sizeof(size_t));
		need(list[0] < value.mv_size / sizeof(size_t));
		for (size_t i = 1; i <= list[0]; i++) {
			need(list[i] >= 2 && list[i] <= last_page);
			need(list[i] < previous);
			previous = list[i];
		}
		if (!whole && ++rows == ENDS_ROWS)
			break;
	}
	need(rc == 0 || rc == MDB_NOTFOUND);
	mdb_cursor_close(cursor);
}

static void check_format(MDB_txn *txn)
{
	static char name[] = "meta.format";
	MDB_val key = {.mv_size = strlen(name), .mv_data = name};
	MDB_val value;
	struct le32 format;
	MDB_dbi dbi;
	int rc = mdb_dbi_open(txn, table_names[TABLE_VALUES], 0, &dbi);

	if (rc == 0)
		rc = mdb_get(txn, dbi, &key, &value);
	need(rc == 0 || rc == MDB_NOTFOUND);
	if (rc == MDB_NOTFOUND) /* killed before the first commit */
		return;
	need(value.mv_size == sizeof(format));
	memcpy(&format, value.mv_data, sizeof(format));
	if (le32_get(format) > META_FORMAT)
		_exit(CHILD_NEWER);
	need(le32_get(format) == META_FORMAT);
}

static _Noreturn void child_run(const char *dir, bool whole,
				struct walk_report *report)
{
	const unsigned flags = MDB_RDONLY | MDB_NOLOCK | MDB_NORDAHEAD;
	MDB_envinfo info;
	MDB_env *mdb;
	MDB_txn *txn;
	int rc;

	if (mdb_env_create(&mdb) != 0)
		_exit(CHILD_UNABLE);
	mdb_env_set_assert(mdb, child_assert_failed);
	mdb_env_set_maxdbs(mdb, TABLES);
	rc = mdb_env_open(mdb, dir, flags, 0600);
	if (rc > 0 && rc != EINVAL)
		_exit(CHILD_UNABLE);
	need(rc == 0);
	need(mdb_env_info(mdb, &info) == 0);
	need(mdb_txn_begin(mdb, NULL, MDB_RDONLY, &txn) == 0);
	check_format(txn);
	walk_free_list(txn, info.me_last_pgno, whole);
	for (int i = 0; i < TABLES; i++) {
		MDB_dbi dbi;

		rc = mdb_dbi_open(txn, table_names[i], 0, &dbi);
		need(rc == 0 || rc == MDB_NOTFOUND);
		if (rc == 0)
			walk_table(txn, dbi, (enum table)i, whole, report);
	}
	_exit(CHILD_SOUND);
}

static void child_prepare(void)
{
	static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
	const struct rlimit none = {0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &none);
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		signal(crashes[i], SIG_DFL);
}

/* ---- in the parent ---- */

void walk_start(struct walk *walk, const char *dir, bool whole)
{
	*walk = (struct walk){.pid = -1};
	walk->report = mmap(NULL, sizeof(*walk->report), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (walk->report == MAP_FAILED) {
		walk->report = NULL;
	} else {
		walk->pid = fork();
		if (walk->pid == 0) {
			child_prepare();
			child_run(dir, whole, walk->report);
		}
	}
	if (walk->pid < 0)
		log_warning("index %s: not checked, since no process could be "
			    "started for it (%s)",
			    dir, strerror(errno));
}

static enum walk_outcome outcome_of(int status, char *ret_why, size_t size)
{
	if (WIFEXITED(status)) {
		switch (WEXITSTATUS(status)) {
		case CHILD_SOUND:
		case CHILD_UNABLE:
			return WALK_SOUND;
		case CHILD_NEWER:
			return WALK_NEWER;
		default:
			snprintf(ret_why, size, "its tables are damaged");
			return WALK_DAMAGED;
		}
	}
	snprintf(ret_why, size, "reading it crashes (signal %d)",
		 WTERMSIG(status));
	return WALK_DAMAGED;
}

static int reap(pid_t pid, int options, int *ret_status)
{
	pid_t got;

	do {
		got = waitpid(pid, ret_status, options);
	} while (got < 0 && errno == EINTR);
	return got;
}

enum walk_outcome walk_wait(struct walk *walk, char *ret_why, size_t size)
{
	uint64_t now = clock_monotonic_ns();
	uint64_t end = now + WALK_MAX_NS, moved = now;
	enum walk_outcome outcome = WALK_SOUND;
	uint64_t rows = 0;
	int status = 0, got = 0;

	if (walk->pid < 0)
		goto out;
	while ((got = reap(walk->pid, WNOHANG, &status)) == 0 && now < end) {
		usleep(WALK_PAUSE_US);
		now = clock_monotonic_ns();
		if (walk->report->rows != rows)
			moved = now;
		rows = walk->report->rows;
	}
	if (got > 0) {
		outcome = outcome_of(status, ret_why, size);
	} else if (got == 0) {
		kill(walk->pid, SIGKILL);
		reap(walk->pid, 0, &status);
		if (now - moved >= WALK_STUCK_NS) {
			snprintf(ret_why, size, "reading it does not end");
			outcome = WALK_DAMAGED;
		}
	}
out:
	if (walk->report != NULL)
		munmap(walk->report, sizeof(*walk->report));
	return outcome;
}
