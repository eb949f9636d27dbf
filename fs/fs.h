/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_FS_H
#define PAGEFS_FS_FS_H

/*
 * One mount: what the operations (fs/ops/) share, and how outcomes of the
 * cache become answers to the kernel.  Made by fs/mount.c before the first
 * request, gone after the last.  What it points to is thread-safe by itself.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "cache/cache.h"
#include "fs/fuse.h"
#include "fs/handle.h"
#include "fs/inval.h"
#include "fs/node.h"
#include "fs/reserve.h"
#include "tools/lib/list.h"

struct control;
struct strbuf;

/* How long the kernel may keep what we tell it when it changes: as good as
 * for ever. */
#define FS_LONG_SECONDS 86400.0
#define FS_REQUEST_BYTES (1u << 20) /* max_write, max_read */
#define FS_BACKGROUND 256u
#define FS_BLOCK_SIZE (128u << 10) /* st_blksize: what stdio reads at once */

struct fs_settings {
	bool has_uid, has_gid, has_umask; /* shown instead of the stored ones */
	uid_t uid;
	gid_t gid;
	mode_t umask;
	uid_t owner; /* of the control files */
	gid_t owner_group;
};

struct fs {
	struct cache *cache;
	struct nodes *nodes;
	struct inval *inval;
	struct reserves *reserves;
	struct control *control;
	struct fuse_session *session;
	struct fs_settings settings;
	/* Set by init, read by all. */
	unsigned max_write;
	/* Answers that other threads still owe. */
	_Atomic unsigned background;
	pthread_mutex_t handles_lock;
	struct list handles; /* all open ones; guarded by handles_lock */
	/* Counters, relaxed. */
	_Atomic uint64_t lookups, opens, opens_failed, opens_again,
		unseen_processes;
	/* Called once the kernel's INIT has been answered. */
	void (*ready)(void *arg);
	void *ready_arg;
};

/* What the session's callbacks are given. */
extern const struct fuse_lowlevel_ops fs_operations;

static inline struct fs *fs_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* The node that a request is about. */
struct node *fs_node(fuse_req_t req, fuse_ino_t number);

/* A name in the directory that a request is about; false (and the request is
 * answered) when it can't be one: too long, or not in a directory of ours. */
bool fs_name(fuse_req_t req, fuse_ino_t parent, const char *name,
	     struct cache_name *ret);

/* Where a node was last seen: its name points into `buf`. */
bool fs_node_name(struct fs *fs, struct node *node, char buf[NAME_MAX_BYTES],
		  struct cache_name *ret);

/* An outcome of the cache, or -errno, as a positive errno for the kernel. */
int fs_errno(int outcome);

/* The process that asks; 0, warned about once, when it can't be seen. */
pid_t fs_process(fuse_req_t req);
/* Who makes something in that directory: its group where it is set-gid. */
struct cache_creator fs_creator(fuse_req_t req, uint64_t dir, mode_t mode);

void fs_attributes(const struct fs *fs, const struct meta_entry *entry,
		   uint32_t links, struct stat *ret);

/* What a look-up found, as the kernel is told: a node (counted) with its
 * attributes and times.  0 or -ENOMEM; a staging reference in `found` is given
 * back either way. */
int fs_entry(struct fs *fs, const struct cache_name *name,
	     struct cache_found *found, struct fuse_entry_param *ret);
/* Replies with it. */
void fs_reply_found(fuse_req_t req, const struct cache_name *name,
		    struct cache_found *found);
/* "No such name", to be remembered for so long. */
void fs_reply_absent(fuse_req_t req, uint64_t ttl_ns);
double fs_seconds(uint64_t ttl_ns);

/* cache_lookup() as the asking process sees it. */
int fs_lookup(fuse_req_t req, const struct cache_name *name,
	      struct cache_found *ret);

/* A node's attributes as they are now: 0, or a positive errno. */
int fs_getattr(struct fs *fs, struct node *node, struct stat *ret,
	       double *ret_seconds);

bool fs_is_version(const struct meta_entry *entry, const struct node *node);

/* A rename: whatever node `found` has is called so now. */
void fs_renamed(struct fs *fs, const struct cache_name *from,
		const struct cache_name *to, const struct cache_found *found);

/* The last name of what `found` has went. */
void fs_gone(struct fs *fs, const struct cache_name *name,
	     const struct cache_found *found);

/* A version of what this node writes was committed: the kernel's entry of its
 * name is out of date, if there can be one.  done (or NULL) is called once it
 * is not any more. */
void fs_published(struct fs *fs, struct node *node, void (*done)(void *arg),
		  void *arg);

/* The last close of a handle. */
void fs_close(struct fs *fs, struct handle *handle);

/* Another thread will answer, and has answered. */
void fs_background_begin(struct fs *fs);
void fs_background_end(struct fs *fs);

/* When no request comes any more: waits for the answers that are owed, drops
 * what was being written, gives back all that is open. */
void fs_end(struct fs *fs);

/* For cache_config's `changed`. */
void fs_changed(void *arg, const struct cache_name *name);

/* Ends what is too old, each half second or so. */
void fs_tick(struct fs *fs);

#endif
