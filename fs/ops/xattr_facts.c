/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/xattr.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/late.h"

#define PREFIX "user.pagefs."

enum fact {
	TIER,
	REPLICAS,
	OWNER,
	VERSION,
	CHECKSUM,
	HITS,
	FACTS
};

static const char *const names[FACTS] = {
	[TIER] = PREFIX "tier",		[REPLICAS] = PREFIX "replicas",
	[OWNER] = PREFIX "owner",	[VERSION] = PREFIX "version",
	[CHECKSUM] = PREFIX "checksum", [HITS] = PREFIX "hits",
};

bool xattr_is_fact(const char *name)
{
	return strncmp(name, PREFIX, strlen(PREFIX)) == 0;
}

bool xattr_is_kept(const char *name)
{
	return strncmp(name, "user.", 5) == 0 && name[5] &&
	       !xattr_is_fact(name);
}

size_t xattr_fact_names(char *ret, size_t size)
{
	size_t len = 0;

	for (int i = 0; i < FACTS; i++) {
		size_t need = strlen(names[i]) + 1;

		if (size)
			memcpy(ret + len, names[i], need);
		len += need;
	}
	return len;
}

static const char *tier(const struct cache_facts *facts)
{
	if (facts->in_memory)
		return facts->on_disk ? "memory,disk" : "memory";
	if (facts->on_disk)
		return "disk";
	return facts->memory_bytes ? "memory,disk (in part)" : "none";
}

static int print(enum fact fact, const struct cache_facts *facts, char *ret)
{
	size_t size = XATTR_FACT_BYTES;

	switch (fact) {
	case TIER:
		return snprintf(ret, size, "%s", tier(facts));
	case REPLICAS:
		return snprintf(ret, size, "1");
	case OWNER:
		return snprintf(ret, size, "%016llx",
				(unsigned long long)facts->version.node);
	case VERSION:
		return snprintf(ret, size, "%016llx.%llx",
				(unsigned long long)facts->version.clock,
				(unsigned long long)facts->version.node);
	case CHECKSUM:
		return snprintf(ret, size, "xxh3:%016llx",
				(unsigned long long)facts->checksum);
	case HITS:
		return snprintf(ret, size, "%llu",
				(unsigned long long)facts->hits);
	case FACTS:
		break;
	}
	return -ENODATA;
}

ssize_t xattr_fact(struct fs *fs, struct node *node, const char *name,
		   char ret[XATTR_FACT_BYTES])
{
	struct late late;
	struct cache_facts facts;
	int fact = 0, error;

	while (fact < FACTS && strcmp(names[fact], name) != 0)
		fact++;
	if (fact == FACTS || node->kind != NODE_PAGE)
		return -ENODATA;
	error = late_entry(fs, node, &late);
	if (!error)
		error = cache_get_facts(fs->cache, &late.entry, &facts);
	if (error)
		return -fs_errno(error);
	return print((enum fact)fact, &facts, ret);
}
