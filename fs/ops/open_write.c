/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include "fs/late.h"
#include "fs/ops/opening.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* A name that can't be opened (for writing, with these flags) after all: as
 * the caller of open(2) sees it. */
static void failed(fuse_req_t req, const struct cache_name *name, int outcome,
		   bool again, unsigned flags)
{
	struct fs *fs = fs_of(req);
	const struct reservation keep = {
		.reads = flags & CACHE_STAGE_PEEK,
		.writes = !(flags & CACHE_STAGE_PEEK),
		.flags = flags & ~(unsigned)CACHE_STAGE_TRUNCATE,
	};

	if (!again && (outcome == CACHE_MISS || outcome == CACHE_HIDDEN ||
		       outcome == CACHE_FAILED || outcome == CACHE_STALE)) {
		opening_again(req, name, &keep);
		return;
	}
	fs->opens_failed++;
	fuse_reply_err(req, outcome > 0 ? ENOENT : -outcome);
	if (outcome > 0)
		inval_name(fs->inval, name->dir, name->name, name->len, NULL,
			   NULL);
}

/* Renamed meanwhile? */
static bool is_called(struct cache_writer *writer,
		      const struct cache_name *name)
{
	char buf[NAME_MAX_BYTES + 1];
	uint64_t dir;
	size_t len;

	return writer &&
	       cache_staging_name(cache_writer_staging(writer), &dir, buf,
				  &len) &&
	       dir == name->dir && len == name->len &&
	       memcmp(buf, name->name, len) == 0;
}

static void through_version(fuse_req_t req, struct node *node,
			    struct cache_writer *writer, pid_t process,
			    struct fuse_file_info *fi)
{
	if (fi->flags & O_TRUNC)
		(void)cache_stage_truncate(cache_writer_staging(writer), 0);
	opening_writer(fs_of(req), req, fi, node, writer, process);
}

/* The thread was sent back to look again, and comes to the same node: by
 * /proc/self/fd.  The handle then writes to the staging page, through the
 * committed version's node. */
static bool came_back(fuse_req_t req, struct node *node,
		      const struct cache_name *name, struct fuse_file_info *fi,
		      bool *ret_again)
{
	struct fs *fs = fs_of(req);
	struct key_id key = negative_key(name->dir, name->name, name->len);
	struct reservation r;
	struct cache_writer *writer;

	*ret_again =
		reserve_take(fs->reserves, fuse_req_ctx(req)->pid, &key, &r);
	if (!*ret_again)
		return false;
	*ret_again = !r.reads;
	writer = is_called(r.writer, name) ? r.writer : NULL;
	if (writer)
		r.writer = NULL;
	reservation_release(&r);
	if (!writer)
		return false;
	through_version(req, node, writer, r.process, fi);
	return true;
}

void opening_write(fuse_req_t req, struct node *node, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	/* Cut only once the handle is there: else a caller that dies on the
	 * way would leave an empty page. */
	unsigned flags =
		opening_flags(fi->flags) & ~(unsigned)CACHE_STAGE_TRUNCATE;
	char buf[NAME_MAX_BYTES];
	struct cache_name name;
	struct cache_writer *writer;
	pid_t process;
	bool again;
	int outcome;

	if (!fs_node_name(fs, node, buf, &name)) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	if (came_back(req, node, &name, fi, &again))
		return;
	if (fi->flags & O_TRUNC) /* what is cut away needs not be read */
		flags &= ~(unsigned)CACHE_STAGE_READ;
	process = fs_process(req);
	outcome = cache_stage_open(fs->cache, &name, flags, NULL, process,
				   &writer);
	if (outcome)
		failed(req, &name, outcome, again, flags);
	else if (again)
		through_version(req, node, writer, process, fi);
	else
		opening_again(req, &name,
			      &(struct reservation){.writer = writer,
						    .process = process});
}

/* The writer that this thread's first OPEN began, if it is for this page. */
static struct cache_writer *reserved(fuse_req_t req, struct node *node,
				     bool reads, pid_t *ret_process,
				     bool *ret_again)
{
	struct fs *fs = fs_of(req);
	char buf[NAME_MAX_BYTES];
	struct cache_name name;
	struct cache_writer *writer = NULL;
	struct reservation r;
	struct key_id key;

	*ret_again = false;
	if (!fs_node_name(fs, node, buf, &name))
		return NULL;
	key = negative_key(name.dir, name.name, name.len);
	if (!reserve_take(fs->reserves, fuse_req_ctx(req)->pid, &key, &r))
		return NULL;
	*ret_again = reads || !r.reads;
	if (r.writer && cache_writer_staging(r.writer) == node->staging) {
		writer = r.writer;
		r.writer = NULL;
		*ret_process = r.process;
		node_set_shown(fs->nodes, node);
	}
	reservation_release(&r);
	return writer;
}

/* Its last writer has gone meanwhile: the name leads to what it became. */
static void join_failed(fuse_req_t req, struct node *node, int outcome,
			bool again, unsigned flags)
{
	struct fs *fs = fs_of(req);
	char buf[NAME_MAX_BYTES];
	struct cache_name name;

	if (outcome == CACHE_STALE && fs_node_name(fs, node, buf, &name))
		failed(req, &name, outcome, again, flags);
	else
		fuse_reply_err(req, outcome > 0 ? ENOENT : -outcome);
}

void opening_staging(fuse_req_t req, struct node *node,
		     struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	unsigned flags = opening_flags(fi->flags);
	struct cache_writer *writer;
	pid_t process;
	bool again, committed;
	int outcome;

	if ((fi->flags & O_ACCMODE) == O_RDONLY && !(fi->flags & O_TRUNC)) {
		flags = CACHE_STAGE_PEEK;
		if (late_refused_open(req, node))
			return;
	}
	writer =
		reserved(req, node, flags & CACHE_STAGE_PEEK, &process, &again);
	if (!writer) {
		process = fs_process(req);
		outcome = cache_stage_join(node->staging, flags, process,
					   &writer);
		if (outcome) {
			join_failed(req, node, outcome, again, flags);
			return;
		}
	} else if (fi->flags & O_TRUNC) {
		outcome = cache_stage_truncate(node->staging, 0);
		if (outcome) {
			cache_stage_close(writer, &committed);
			fuse_reply_err(req, fs_errno(outcome));
			return;
		}
	}
	opening_writer(fs, req, fi, node, writer, process);
}
