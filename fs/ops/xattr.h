/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_OPS_XATTR_H
#define PAGEFS_FS_OPS_XATTR_H

/*
 * The facts about a page that are shown as user.pagefs.*: made up when asked
 * for, and read-only.  Between the files of fs/ops/ only.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "fs/fs.h"

#define XATTR_FACT_BYTES 64u

/* Is this the name of a fact? */
bool xattr_is_fact(const char *name);
/* Do we keep this name?  "user.*" but facts. */
bool xattr_is_kept(const char *name);
/* The fact as text, not terminated: its length, -ENODATA (no such fact, or
 * not of this node), -ESTALE. */
ssize_t xattr_fact(struct fs *fs, struct node *node, const char *name,
		   char ret[XATTR_FACT_BYTES]);
/* Adds the names of the facts, with their NULs: how many bytes; size 0 only
 * counts. */
size_t xattr_fact_names(char *ret, size_t size);

#endif
