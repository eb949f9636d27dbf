/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TESTS_MOUNTED_FAULT_RIG_H
#define PAGEFS_TESTS_MOUNTED_FAULT_RIG_H

/*
 * A real mount of the real program ($PAGEFS_BIN) for tests that break things.
 * As root all runs in namespaces of its own (processes, mounts, a /run and a
 * /dev/shm): nothing outlives the test, however it ends, and nobody else's
 * processes are seen.  A watchdog kills the daemon of a test that hangs, so
 * that what waits for it goes on and fails.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdbool.h>
#include <sys/types.h>

#include <cmocka.h>

#define RIG_OUTPUT_BYTES 16384u
#define RIG_WATCHDOG_SECONDS 40u
#define RIG_NOBODY 65534u
/* What the tests' pages are like unless they say otherwise. */
#define RIG_PAGE_BYTES (512u << 10)

struct rig {
	char dir[64];		    /* all else is in it */
	char mount[96];		    /* the mount point */
	char disk[96];		    /* the disk tier's directory; not made */
	char log[96];		    /* what the daemon says */
	const char *faults;	    /* PAGEFS_FAULTS of what is run, or NULL */
	void (*before_exec)(void);  /* in the child */
	bool as_user;		    /* run as nobody */
	pid_t daemon;		    /* 0: none */
	char out[RIG_OUTPUT_BYTES]; /* of the last rig_run() */
};

/* The whole program: cmocka's run within the namespaces.  Exit code.  For
 * people: PAGEFS_TEST_FILTER is a pattern of the tests to run. */
int rig_main(int (*tests)(void));
/* Tests that need namespaces (root) say so first. */
void rig_needs_root(void);

int rig_setup(void **state);
int rig_teardown(void **state);
#define rig_test(name)                                                         \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

/* Runs `pagefs WORD...` (words between blanks; %s as in printf); stdout and
 * stderr go to rig->out.  The exit code. */
int rig_run(struct rig *rig, const char *words, ...)
	__attribute__((format(printf, 2, 3)));
/* Mounts in the background, its disk tier in rig->disk; log and messages go
 * to rig->log.  The exit code; 0: it serves. */
int rig_mount(struct rig *rig, const char *more, ...)
	__attribute__((format(printf, 2, 3)));
/* The same, and it must work. */
void rig_serve(struct rig *rig, const char *more, ...)
	__attribute__((format(printf, 2, 3)));
void rig_umount(struct rig *rig);
void rig_kill(struct rig *rig);

/* All of the log, in rig->out; and how often it says something. */
const char *rig_log(struct rig *rig);
unsigned rig_log_count(struct rig *rig, const char *text);
/* It must have said so; or come to say so within 5 s. */
void rig_said(struct rig *rig, const char *text);
void rig_await_said(struct rig *rig, const char *text);

/* A figure of .pagefs/stats; -1: there is none of that name. */
double rig_stat(struct rig *rig, const char *name);
/* Waits until a figure is at least (at most) this, or fails after 5 s. */
void rig_await(struct rig *rig, const char *name, double at_least);
void rig_await_zero(struct rig *rig, const char *name);

/* The page `name` below the mount, whose bytes follow from `seed`: 0 or
 * -errno.  Reading fails the test when a byte is wrong. */
int rig_put(struct rig *rig, const char *name, unsigned seed, size_t len);
int rig_get(struct rig *rig, const char *name, unsigned seed, size_t len);
/* The same for a page that may be one of several. */
int rig_get_one_of(struct rig *rig, const char *name, const unsigned *seeds,
		   unsigned count, size_t len);
/* What stat(2) says: 0 or -errno; and is it listed? */
int rig_stat_page(struct rig *rig, const char *name);
bool rig_listed(struct rig *rig, const char *name);
/* "page-N", in a buffer of the caller. */
const char *rig_name(char name[32], unsigned n);

/* Writes `len` bytes at `offset` of a file; the file's length; a path. */
void rig_damage(const char *path, off_t offset, size_t len);
off_t rig_length(const char *path);
/* The path of the n-th bucket file, in the order of their numbers. */
void rig_bucket(struct rig *rig, unsigned n, char ret[192]);
unsigned rig_buckets(struct rig *rig);

#endif
