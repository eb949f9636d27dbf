/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_MOUNTPOINT_H
#define PAGEFS_TOOLS_MOUNTPOINT_H

/*
 * Which pagefs mount a path lies in, and that mount's control files. The
 * commands talk to a daemon through its mount and nothing else, so whoever may
 * use the mount may use them. One thread.
 */

#include <stdbool.h>

struct strbuf;

struct mountpoint {
	char path[4096]; /* absolute, without a slash at the end */
	/* What follows it in the path that was asked for: the key, without a
	 * slash in front; empty for the mount itself. */
	char key[4097];
};

/* The pagefs mount that `path` lies in; the path itself need not exist. A link
 * in the mount is a key, whatever it leads to; a link elsewhere is followed to
 * a directory. 0; -ENOENT: no pagefs mount there; -errno. */
int mountpoint_find(const char *path, struct mountpoint *ret);
/* The only pagefs mount of this host. 0; -ENOENT: there is none; -E2BIG: there
 * are several, and one must be named. */
int mountpoint_only(struct mountpoint *ret);
/* The mount that the first of `count` arguments names, or the only one; with
 * a line on stderr that names `command` where there is none. 0 or -errno. */
int mountpoint_choose(const char *command, int count, char **arguments,
		      struct mountpoint *ret);

/* Does this error (-errno) of a call on a mount say that its daemon is gone? */
bool mountpoint_dead(int error);
/* strerror() for such calls: then it says what to do. */
const char *mountpoint_reason(int error);

/* Reads a control file whole: 0 or -errno. */
int mountpoint_read(const struct mountpoint *mountpoint, const char *control,
		    struct strbuf *ret);
/* Writes a line to one (`text` has no newline): 0 or the daemon's -errno. */
int mountpoint_write(const struct mountpoint *mountpoint, const char *control,
		     const char *text);
/* The same with a key in it, so that no key is taken for anything else:
 * `before` (may be empty), a slash, the key. -EINVAL: it has a newline in it,
 * which would end the line. */
int mountpoint_write_key(const struct mountpoint *mountpoint,
			 const char *control, const char *before,
			 const char *key);

#endif
