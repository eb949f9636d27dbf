/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_NODE_H
#define PAGEFS_FS_NODE_H

/*
 * The nodes that the kernel knows: one for each version of a page, one for
 * each directory, symlink, staging page and control file.  A node's number is
 * never used again while the daemon lives, so a late request can't meet
 * another page; what people see (st_ino) is the object's number.
 *
 * A node lives while the kernel counts look-ups of it or an open handle holds
 * it.  It keeps no copy of the entry, which the index gives in a few
 * microseconds: a million cached names would cost 120 MB more.
 *
 * Threads: every function from any thread.  A pointer from node_get() is good
 * for as long as the kernel's request lasts (it forgets no node that it is
 * asking about); others hold a node by node_hold().  Fields that change are
 * guarded by the table's lock, and read through functions.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/lib/page.h"

struct cache_name;
struct cache_page;
struct cache_staging;
struct meta_entry;
struct nodes;

enum node_kind {
	NODE_PAGE,    /* (object, clock): a committed version; (object,
			 clock, name) where it has several names, which are
			 overwritten each by itself */
	NODE_DIR,     /* (object, 0) */
	NODE_SYMLINK, /* (object, 0) */
	NODE_STAGING, /* a page being written */
	NODE_CONTROL, /* .pagefs and what is in it; clock: which */
};

struct node {
	/* Fixed. */
	uint64_t number; /* the kernel's */
	uint64_t object; /* st_ino */
	uint64_t clock;
	uint64_t link; /* which of several names: a hash; else 0 */
	struct cache_staging *staging; /* NODE_STAGING: referenced */
	enum node_kind kind;
	/* Guarded by the table's lock. */
	uint32_t holds;	  /* handles, and whoever else needs it */
	uint64_t lookups; /* the kernel's */
	uint64_t dir;	  /* where it was last seen */
	char *name;	  /* not terminated; NULL: never had one */
	uint8_t name_len;
	bool shown;	/* NODE_STAGING: the kernel may know a committed version
			   of its name */
	uint32_t opens; /* NODE_PAGE: handles that read it; NODE_DIR: that
			   list it */
	bool listed;	/* NODE_DIR: the kernel may have its listing */
	bool listed_late; /* it was told of a change while one was read */
	struct cache_page *page; /* NODE_PAGE: one reference while opens > 0 */
	struct meta_entry *gone; /* as it was when its last name went */
	struct node *next_number, *next_key;
};

#define NODE_ROOT 1ull	    /* the kernel's number of the root directory */
#define NODE_RESERVED 16ull /* numbers up to here are control files' */

/* 0 or -ENOMEM; the root is in it. */
int nodes_new(struct nodes **ret);
void nodes_free(struct nodes *nodes);
/* At the end, when no request comes any more: drops all nodes, and what they
 * hold of the cache.  Only node_directory() may be called after it. */
void nodes_clear(struct nodes *nodes);
uint64_t nodes_count(struct nodes *nodes);

/* The node of that number; NULL only for numbers that the kernel was never
 * told. */
struct node *node_get(struct nodes *nodes, uint64_t number);

/* What a node stands for, as its look-up says it. */
struct node_key {
	enum node_kind kind;
	uint64_t object;
	uint64_t clock;		       /* NODE_PAGE, else 0 */
	uint64_t link;		       /* NODE_PAGE with several names */
	struct cache_staging *staging; /* NODE_STAGING */
};

/* Finds or makes the node, counts one more look-up by the kernel, and
 * remembers where it was seen.  A new staging node takes a reference of its
 * own.  NULL: no memory.  The node is good until the kernel may have had the
 * reply; its number is in it. */
struct node *node_enter(struct nodes *nodes, const struct node_key *key,
			uint64_t dir, const char *name, size_t len);
/* The kernel forgets `count` look-ups (or a reply did not reach it). */
void node_forget(struct nodes *nodes, struct node *node, uint64_t count);

void node_hold(struct nodes *nodes, struct node *node);
void node_release(struct nodes *nodes, struct node *node);

/* Where it was last seen: false if it never had a name.  ret_name has room
 * for NAME_MAX_BYTES. */
bool node_name(struct nodes *nodes, struct node *node, uint64_t *ret_dir,
	       char ret_name[NAME_MAX_BYTES], size_t *ret_len);
/* A rename: whatever node this key has is called so now. */
void node_renamed(struct nodes *nodes, const struct node_key *key, uint64_t dir,
		  const char *name, size_t len);
/* The same, but only if that is where the node was last seen. */
void node_moved(struct nodes *nodes, const struct node_key *key,
		const struct cache_name *from, const struct cache_name *to);

/* A staging page was begun over (or has been committed as) a version that
 * somebody else may have seen. */
void node_set_shown(struct nodes *nodes, struct node *node);
/* Has such a version, or was renamed to where one may be. */
bool node_shown(struct nodes *nodes, struct node *node);

/* A reader opens (takes over one reference to page; returns the page that all
 * readers of this node share until they close) and closes. */
struct cache_page *node_opened(struct nodes *nodes, struct node *node,
			       struct cache_page *page);
void node_closed(struct nodes *nodes, struct node *node);
/* The page that others have open on this node, referenced; NULL if none. */
struct cache_page *node_page(struct nodes *nodes, struct node *node);

/* The last name of what has this key went (a directory was removed, a page
 * unlinked or renamed over): the kernel may ask about its node for as long as
 * it knows it.  node_gone(): false: it has not gone. */
void node_set_gone(struct nodes *nodes, const struct node_key *key,
		   const struct meta_entry *entry);
bool node_gone(struct nodes *nodes, struct node *node, struct meta_entry *ret);

/* The kernel's number of a directory, 0 if it does not know it. */
uint64_t node_directory(struct nodes *nodes, uint64_t object);

/*
 * Listings that the kernel keeps.  From node_listing_begin() (an OPENDIR) on
 * it may have one, until it is told to drop it, node_listing_drop() before
 * that.  What it is told while it reads a listing may overtake an answer, so
 * it is told once more after that: node_listing_end() says so.
 */
void node_listing_begin(struct nodes *nodes, struct node *node);
bool node_listing_end(struct nodes *nodes, struct node *node);
void node_listing_drop(struct nodes *nodes, uint64_t number);
bool node_listed(struct nodes *nodes, uint64_t dir_object);

/* Calls `each` with the names of the nodes seen in this directory, a copy at
 * a time; holds no lock meanwhile. */
void nodes_in_dir(struct nodes *nodes, uint64_t dir,
		  void (*each)(void *arg, const char *name, size_t len),
		  void *arg);

#endif
