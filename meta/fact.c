/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/fact.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "tools/lib/endian.h"

#define FACT_VERSION 1

/* Then the entry (SET only), key, to_key, target and xattrs, without gaps. */
struct fact_bytes {
	uint8_t version;
	uint8_t kind;
	struct le16 key_bytes;
	struct le16 to_key_bytes;
	struct le16 target_bytes;
	struct le32 xattrs_bytes;
	struct le32 reserved;
	struct le64 clock;
	struct le64 node;
};

static_assert(sizeof(struct fact_bytes) == 32, "format");
static_assert(offsetof(struct fact_bytes, key_bytes) == 2, "format");
static_assert(offsetof(struct fact_bytes, to_key_bytes) == 4, "format");
static_assert(offsetof(struct fact_bytes, target_bytes) == 6, "format");
static_assert(offsetof(struct fact_bytes, xattrs_bytes) == 8, "format");
static_assert(offsetof(struct fact_bytes, reserved) == 12, "format");
static_assert(offsetof(struct fact_bytes, clock) == 16, "format");
static_assert(offsetof(struct fact_bytes, node) == 24, "format");

/* Then the name and the value. */
struct xattr_bytes {
	struct le16 name_bytes;
	struct le16 reserved;
	struct le32 value_bytes;
};

static_assert(sizeof(struct xattr_bytes) == 8, "format");
static_assert(offsetof(struct xattr_bytes, value_bytes) == 4, "format");

static size_t fact_entry_bytes(enum meta_fact_kind kind)
{
	return kind == META_FACT_SET ? META_ENTRY_BYTES : 0;
}

size_t meta_fact_bytes(const struct meta_fact *fact)
{
	return sizeof(struct fact_bytes) + fact_entry_bytes(fact->kind) +
	       fact->key_bytes + fact->to_key_bytes + fact->target_bytes +
	       fact->xattrs_bytes;
}

static uint8_t *append(uint8_t *to, const void *bytes, size_t len)
{
	if (len > 0)
		memcpy(to, bytes, len);
	return to + len;
}

size_t meta_fact_encode(const struct meta_fact *fact, void *ret)
{
	struct fact_bytes b = {
		.version = FACT_VERSION,
		.kind = (uint8_t)fact->kind,
		.key_bytes = le16_put((uint16_t)fact->key_bytes),
		.to_key_bytes = le16_put((uint16_t)fact->to_key_bytes),
		.target_bytes = le16_put((uint16_t)fact->target_bytes),
		.xattrs_bytes = le32_put((uint32_t)fact->xattrs_bytes),
		.clock = le64_put(fact->at.clock),
		.node = le64_put(fact->at.node),
	};
	uint8_t *to = ret;

	assert(fact->key_bytes <= KEY_MAX_BYTES);
	assert(fact->to_key_bytes <= KEY_MAX_BYTES);
	assert(fact->target_bytes <= SYMLINK_MAX_BYTES);
	assert(fact->xattrs_bytes <= UINT32_MAX);

	to = append(to, &b, sizeof(b));
	if (fact->kind == META_FACT_SET) {
		meta_entry_encode(&fact->entry, to);
		to += META_ENTRY_BYTES;
	}
	to = append(to, fact->key, fact->key_bytes);
	to = append(to, fact->to_key, fact->to_key_bytes);
	to = append(to, fact->target, fact->target_bytes);
	to = append(to, fact->xattrs, fact->xattrs_bytes);
	return (size_t)(to - (uint8_t *)ret);
}

static bool component_is_possible(const char *name, size_t len)
{
	if (len == 0 || len > NAME_MAX_BYTES || memchr(name, '\0', len) != NULL)
		return false;
	return !(name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')));
}

/* Whoever applies a fact walks its key down from the root: a key that leads
 * elsewhere must not come that far. */
static bool key_is_possible(const char *key, size_t len)
{
	const char *end = key + len;

	if (len == 0 || len > KEY_MAX_BYTES)
		return false;
	for (;;) {
		const char *slash = memchr(key, '/', (size_t)(end - key));
		const char *stop = slash != NULL ? slash : end;

		if (!component_is_possible(key, (size_t)(stop - key)))
			return false;
		if (slash == NULL)
			return true;
		key = slash + 1;
	}
}

static bool xattrs_are_possible(const void *xattrs, size_t len)
{
	struct meta_xattr xattr;
	size_t offset = 0;
	int rc;

	while ((rc = meta_xattr_next(xattrs, len, &offset, &xattr)) > 0)
		;
	return rc == 0;
}

static bool set_is_possible(const struct meta_fact *fact)
{
	bool root = fact->key_bytes == 0 && fact->entry.type == META_DIR;
	bool symlink = fact->entry.type == META_SYMLINK;

	return (root || key_is_possible(fact->key, fact->key_bytes)) &&
	       fact->to_key_bytes == 0 && symlink == (fact->target_bytes > 0) &&
	       fact->target_bytes <= SYMLINK_MAX_BYTES &&
	       xattrs_are_possible(fact->xattrs, fact->xattrs_bytes);
}

static bool fact_is_possible(const struct meta_fact *fact)
{
	switch (fact->kind) {
	case META_FACT_SET:
		return set_is_possible(fact);
	case META_FACT_GONE:
		return key_is_possible(fact->key, fact->key_bytes) &&
		       fact->to_key_bytes == 0 && fact->target_bytes == 0 &&
		       fact->xattrs_bytes == 0;
	case META_FACT_MOVED:
		return key_is_possible(fact->key, fact->key_bytes) &&
		       key_is_possible(fact->to_key, fact->to_key_bytes) &&
		       fact->target_bytes == 0 && fact->xattrs_bytes == 0;
	}
	return false;
}

int meta_fact_decode(const void *bytes, size_t len, struct meta_fact *ret,
		     size_t *ret_used)
{
	const char *at = bytes;
	struct fact_bytes b;
	struct meta_fact fact = {0};

	if (len < sizeof(b))
		return -EBADMSG;
	memcpy(&b, bytes, sizeof(b));
	if (b.version != FACT_VERSION || b.kind < META_FACT_SET ||
	    b.kind > META_FACT_MOVED || le32_get(b.reserved) != 0)
		return -EBADMSG;

	fact.kind = (enum meta_fact_kind)b.kind;
	fact.at.clock = le64_get(b.clock);
	fact.at.node = le64_get(b.node);
	fact.key_bytes = le16_get(b.key_bytes);
	fact.to_key_bytes = le16_get(b.to_key_bytes);
	fact.target_bytes = le16_get(b.target_bytes);
	fact.xattrs_bytes = le32_get(b.xattrs_bytes);
	if (meta_fact_bytes(&fact) > len)
		return -EBADMSG;

	at += sizeof(b);
	if (fact.kind == META_FACT_SET) {
		if (meta_entry_decode(at, META_ENTRY_BYTES, &fact.entry) < 0)
			return -EBADMSG;
		at += META_ENTRY_BYTES;
	}
	fact.key = at;
	fact.to_key = fact.key + fact.key_bytes;
	fact.target = fact.to_key + fact.to_key_bytes;
	fact.xattrs = fact.target + fact.target_bytes;
	if (!fact_is_possible(&fact))
		return -EBADMSG;
	*ret = fact;
	*ret_used = meta_fact_bytes(&fact);
	return 0;
}

size_t meta_xattr_bytes(const struct meta_xattr *xattr)
{
	return sizeof(struct xattr_bytes) + xattr->name_bytes +
	       xattr->value_bytes;
}

size_t meta_xattr_encode(const struct meta_xattr *xattr, void *ret)
{
	struct xattr_bytes b = {
		.name_bytes = le16_put((uint16_t)xattr->name_bytes),
		.value_bytes = le32_put((uint32_t)xattr->value_bytes),
	};
	uint8_t *to = ret;

	assert(xattr->name_bytes > 0 && xattr->name_bytes <= NAME_MAX_BYTES);
	assert(xattr->value_bytes <= XATTR_MAX_BYTES);

	to = append(to, &b, sizeof(b));
	to = append(to, xattr->name, xattr->name_bytes);
	to = append(to, xattr->value, xattr->value_bytes);
	return (size_t)(to - (uint8_t *)ret);
}

int meta_xattr_next(const void *xattrs, size_t len, size_t *offset,
		    struct meta_xattr *ret)
{
	struct xattr_bytes b;
	struct meta_xattr xattr;
	const char *at;

	if (*offset >= len)
		return *offset == len ? 0 : -EBADMSG;
	if (len - *offset < sizeof(b))
		return -EBADMSG;
	at = (const char *)xattrs + *offset;
	memcpy(&b, at, sizeof(b));
	xattr.name = at + sizeof(b);
	xattr.name_bytes = le16_get(b.name_bytes);
	xattr.value = xattr.name + xattr.name_bytes;
	xattr.value_bytes = le32_get(b.value_bytes);
	if (le16_get(b.reserved) != 0 || xattr.name_bytes == 0 ||
	    xattr.name_bytes > NAME_MAX_BYTES ||
	    xattr.value_bytes > XATTR_MAX_BYTES ||
	    meta_xattr_bytes(&xattr) > len - *offset)
		return -EBADMSG;
	*offset += meta_xattr_bytes(&xattr);
	*ret = xattr;
	return 1;
}
