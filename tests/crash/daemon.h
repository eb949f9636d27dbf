/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TESTS_CRASH_DAEMON_H
#define PAGEFS_TESTS_CRASH_DAEMON_H

/*
 * A daemon that is killed: at work, while it starts, and while `pagefs mount`
 * waits for it.  Its program is $PAGEFS_BIN, else build/pagefs.  This process
 * adopts what it leaves behind, so that nothing has to wait for init to notice
 * the dead.  One thread; what fails ends the test.
 */

#include <stdbool.h>
#include <sys/types.h>

struct daemon {
	char root[64]; /* has mount and disk */
	char mount[80], disk[80];
	char memory_dir[128]; /* empty: not known yet */
	pid_t pid;	      /* 0: none is running */
};

/* 0 or -1. */
int daemon_prepare(struct daemon *daemon);
/* Ends it and removes everything: 0 or -1. */
int daemon_release(struct daemon *daemon);

/* In the background, as a user would; returns when it serves. */
void daemon_start(struct daemon *daemon, const char *writeback_max_ms);
/* The signal, for what is going on meanwhile; and what follows. */
void daemon_signal(const struct daemon *daemon);
void daemon_reap(struct daemon *daemon);
/* `umount -f`: ends what waits for an answer. */
void daemon_abort(const struct daemon *daemon);
/* Starts it, kills it after so many microseconds, whatever it is doing:
 * did it serve by then?  by_mount: in the background, and `pagefs mount`,
 * which waits for it, dies first. */
bool daemon_start_and_kill(struct daemon *daemon, unsigned us, bool by_mount);

/* As a reboot would: the arena's tmpfs goes.  It is not running. */
void daemon_drop_memory(struct daemon *daemon);
/* As damage would. */
void daemon_drop_index(const struct daemon *daemon);

int remove_tree(const char *path);

#endif
