/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/handle.h"

#include <stdlib.h>

#include "fs/control.h"
#include "fs/fs.h"
#include "fs/process.h"

struct handle *handle_new(struct fs *fs, struct node *node)
{
	struct handle *handle = calloc(1, sizeof(*handle));

	if (!handle)
		return NULL;
	handle->node = node;
	pthread_mutex_init(&handle->lock, NULL);
	node_hold(fs->nodes, node);
	pthread_mutex_lock(&fs->handles_lock);
	list_push_back(&fs->handles, &handle->all);
	pthread_mutex_unlock(&fs->handles_lock);
	return handle;
}

void handle_free(struct fs *fs, struct handle *handle)
{
	if (!handle)
		return;
	pthread_mutex_lock(&fs->handles_lock);
	list_remove(&handle->all);
	pthread_mutex_unlock(&fs->handles_lock);
	if (handle->page)
		node_closed(fs->nodes, handle->node);
	control_close(handle->control);
	node_release(fs->nodes, handle->node);
	pthread_mutex_destroy(&handle->lock);
	free(handle);
}

void handle_set_writer(struct handle *handle, struct cache_writer *writer,
		       pid_t process, pid_t thread)
{
	handle->writer = writer;
	handle->opener = process;
	handle->last_thread = thread;
}

bool handle_is_closer(const struct handle *handle, pid_t thread)
{
	pid_t last = handle->last_thread, process, writer;

	/* Nearly always: one thread opens, writes and closes. */
	if (thread == last || !handle->opener)
		return true;
	process = process_of_thread(thread);
	if (process == handle->opener || !process)
		return true;
	writer = process_of_thread(last);
	/* The writer may have ended, and handed its descriptor on. */
	return process == writer || !writer ||
	       process_of_thread(handle->opener) != handle->opener;
}

struct handle *handle_left(struct fs *fs)
{
	struct handle *handle = NULL;

	pthread_mutex_lock(&fs->handles_lock);
	if (!list_empty(&fs->handles))
		handle = list_first(&fs->handles, struct handle, all);
	pthread_mutex_unlock(&fs->handles_lock);
	return handle;
}

struct handle *handle_of(const struct fuse_file_info *fi)
{
	return (struct handle *)(uintptr_t)fi->fh;
}

void handle_set(struct fuse_file_info *fi, struct handle *handle)
{
	fi->fh = (uint64_t)(uintptr_t)handle;
}
