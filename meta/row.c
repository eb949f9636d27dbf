/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/row.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "tools/lib/endian.h"

#define ROW_VERSION 1u
#define NS_PER_MS UINT64_C(1000000)
#define CLOCK_COUNTER_BITS 16
#define VARINT_MAX_BYTES 10

/* A version, the type, chunk_shift, the version's clock and node (little-
 * endian, 8 bytes each), then the numbers in the order of enum number. */
#define ROW_HEAD_BYTES 19u

/* Those that are mostly near another one are kept as the difference to it. */
enum number {
	NUMBER_MODE,
	NUMBER_UID,
	NUMBER_GID,
	NUMBER_FLAGS,
	NUMBER_CHUNKS,
	NUMBER_OBJECT,
	NUMBER_SIZE,
	NUMBER_HOLES,	  /* size - stored */
	NUMBER_SUCCESSOR, /* - object */
	NUMBER_MTIME,	  /* - the version's time */
	NUMBER_ATIME,	  /* - mtime */
	NUMBER_CTIME,	  /* - mtime */
	NUMBERS,
};

/* Mode, uid, gid, flags and chunks take at most 5 bytes. */
static_assert(ROW_HEAD_BYTES + 5 * 5 + (NUMBERS - 5) * VARINT_MAX_BYTES <=
		      ENTRY_ROW_MAX,
	      "the longest row fits");

uint8_t *varint_put(uint8_t *to, uint64_t v)
{
	while (v >= 0x80) {
		*to++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*to++ = (uint8_t)v;
	return to;
}

const uint8_t *varint_get(const uint8_t *from, const uint8_t *end,
			  uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64 && from < end; shift += 7) {
		uint8_t byte = *from++;

		if (shift == 63 && byte > 1)
			return NULL;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if ((byte & 0x80) == 0) {
			*ret = v;
			return from;
		}
	}
	return NULL;
}

/* Small differences of either sign become small numbers. */
static uint64_t zigzag(uint64_t difference)
{
	return difference << 1 ^ (0 - (difference >> 63));
}

static uint64_t unzigzag(uint64_t v)
{
	return v >> 1 ^ (0 - (v & 1));
}

static uint64_t time_of(uint64_t clock)
{
	return (clock >> CLOCK_COUNTER_BITS) * NS_PER_MS;
}

size_t entry_row_encode(const struct meta_entry *entry,
			uint8_t ret[ENTRY_ROW_MAX])
{
	const uint64_t mtime = (uint64_t)entry->mtime_ns;
	const uint64_t numbers[NUMBERS] = {
		[NUMBER_MODE] = entry->mode & 07777u,
		[NUMBER_UID] = entry->uid,
		[NUMBER_GID] = entry->gid,
		[NUMBER_FLAGS] = entry->flags,
		[NUMBER_CHUNKS] = entry->chunks,
		[NUMBER_OBJECT] = entry->object,
		[NUMBER_SIZE] = entry->size_bytes,
		[NUMBER_HOLES] =
			zigzag(entry->size_bytes - entry->stored_bytes),
		[NUMBER_SUCCESSOR] = zigzag(entry->successor - entry->object),
		[NUMBER_MTIME] = zigzag(mtime - time_of(entry->version.clock)),
		[NUMBER_ATIME] = zigzag((uint64_t)entry->atime_ns - mtime),
		[NUMBER_CTIME] = zigzag((uint64_t)entry->ctime_ns - mtime),
	};
	const struct le64 clock = le64_put(entry->version.clock);
	const struct le64 node = le64_put(entry->version.node);
	uint8_t *to = ret;

	*to++ = ROW_VERSION;
	*to++ = (uint8_t)entry->type;
	*to++ = entry->chunk_shift;
	memcpy(to, &clock, sizeof(clock));
	memcpy(to + sizeof(clock), &node, sizeof(node));
	to += sizeof(clock) + sizeof(node);
	for (int i = 0; i < NUMBERS; i++)
		to = varint_put(to, numbers[i]);
	return (size_t)(to - ret);
}

static int numbers_get(const uint8_t *at, const uint8_t *end,
		       uint64_t numbers[NUMBERS])
{
	for (int i = 0; i < NUMBERS; i++) {
		at = varint_get(at, end, &numbers[i]);
		if (at == NULL)
			return -EBADMSG;
	}
	for (int i = NUMBER_MODE; i <= NUMBER_CHUNKS; i++) {
		if (numbers[i] > UINT32_MAX)
			return -EBADMSG;
	}
	return at == end ? 0 : -EBADMSG;
}

int entry_row_decode(const void *bytes, size_t len, struct meta_entry *ret)
{
	const uint8_t *at = bytes;
	uint64_t n[NUMBERS], mtime;
	struct meta_entry entry;
	struct le64 clock, node;

	if (len < ROW_HEAD_BYTES || at[0] != ROW_VERSION ||
	    numbers_get(at + ROW_HEAD_BYTES, at + len, n) < 0)
		return -EBADMSG;
	memcpy(&clock, at + 3, sizeof(clock));
	memcpy(&node, at + 11, sizeof(node));
	mtime = unzigzag(n[NUMBER_MTIME]) + time_of(le64_get(clock));
	entry = (struct meta_entry){
		.type = (enum meta_type)at[1],
		.mode = (mode_t)n[NUMBER_MODE],
		.uid = (uid_t)n[NUMBER_UID],
		.gid = (gid_t)n[NUMBER_GID],
		.flags = (uint32_t)n[NUMBER_FLAGS],
		.object = n[NUMBER_OBJECT],
		.version = {.clock = le64_get(clock), .node = le64_get(node)},
		.size_bytes = n[NUMBER_SIZE],
		.stored_bytes = n[NUMBER_SIZE] - unzigzag(n[NUMBER_HOLES]),
		.chunks = (uint32_t)n[NUMBER_CHUNKS],
		.chunk_shift = at[2],
		.successor = n[NUMBER_OBJECT] + unzigzag(n[NUMBER_SUCCESSOR]),
		.atime_ns = (int64_t)(mtime + unzigzag(n[NUMBER_ATIME])),
		.mtime_ns = (int64_t)mtime,
		.ctime_ns = (int64_t)(mtime + unzigzag(n[NUMBER_CTIME])),
	};
	if (!entry_is_possible(&entry))
		return -EBADMSG;
	*ret = entry;
	return 0;
}
