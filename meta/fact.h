/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_META_FACT_H
#define PAGEFS_META_FACT_H

/*
 * Facts: one change of the name space each, as it is written to a bucket's
 * journal (many in one record) or beside a page's last chunk (one).  Applied
 * in the order of `at`, they give the name space: an index that is lost is
 * built again from them, without deleted pages or old names coming back.
 */

#include <stddef.h>
#include <stdint.h>

#include "meta/entry.h"
#include "tools/lib/page.h"

enum meta_fact_kind {
	META_FACT_SET = 1,   /* key is this entry now (a page, directory or
				symlink; after chmod and the like, too) */
	META_FACT_GONE = 2,  /* key is not there any more */
	META_FACT_MOVED = 3, /* key is called to_key now, a directory with all
				that is below it; what to_key was is gone */
};

struct meta_xattr {
	const char *name; /* "user.x", not terminated */
	size_t name_bytes;
	const void *value;
	size_t value_bytes;
};

/* Pointers lead into the caller's or the decoded buffer. */
struct meta_fact {
	enum meta_fact_kind kind;
	struct page_version at; /* when it became so */
	const char *key;
	size_t key_bytes;
	const char *to_key; /* MOVED */
	size_t to_key_bytes;
	struct meta_entry entry; /* SET */
	const char *target;	 /* SET of a symlink */
	size_t target_bytes;
	const void *xattrs; /* SET: encoded; meta_xattr_next() reads them */
	size_t xattrs_bytes;
};

/* Bytes that meta_fact_encode() will write. */
size_t meta_fact_bytes(const struct meta_fact *fact);
size_t meta_fact_encode(const struct meta_fact *fact, void *ret);
/* Decodes the first fact of the bytes: 0 and how many bytes it took, or
 * -EBADMSG.  Touches nothing beyond len. */
int meta_fact_decode(const void *bytes, size_t len, struct meta_fact *ret,
		     size_t *ret_used);

size_t meta_xattr_bytes(const struct meta_xattr *xattr);
size_t meta_xattr_encode(const struct meta_xattr *xattr, void *ret);
/* Walks encoded xattrs: 1 and *ret, 0 at the end, -EBADMSG.  *offset starts
 * at 0. */
int meta_xattr_next(const void *xattrs, size_t len, size_t *offset,
		    struct meta_xattr *ret);

#endif
