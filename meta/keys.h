/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_META_KEYS_H
#define PAGEFS_META_KEYS_H

/*
 * Numbers in keys: big-endian, so that LMDB's order of bytes is theirs.
 */

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline void key_put64(uint8_t *to, uint64_t v)
{
	v = htobe64(v);
	memcpy(to, &v, sizeof(v));
}

static inline void key_put32(uint8_t *to, uint32_t v)
{
	v = htobe32(v);
	memcpy(to, &v, sizeof(v));
}

static inline uint64_t key_get64(const void *from)
{
	uint64_t v;

	memcpy(&v, from, sizeof(v));
	return be64toh(v);
}

static inline uint32_t key_get32(const void *from)
{
	uint32_t v;

	memcpy(&v, from, sizeof(v));
	return be32toh(v);
}

#endif
