/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/xattr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/late.h"
#include "fs/ops/ops.h"

/* libfuse's way of answering both "how long?" and "what?". */
static void reply(fuse_req_t req, const char *value, ssize_t len, size_t size)
{
	if (len >= 0 && size && (size_t)len > size)
		len = -ERANGE;
	if (len < 0)
		fuse_reply_err(req, (int)-len);
	else if (size == 0)
		fuse_reply_xattr(req, (size_t)len);
	else
		fuse_reply_buf(req, value, (size_t)len);
}

/* The object whose xattrs a node has. */
static uint64_t object_of(struct fs *fs, struct node *node)
{
	struct late late;

	if ((node->kind == NODE_PAGE || node->kind == NODE_SYMLINK) &&
	    late_entry(fs, node, &late) == 0)
		return late.entry.object;
	return node->object;
}

static ssize_t get_kept(struct fs *fs, struct node *node, const char *name,
			char *value, size_t size)
{
	uint64_t object = node->object, now = object;
	ssize_t len;

	if (node->kind == NODE_STAGING)
		return cache_stage_xattr_get(node->staging, name, value, size);
	if (node->kind == NODE_CONTROL)
		return -ENODATA;
	len = cache_xattr_get(fs->cache, object, name, value, size);
	/* Because there is none, or because the object went meanwhile. */
	for (int i = 0; i < LATE_TRIES && len == -ENODATA; i++) {
		now = object_of(fs, node);
		if (now == object)
			break;
		object = now;
		len = cache_xattr_get(fs->cache, object, name, value, size);
	}
	return len;
}

void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct fs *fs = fs_of(req);
	struct node *node = fs_node(req, ino);
	char fact[XATTR_FACT_BYTES], *value;
	ssize_t len;

	if (!node) {
		fuse_reply_err(req, ESTALE);
		return;
	}
	if (xattr_is_fact(name)) {
		len = xattr_fact(fs, node, name, fact);
		reply(req, fact, len, size);
		return;
	}
	/* The kernel asks for security.capability at each write: no more than
	 * this is needed. */
	if (!xattr_is_kept(name)) {
		fuse_reply_err(req, ENODATA);
		return;
	}
	if (late_refused(req, node))
		return;
	value = malloc(size ? size : 1);
	len = value ? get_kept(fs, node, name, value, size) : -ENOMEM;
	reply(req, value, len, size);
	free(value);
}

static ssize_t list(struct fs *fs, struct node *node, char *names, size_t size)
{
	size_t facts = node->kind == NODE_PAGE ? xattr_fact_names(NULL, 0) : 0;
	size_t room = size;
	ssize_t len;

	if (size && size < facts)
		return -ERANGE;
	if (size && facts)
		room -= xattr_fact_names(names, size);
	if (node->kind == NODE_CONTROL)
		return 0;
	/* No room left means "too small" here, not "how long?". */
	if (node->kind == NODE_STAGING)
		len = cache_stage_xattr_list(
			node->staging, names ? names + facts : NULL, room);
	else
		len = cache_xattr_list(fs->cache, object_of(fs, node),
				       names ? names + facts : NULL, room);
	if (len > 0 && size && !room)
		return -ERANGE;
	return len < 0 ? len : len + (ssize_t)facts;
}

void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct node *node = fs_node(req, ino);

	if (node && late_refused(req, node))
		return;

	char *names = size ? malloc(size) : NULL;
	ssize_t len = -ENOMEM;

	if (!node)
		len = -ESTALE;
	else if (!size || names)
		len = list(fs_of(req), node, names, size);
	reply(req, names, len, size);
	free(names);
}

/* Goes to what the node's name leads to, if its own version was replaced; to
 * nothing, if only who has it open could see it. */
static int set_named(struct fs *fs, struct node *node, const char *xattr,
		     const char *value, size_t size, int flags)
{
	struct cache_name name = {0, "", 0};
	char buf[NAME_MAX_BYTES];
	struct late late;
	int outcome;

	if (node->number != NODE_ROOT && !fs_node_name(fs, node, buf, &name))
		return CACHE_MISS;
	outcome = cache_xattr_set(fs->cache, &name, node->object, xattr, value,
				  size, flags);
	for (int i = 0; i < LATE_TRIES && outcome == CACHE_MISS; i++) {
		if (node->kind == NODE_DIR) /* moved just now */
			return CACHE_STALE;
		if (late_entry(fs, node, &late))
			break;
		if (!late.named)
			return 0;
		outcome = cache_xattr_set(fs->cache, &late.name,
					  late.entry.object, xattr, value, size,
					  flags);
	}
	return outcome;
}

/* value NULL removes. */
static void set(fuse_req_t req, fuse_ino_t ino, const char *xattr,
		const char *value, size_t size, int flags)
{
	struct fs *fs = fs_of(req);
	struct node *node = fs_node(req, ino);
	int outcome;

	if (node && late_refused(req, node))
		return;
	/* Not EPERM: whoever copies all xattrs of a page skips these then. */
	if (!xattr_is_kept(xattr))
		outcome = -EOPNOTSUPP;
	else if (!node)
		outcome = CACHE_STALE;
	else if (node->kind == NODE_CONTROL)
		outcome = -EPERM;
	else if (node->kind == NODE_STAGING)
		outcome = cache_stage_xattr_set(node->staging, xattr, value,
						size, flags);
	else
		outcome = set_named(fs, node, xattr, value, size, flags);
	fuse_reply_err(req, fs_errno(outcome));
}

void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
		 const char *value, size_t size, int flags)
{
	set(req, ino, name, value ? value : "", size, flags);
}

void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	set(req, ino, name, NULL, 0, 0);
}
