/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_GUARD_H
#define PAGEFS_FS_GUARD_H

/*
 * A small process beside the daemon that ends the connection to the kernel
 * when the daemon is killed.
 *
 * Usually the kernel does that itself, when /dev/fuse is closed. But a thread
 * that was telling it about a name (fs/inval.h) may be waiting for the lock of
 * a directory, which no signal interrupts; whoever has that lock waits for the
 * daemon's answer; and while the thread waits, nothing of the daemon is closed.
 * Callers would hang for ever. The guard is told by the kernel
 * (PR_SET_PDEATHSIG) that the daemon's main thread has gone, and aborts the
 * connection: callers get ENOTCONN or ECONNABORTED, and the thread ends.
 *
 * Only root may abort it so (umount -f); a user's mount is left to the kernel.
 *
 * One guard a mount point at a time: it holds an abstract socket's name, so
 * that it can't meet the mount of the next daemon there.
 *
 * One thread: the one that lives as long as the daemon.
 */

#include <sys/types.h>

/* Before there are threads and before the mount. The guard's pid; 0: there is
 * none (it could not be started, or an earlier one is still there after two
 * seconds), which is logged. */
pid_t guard_start(const char *mount_point);
/* The daemon ends by itself. 0 is fine. */
void guard_end(pid_t guard);

#endif
