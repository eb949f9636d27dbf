/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/entry.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "meta/row.h"
#include "tools/lib/endian.h"

#define ENTRY_VERSION 1
#define ENTRY_MODE_BITS 07777u
#define ENTRY_FLAGS_KNOWN ((uint32_t)(META_ON_DISK | META_NAME_NEW))

struct entry_bytes {
	uint8_t version;
	uint8_t type;
	uint8_t chunk_shift;
	uint8_t reserved8;
	struct le32 mode;
	struct le32 uid;
	struct le32 gid;
	struct le32 flags;
	struct le32 chunks;
	struct le64 object;
	struct le64 clock;
	struct le64 node;
	struct le64 size_bytes;
	struct le64 stored_bytes;
	struct le64 successor;
	struct le64 atime_ns;
	struct le64 mtime_ns;
	struct le64 ctime_ns;
	struct le64 reserved;
};

static_assert(sizeof(struct entry_bytes) == META_ENTRY_BYTES, "format");
static_assert(offsetof(struct entry_bytes, mode) == 4, "format");
static_assert(offsetof(struct entry_bytes, uid) == 8, "format");
static_assert(offsetof(struct entry_bytes, gid) == 12, "format");
static_assert(offsetof(struct entry_bytes, flags) == 16, "format");
static_assert(offsetof(struct entry_bytes, chunks) == 20, "format");
static_assert(offsetof(struct entry_bytes, object) == 24, "format");
static_assert(offsetof(struct entry_bytes, clock) == 32, "format");
static_assert(offsetof(struct entry_bytes, node) == 40, "format");
static_assert(offsetof(struct entry_bytes, size_bytes) == 48, "format");
static_assert(offsetof(struct entry_bytes, stored_bytes) == 56, "format");
static_assert(offsetof(struct entry_bytes, successor) == 64, "format");
static_assert(offsetof(struct entry_bytes, atime_ns) == 72, "format");
static_assert(offsetof(struct entry_bytes, mtime_ns) == 80, "format");
static_assert(offsetof(struct entry_bytes, ctime_ns) == 88, "format");
static_assert(offsetof(struct entry_bytes, reserved) == 96, "format");

void meta_entry_encode(const struct meta_entry *entry,
		       uint8_t ret[META_ENTRY_BYTES])
{
	struct entry_bytes b = {
		.version = ENTRY_VERSION,
		.type = (uint8_t)entry->type,
		.chunk_shift = entry->chunk_shift,
		.mode = le32_put((uint32_t)entry->mode & ENTRY_MODE_BITS),
		.uid = le32_put(entry->uid),
		.gid = le32_put(entry->gid),
		.flags = le32_put(entry->flags),
		.chunks = le32_put(entry->chunks),
		.object = le64_put(entry->object),
		.clock = le64_put(entry->version.clock),
		.node = le64_put(entry->version.node),
		.size_bytes = le64_put(entry->size_bytes),
		.stored_bytes = le64_put(entry->stored_bytes),
		.successor = le64_put(entry->successor),
		.atime_ns = le64_put((uint64_t)entry->atime_ns),
		.mtime_ns = le64_put((uint64_t)entry->mtime_ns),
		.ctime_ns = le64_put((uint64_t)entry->ctime_ns),
	};

	memcpy(ret, &b, sizeof(b));
}

bool entry_is_possible(const struct meta_entry *entry)
{
	return entry->type >= META_FILE && entry->type <= META_SYMLINK &&
	       entry->chunk_shift <= CHUNK_SHIFT_MAX &&
	       (entry->mode & ~ENTRY_MODE_BITS) == 0 &&
	       (entry->flags & ~ENTRY_FLAGS_KNOWN) == 0 && entry->object != 0 &&
	       entry->size_bytes <= PAGE_MAX_BYTES &&
	       entry->stored_bytes <= PAGE_MAX_BYTES;
}

int meta_entry_decode(const void *bytes, size_t len, struct meta_entry *ret)
{
	struct entry_bytes b;
	struct meta_entry entry;

	if (len != sizeof(b))
		return -EBADMSG;
	memcpy(&b, bytes, sizeof(b));
	if (b.version != ENTRY_VERSION || b.reserved8 != 0 ||
	    le64_get(b.reserved) != 0)
		return -EBADMSG;

	entry = (struct meta_entry){
		.type = (enum meta_type)b.type,
		.mode = le32_get(b.mode),
		.uid = le32_get(b.uid),
		.gid = le32_get(b.gid),
		.flags = le32_get(b.flags),
		.object = le64_get(b.object),
		.version = {.clock = le64_get(b.clock),
			    .node = le64_get(b.node)},
		.size_bytes = le64_get(b.size_bytes),
		.stored_bytes = le64_get(b.stored_bytes),
		.chunks = le32_get(b.chunks),
		.chunk_shift = b.chunk_shift,
		.successor = le64_get(b.successor),
		.atime_ns = (int64_t)le64_get(b.atime_ns),
		.mtime_ns = (int64_t)le64_get(b.mtime_ns),
		.ctime_ns = (int64_t)le64_get(b.ctime_ns),
	};
	if (!entry_is_possible(&entry))
		return -EBADMSG;
	*ret = entry;
	return 0;
}
