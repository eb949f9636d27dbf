/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_MOUNT_H
#define PAGEFS_FS_MOUNT_H

/*
 * `pagefs mount`: from the command line to a daemon that serves, and to its
 * end.  Here the parts are wired together.
 *
 *   mount.c          the subcommand
 *   mount_options.c  its options
 *   mount_point.c    is the mount point fit?
 *   mount_daemon.c   going to the background
 *   mount_serve.c    opens the tiers, mounts, serves, ends
 *   mount_control.c  what control files show of the tiers and change
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/mount_options.h"

/* A line that says what is wrong and what to do about it. */
#define MOUNT_REASON_BYTES 1024u
/* The smallest memory tier. */
#define MOUNT_MEMORY_MIN (16ull << 20)

int mount_run(int argc, char **argv);

/* What was found out before the daemon starts. */
struct mount_plan {
	struct options *options; /* where `values` came from */
	struct mount_options *values;
	char mount_point[PATH_MAX]; /* absolute */
	char disk_dir[PATH_MAX];    /* empty: no disk tier */
	char instance[17];	    /* names the arena: found again by the next
				       start */
};

/* Is the uppermost mount at this path ours?  Asks the kernel's table, not the
 * mount, which may be dead. */
bool mount_point_is_pagefs(const char *path);
/* 0; else -errno and the reason.  Leaves an absolute path in ret_path; cleans
 * up a dead mount. */
int mount_point_check(const char *path, char ret_path[PATH_MAX],
		      char reason[MOUNT_REASON_BYTES]);
/* Takes the file system away, though it may be busy.  0 or -errno. */
int mount_point_detach(const char *path);
/* Sets the read-ahead of the file system mounted there, which the kernel
 * never raises above 128 KiB for FUSE.  Needs root; else nothing happens. */
void mount_point_read_ahead(const char *path, unsigned kib);

/* Forks: in the child 0 with *ret_pipe for mount_daemon_ready(); the parent
 * waits and exits. */
int mount_daemon_start(int *ret_pipe);
/* Is stderr a file or the journal?  In the background it is left otherwise: a
 * terminal goes away with its user, and whoever reads our pipe would wait for
 * its end. */
bool mount_daemon_logs(void);
/* The parent prints the reason (NULL: all is well) and exits 1 (or 0). */
void mount_daemon_ready(int pipe, const char *reason);

/* Serves until unmounted.  `pipe` as above, or -1.  The exit code. */
int mount_serve(const struct mount_plan *plan, int pipe);

#endif
