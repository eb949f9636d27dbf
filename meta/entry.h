/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_META_ENTRY_H
#define PAGEFS_META_ENTRY_H

/*
 * What a name leads to.  The encoding (fixed-width little-endian, version
 * byte first) is the same in LMDB, in bucket records and in journals.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/lib/page.h"

enum meta_type {
	META_FILE = 1,
	META_DIR = 2,
	META_SYMLINK = 3
};

#define META_ROOT 1ull /* the object number of the mount's root directory */

enum meta_entry_flags {
	META_ON_DISK = 1 << 0,	/* every chunk is in a bucket */
	META_NAME_NEW = 1 << 1, /* no bucket holds this name, nor a batch that
				   is being written, so a rename has nothing to
				   take back */
};

struct meta_entry {
	enum meta_type type;
	mode_t mode; /* permission bits, setuid and sticky included */
	uid_t uid;
	gid_t gid;
	uint32_t flags;
	uint64_t object;	     /* never reused; see struct chunk_id */
	struct page_version version; /* of the last commit */
	uint64_t size_bytes;
	uint64_t stored_bytes; /* sum of the chunks' lengths: st_blocks */
	uint32_t chunks;       /* rows there must be; holes have none.  Fewer
				  means that the page is lost */
	uint8_t chunk_shift;   /* chunk i covers [i << shift, (i+1) << shift) */
	uint64_t successor;    /* the object written after this one; 0: none */
	int64_t atime_ns;
	int64_t mtime_ns;
	int64_t ctime_ns;
};

#define META_ENTRY_BYTES 104u /* encoded */

void meta_entry_encode(const struct meta_entry *entry,
		       uint8_t ret[META_ENTRY_BYTES]);
/* 0, or -EBADMSG: wrong length, version byte or a value that can't be. */
int meta_entry_decode(const void *bytes, size_t len, struct meta_entry *ret);

#endif
