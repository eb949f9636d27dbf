/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_PROCESS_H
#define PAGEFS_FS_PROCESS_H

/*
 * What the kernel says about who asks.  A FUSE request names a thread; names
 * that are being written belong to a process.  All of it comes from the kernel
 * at the time of asking, nothing is remembered, so reused ids can't be taken
 * for others.  Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The process of a thread: 1 us for a process's first thread, some 15 us for
 * another.  0 when it can't be seen (another pid namespace, or it is gone). */
pid_t process_of_thread(pid_t thread);

/* Is this thread on its way out because of a signal?  False when it can't be
 * seen. */
bool process_killed(pid_t thread);

/* Has this thread's process a descriptor of a file with this inode number and
 * name (the last component)?  False when that can't be seen (kernels before
 * 5.19 don't tell).  Some 15 us, and 1 us a descriptor. */
bool process_has_file(pid_t thread, uint64_t inode, const char *name,
		      size_t len);
/* The same whatever it is called, and true when it can't be seen, and for the
 * kernel's own threads, which work on behalf of others.  15 us a descriptor:
 * for what is rare. */
bool process_may_have_file(pid_t thread, uint64_t inode);

/* Can we read /proc/<pid>/stat as process_killed() needs it? */
bool process_visible(void);

#endif
