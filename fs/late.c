/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/late.h"

#include <errno.h>

#include "fs/ops/opening.h"
#include "fs/process.h"

static bool is_kind(const struct meta_entry *entry, const struct node *node)
{
	return entry->type ==
	       (node->kind == NODE_SYMLINK ? META_SYMLINK : META_FILE);
}

static bool leads_to(const struct meta_entry *entry, const struct node *node)
{
	return is_kind(entry, node) && entry->object == node->object &&
	       (node->kind == NODE_SYMLINK ||
		entry->version.clock == node->clock);
}

/* What the name leads to, if the node could be that. */
static int find(struct fs *fs, struct node *node, struct late *late)
{
	struct cache_found found;
	int outcome;

	if (!fs_node_name(fs, node, late->buf, &late->name))
		return CACHE_MISS;
	outcome = cache_lookup(fs->cache, &late->name, 0, &found);
	if (outcome == CACHE_STAGED) { /* -o show_partial */
		cache_staging_put(found.staging);
		return CACHE_MISS;
	}
	if (outcome)
		return outcome < 0 ? outcome : CACHE_MISS;
	if (!is_kind(&found.entry, node))
		return CACHE_MISS;
	late->entry = found.entry;
	late->links = found.links;
	late->named = true;
	late->own = leads_to(&found.entry, node);
	return 0;
}

int late_entry(struct fs *fs, struct node *node, struct late *ret)
{
	const struct meta_entry *open;
	struct cache_page *page;
	int outcome;

	ret->own = ret->named = false;
	outcome = find(fs, node, ret);
	if (ret->own || outcome < 0)
		return outcome;
	page = node_page(fs->nodes, node);
	if (page) {
		open = cache_page_entry(page);
		if (outcome || open->object != ret->entry.object ||
		    open->version.clock != ret->entry.version.clock) {
			ret->entry = *open;
			ret->links = 0;
			ret->named = false;
		}
		cache_page_close(page);
		return 0;
	}
	if (outcome && node_gone(fs->nodes, node, &ret->entry)) {
		ret->links = 0;
		outcome = 0;
	}
	return outcome;
}

static bool may_see(fuse_req_t req, struct node *node)
{
	pid_t thread = fuse_req_ctx(req)->pid;
	pid_t process = process_of_thread(thread);

	return !process || cache_staging_shows(node->staging, process) ||
	       process_may_have_file(thread, node->object);
}

static void refuse(fuse_req_t req, struct node *node)
{
	struct fs *fs = fs_of(req);
	char buf[NAME_MAX_BYTES];
	struct cache_name name;
	struct key_id key;

	if (!fs_node_name(fs, node, buf, &name)) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	key = negative_key(name.dir, name.name, name.len);
	if (reserve_has(fs->reserves, fuse_req_ctx(req)->pid, &key))
		fuse_reply_err(req, ENOENT);
	else
		opening_again(req, &name, &(struct reservation){0});
}

bool late_refused_open(fuse_req_t req, struct node *node)
{
	if (node->kind != NODE_STAGING || may_see(req, node))
		return false;
	refuse(req, node);
	return true;
}

bool late_refused(fuse_req_t req, struct node *node)
{
	/* In this order: a commit may come between. */
	if (node->kind != NODE_STAGING || may_see(req, node) ||
	    cache_staging_clean(node->staging))
		return false;
	refuse(req, node);
	return true;
}

void late_before(struct fs *fs, const struct cache_name *name,
		 struct cache_found *ret)
{
	int outcome = cache_lookup(fs->cache, name, 0, ret);

	if (outcome == CACHE_STAGED)
		cache_staging_put(ret->staging);
	if (outcome)
		ret->entry.object = 0;
	ret->staging = NULL;
}

void late_gone(struct fs *fs, const struct cache_name *name,
	       const struct cache_found *found)
{
	if (found->entry.object &&
	    (found->links <= 1 || found->entry.type == META_DIR))
		fs_gone(fs, name, found);
}
