/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_BENCH_DAEMON_H
#define PAGEFS_TOOLS_BENCH_DAEMON_H

/*
 * A pagefs of a benchmark's own: this very program, mounted on directories
 * made for it, so that what is measured is what a user runs.
 */

#include <jansson.h>
#include <stdint.h>

#define BENCH_ARGUMENTS_MAX 32

struct bench_daemon {
	char root[4000]; /* made by mkdtemp; everything is below it */
	char mount[4032];
	char disk[4032];
};

/* Makes the directories below `parent`, runs `pagefs mount` with the further
 * arguments (NULL ends them), and returns when it serves. 0 or -errno; the
 * daemon's own message is on stderr. */
int bench_daemon_start(struct bench_daemon *daemon, const char *parent,
		       const char *const *arguments);
/* Mounts once more on the same directories, after a stop or a kill. */
int bench_daemon_mount(const struct bench_daemon *daemon,
		       const char *const *arguments);
/* kill -9, and waits until it is gone: 0 or -errno. */
int bench_daemon_kill(const struct bench_daemon *daemon);
/* `.pagefs/stats.json`; the caller's reference. NULL if it can't be read. */
json_t *bench_daemon_stats(const struct bench_daemon *daemon);
/* One counter of it, 0 where it isn't there. */
uint64_t bench_daemon_counter(const struct bench_daemon *daemon,
			      const char *name);
/* Writes to a control file: 0 or the daemon's -errno. */
int bench_daemon_control(const struct bench_daemon *daemon, const char *control,
			 const char *text);
/* Unmounts, and waits until the daemon has written what was pending. */
int bench_daemon_stop(const struct bench_daemon *daemon);
/* What its disk directory takes, as du counts. */
uint64_t bench_daemon_disk_bytes(const struct bench_daemon *daemon);
/* Removes the directories; the mount must be gone. */
void bench_daemon_remove(const struct bench_daemon *daemon);

#endif
