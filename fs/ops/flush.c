/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/ops/ops.h"

#include <errno.h>

#include "fs/control.h"
#include "fs/process.h"

static void reply(void *arg)
{
	fuse_reply_err(arg, 0);
}

/* A shell opens a file, duplicates the descriptor, closes the first and only
 * then runs the command that writes: nobody shall read an empty page
 * meanwhile. */
static bool goes_on(const struct handle *handle, pid_t thread)
{
	char name[NAME_MAX_BYTES + 1];
	uint64_t dir;
	size_t len;

	return cache_writer_untouched(handle->writer) &&
	       cache_staging_name(cache_writer_staging(handle->writer), &dir,
				  name, &len) &&
	       process_has_file(thread, handle->node->object, name, len);
}

static int flush_writer(fuse_req_t req, struct handle *handle,
			bool *ret_committed)
{
	pid_t thread = fuse_req_ctx(req)->pid;

	if (!handle_is_closer(handle, thread) || goes_on(handle, thread))
		return 0;
	return cache_stage_flush(handle->writer, process_killed(thread),
				 ret_committed);
}

/* close(2) returns once everybody on this host sees the new version. */
void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct handle *handle = handle_of(fi);
	bool committed = false;
	int outcome = 0;

	(void)ino;
	if (handle->control)
		outcome = control_flush(handle->control);
	else if (handle->writer)
		outcome = flush_writer(req, handle, &committed);
	if (committed)
		fs_published(fs, handle->node, reply, req);
	else
		fuse_reply_err(req, fs_errno(outcome));
}
