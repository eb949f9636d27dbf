/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TESTS_MOUNTED_MOUNT_FIXTURE_H
#define PAGEFS_TESTS_MOUNTED_MOUNT_FIXTURE_H

/*
 * A real daemon ($PAGEFS_BIN, else build/pagefs) on temporary directories of
 * its own.  Tests get a started mount by mount_set_up() and mount_tear_down();
 * everything is gone afterwards, however the test ended.  Failing system calls
 * of the fixture fail the test.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <sys/types.h>

#include <cmocka.h>

#define MOUNT_PATH 512u
#define MOUNT_ARGUMENTS 16u

struct mount {
	char root[MOUNT_PATH / 4]; /* has mnt, disk and log */
	char path[MOUNT_PATH / 2]; /* the mount point */
	char disk[MOUNT_PATH / 2];
	pid_t daemon;				/* 0: none */
	const char *arguments[MOUNT_ARGUMENTS]; /* more for the next start */
};

/* cmocka's fixtures: *state becomes a struct mount with a daemon of 128 MiB
 * memory; mount_prepare() leaves it unstarted. */
int mount_prepare(void **state);
int mount_set_up(void **state);
int mount_tear_down(void **state);

/* Starts a daemon with `arguments` and these; fails the test when it doesn't
 * serve within 10 s. */
void mount_start(struct mount *mount);
/* SIGTERM, and waits: the exit code.  Memory is kept. */
int mount_stop(struct mount *mount);
/* kill -9. */
void mount_kill(struct mount *mount);
/* Runs `pagefs mount` with these arguments (ends with NULL), in the
 * background: its exit code, and what it said on stderr. */
int mount_command(const char *const *arguments, char *ret_said, size_t size);

/* A path in the mount: one of a few buffers, used in turn. */
const char *in(const struct mount *mount, const char *name);

/* A number of .pagefs/stats. */
uint64_t mount_counter(const struct mount *mount, const char *name);
/* Writes a line to a control file: 0 or -errno. */
int mount_control(const struct mount *mount, const char *file,
		  const char *line);

/* A file of `len` bytes that depend on the seed and their place. */
void write_page(const char *path, unsigned seed, size_t len);
void fill_page(void *bytes, unsigned seed, size_t offset, size_t len);
/* Reads the whole file: true if it is what write_page() wrote. */
bool page_is(const char *path, unsigned seed, size_t len);
bool fd_is(int fd, unsigned seed, size_t len);
/* Does another process see the name? */
bool others_see(const char *path);
/* errno of open(2), 0 if it worked (and was closed again). */
int open_errno(const char *path, int flags);
int stat_errno(const char *path);

#endif
