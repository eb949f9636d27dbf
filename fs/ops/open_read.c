/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include "fs/ops/opening.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How often a version may be replaced while it is being opened. */
#define TRIES 16

/* An OPEN on its way: perhaps until the disk has answered. */
struct opening {
	fuse_req_t req;
	struct fs *fs;
	struct node *node; /* lives while its request does */
	struct fuse_file_info fi;
	bool again; /* this follows an ESTALE: no second one */
	int tries;  /* to open what the name leads to by now */
	struct cache_name name;
	char buf[NAME_MAX_BYTES];
};

/* Fails for good: the caller sees ENOENT.  The kernel's entry would let stat
 * go on succeeding, so it is invalidated. */
static void refuse(struct opening *o)
{
	o->fs->opens_failed++;
	fuse_reply_err(o->req, ENOENT);
	inval_name(o->fs->inval, o->name.dir, o->name.name, o->name.len, NULL,
		   NULL);
}

/* The kernel shall look again, and will find something else. */
static void again(struct opening *o)
{
	if (o->again)
		refuse(o);
	else
		opening_again(o->req, &o->name,
			      &(struct reservation){.reads = true});
}

/* Takes over the page. */
static void serve(struct opening *o, struct cache_page *page)
{
	struct handle *handle = handle_new(o->fs, o->node);

	if (!handle) {
		cache_page_close(page);
		fuse_reply_err(o->req, ENOMEM);
		return;
	}
	handle->page = node_opened(o->fs->nodes, o->node, page);
	/* The kernel has attributes of the node's version.  This waits for no
	 * lock. */
	if (!fs_is_version(cache_page_entry(handle->page), o->node))
		(void)fuse_lowlevel_notify_inval_inode(o->fs->session,
						       o->node->number, -1, 0);
	opening_reply(o->fs, o->req, &o->fi, handle);
}

static void opened(void *arg, int outcome, struct cache_page *page);

/* The kernel was sent to look again, and that version has been replaced, too,
 * before it could be opened ahead; or it did not look: whoever comes by a
 * descriptor (/proc/self/fd) means this version, which can be had as long as
 * somebody has it open.  Else the node serves what its name leads to by now.
 * True: that is on its way. */
static bool open_current(struct opening *o)
{
	struct cache_page *page = node_page(o->fs->nodes, o->node);
	struct cache_found found = {0};
	int outcome;

	if (page) {
		opened(o, 0, page);
		return true;
	}
	if (o->tries++ == TRIES)
		return false;
	outcome = cache_lookup(o->fs->cache, &o->name, 0, &found);
	if (outcome == CACHE_STAGED)
		cache_staging_put(found.staging);
	if (outcome || found.entry.type != META_FILE)
		return false;
	cache_page_open(o->fs->cache, &o->name, &found.entry, opened, o);
	return true;
}

static void finish(struct opening *o, int outcome, struct cache_page *page)
{
	struct negative *negative = cache_negative(o->fs->cache);

	switch (outcome) {
	case 0:
		serve(o, page);
		break;
	case CACHE_STALE:
	case CACHE_HIDDEN:
		again(o);
		break;
	case CACHE_FAILED:
		/* The negative entry that is there now answers the look-up. */
		if (negative_enabled(negative)) {
			o->fs->opens_failed++;
			again(o);
		} else {
			refuse(o);
		}
		break;
	default:
		refuse(o);
	}
}

static void opened(void *arg, int outcome, struct cache_page *page)
{
	struct opening *o = arg;
	struct fs *fs = o->fs;

	if (outcome == CACHE_STALE && o->again && open_current(o))
		return;
	finish(o, outcome, page);
	free(o);
	fs_background_end(fs);
}

/* What the look-up that followed an ESTALE kept for us: NULL if nothing. */
static struct cache_page *reserved(struct opening *o)
{
	struct key_id key =
		negative_key(o->name.dir, o->name.name, o->name.len);
	struct reservation r;
	struct cache_page *page;

	if (!reserve_take(o->fs->reserves, fuse_req_ctx(o->req)->pid, &key, &r))
		return NULL;
	o->again = true;
	page = r.page;
	r.page = NULL;
	reservation_release(&r);
	if (page && !fs_is_version(cache_page_entry(page), o->node)) {
		cache_page_close(page);
		page = NULL;
	}
	return page;
}

static void start(struct opening *o)
{
	struct cache_page *page = reserved(o);
	struct cache_found found = {0};
	int outcome;

	fs_background_begin(o->fs);
	if (page) {
		opened(o, 0, page);
		return;
	}
	outcome = cache_lookup(o->fs->cache, &o->name, 0, &found);
	if (outcome == CACHE_STAGED)
		cache_staging_put(found.staging);
	if (outcome == 0 && fs_is_version(&found.entry, o->node))
		cache_page_open(o->fs->cache, &o->name, &found.entry, opened,
				o);
	else
		opened(o, outcome == CACHE_HIDDEN ? outcome : CACHE_STALE,
		       NULL);
}

void opening_read(fuse_req_t req, struct node *node, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct opening *o = malloc(sizeof(*o));

	if (!o) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	o->req = req;
	o->fs = fs;
	o->node = node;
	o->fi = *fi;
	o->again = false;
	o->tries = 0;
	if (!fs_node_name(fs, node, o->buf, &o->name)) {
		free(o);
		fuse_reply_err(req, ENOENT);
		return;
	}
	start(o);
}
