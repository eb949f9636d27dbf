/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_LOOP_H
#define PAGEFS_FS_LOOP_H

/*
 * The threads that serve the kernel's requests.  There is always one that
 * waits for the next request; when it gets one and no other waits, another is
 * started, up to LOOP_THREADS_MAX; those that have nothing to do end, but for
 * LOOP_THREADS_IDLE.  A thread may wait for memory or for the disk (bounded by
 * the deadline of its operation); reads and opens that wait for the disk don't
 * hold one.
 *
 * libfuse's own loop ends by cancelling its threads; this one asks them.
 */

struct fuse_session;
struct loop;

#define LOOP_THREADS_MAX 64u
#define LOOP_THREADS_IDLE 8u

/* Serves until the file system is unmounted or loop_stop() was called; then
 * every thread has ended.  0, or -errno when no thread could be started. */
int loop_run(struct fuse_session *session);
/* From any thread. */
void loop_stop(void);

#endif
