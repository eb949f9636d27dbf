/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_HANDLE_H
#define PAGEFS_FS_HANDLE_H

/*
 * One open file description of the kernel (fi->fh).  Made by OPEN, CREATE and
 * OPENDIR, gone with RELEASE.  It holds its node.  Immutable but for what is
 * said to be guarded.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/lib/list.h"
#include "tools/lib/page.h"

struct cache_page;
struct cache_writer;
struct control_file;
struct fs;
struct fuse_file_info;
struct node;

struct handle {
	struct node *node; /* held */
	/* One of them, or none (a directory). */
	struct cache_page *page;      /* the node's */
	struct cache_writer *writer;  /* owned */
	pid_t opener;		      /* the process that opened it */
	_Atomic pid_t last_thread;    /* that opened it or wrote last */
	struct control_file *control; /* owned */
	bool listing;		      /* the kernel keeps what it reads */
	/* Directories: the name after which a listing goes on where several
	 * have its hash; guarded by lock. */
	pthread_mutex_t lock;
	uint64_t after;
	char after_name[NAME_MAX_BYTES + 1];
	struct list all; /* in fs->handles */
};

/* NULL: no memory. */
struct handle *handle_new(struct fs *fs, struct node *node);
/* Gives back what it has, all but a writer. */
void handle_free(struct fs *fs, struct handle *handle);
/* At the end: the next handle that the kernel did not release; NULL: none. */
struct handle *handle_left(struct fs *fs);
/* A new handle writes: the process and thread that opened it. */
void handle_set_writer(struct handle *handle, struct cache_writer *writer,
		       pid_t process, pid_t thread);
/* Does this thread close what its own process opened or wrote?  A child that
 * only inherited a descriptor does not: its exec or exit finishes nothing. */
bool handle_is_closer(const struct handle *handle, pid_t thread);
struct handle *handle_of(const struct fuse_file_info *fi);
void handle_set(struct fuse_file_info *fi, struct handle *handle);

#endif
