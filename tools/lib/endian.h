/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_LIB_ENDIAN_H
#define PAGEFS_TOOLS_LIB_ENDIAN_H

/*
 * Little-endian integers of the disk and wire formats, wrapped so that a plain
 * assignment does not compile. Format structs lay them out at their natural
 * alignment and assert sizes and offsets.
 */

#include <endian.h>
#include <stdint.h>

struct le16 {
	uint16_t v;
};
struct le32 {
	uint32_t v;
};
struct le64 {
	uint64_t v;
};

static inline uint16_t le16_get(struct le16 x)
{
	return le16toh(x.v);
}
static inline uint32_t le32_get(struct le32 x)
{
	return le32toh(x.v);
}
static inline uint64_t le64_get(struct le64 x)
{
	return le64toh(x.v);
}
static inline struct le16 le16_put(uint16_t v)
{
	return (struct le16){htole16(v)};
}
static inline struct le32 le32_put(uint32_t v)
{
	return (struct le32){htole32(v)};
}
static inline struct le64 le64_put(uint64_t v)
{
	return (struct le64){htole64(v)};
}

#endif
