/* SPDX-License-Identifier: Apache-2.0 */
#include "store/bucket_private.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "tools/lib/clock.h"

static void batch_free(struct disk_batch *batch)
{
	struct bucket *bucket = batch->bucket;

	if (bucket && batch->writes) {
		pthread_mutex_lock(&batch->buckets->lock);
		bucket->unsettled--;
		pthread_mutex_unlock(&batch->buckets->lock);
	}
	if (bucket)
		bucket_put(bucket);
	pthread_cond_destroy(&batch->progress);
	pthread_mutex_destroy(&batch->lock);
	free(batch->vectors);
	free(batch->buffer);
	free(batch);
}

struct disk_batch *disk_batch_new(struct buckets *buckets,
				  struct bucket *bucket, unsigned capacity,
				  size_t buffer_bytes, unsigned vector_count)
{
	struct disk_batch *batch =
		calloc(1, sizeof(*batch) + capacity * sizeof(batch->parts[0]));

	if (!batch)
		return NULL;
	batch->buckets = buckets;
	batch->capacity = capacity;
	pthread_mutex_init(&batch->lock, NULL);
	pthread_cond_init(&batch->progress, NULL);
	if (buffer_bytes)
		batch->buffer = aligned_alloc(BLOCK_BYTES,
					      round_up_block(buffer_bytes));
	if (vector_count)
		batch->vectors = calloc(vector_count, sizeof(struct iovec));
	if ((buffer_bytes && !batch->buffer) ||
	    (vector_count && !batch->vectors)) {
		batch_free(batch);
		return NULL;
	}
	if (bucket) {
		pthread_mutex_lock(&buckets->lock);
		bucket->refs++;
		buckets->references++;
		pthread_mutex_unlock(&buckets->lock);
		batch->bucket = bucket;
	}
	return batch;
}

static void part_done(struct io_request *request, int64_t res)
{
	struct disk_batch *batch = request->owner;
	struct disk_part *part = request->arg;

	pthread_mutex_lock(&batch->lock);
	part->res = res;
	if (res < 0 && !batch->error)
		batch->error = (int)res;
	batch->late += res == -ETIMEDOUT;
	batch->unanswered--;
	pthread_cond_signal(&batch->progress);
	pthread_mutex_unlock(&batch->lock);
}

static void part_settled(struct io_request *request)
{
	struct disk_batch *batch = request->owner;
	bool last;

	pthread_mutex_lock(&batch->lock);
	last = --batch->unsettled == 0 && batch->left;
	pthread_cond_signal(&batch->progress);
	pthread_mutex_unlock(&batch->lock);
	if (last)
		batch_free(batch);
}

struct disk_part *disk_batch_add(struct disk_batch *batch,
				 enum io_operation operation, int fd,
				 void *data, uint32_t len_bytes,
				 uint64_t offset_bytes)
{
	struct disk_part *part = &batch->parts[batch->count];

	assert(batch->count < batch->capacity);
	batch->count++;
	part->request = (struct io_request){
		.operation = operation,
		.fd = fd,
		.data = data,
		.len_bytes = len_bytes,
		.offset_bytes = offset_bytes,
		.done = part_done,
		.settled = part_settled,
		.owner = batch,
		.arg = part,
	};
	if (operation != IO_READ && operation != IO_SYNC && batch->bucket &&
	    !batch->writes) {
		batch->writes = true;
		pthread_mutex_lock(&batch->buckets->lock);
		batch->bucket->unsettled++;
		pthread_mutex_unlock(&batch->buckets->lock);
	}
	return part;
}

int disk_batch_run(struct disk_batch *batch, uint64_t deadline_ns)
{
	int error;

	batch->unanswered = batch->unsettled = batch->count;
	for (unsigned i = 0; i < batch->count; i++)
		batch->parts[i].request.deadline_ns = deadline_ns;
	for (unsigned i = 0; i < batch->count; i++) {
		struct io_request *request = &batch->parts[i].request;

		io_submit(batch->buckets->io, &request, 1);
	}
	pthread_mutex_lock(&batch->lock);
	while (batch->unanswered > 0 || batch->unsettled > batch->late)
		pthread_cond_wait(&batch->progress, &batch->lock);
	error = batch->error;
	pthread_mutex_unlock(&batch->lock);
	return error;
}

void disk_batch_put(struct disk_batch *batch)
{
	bool last;

	if (!batch)
		return;
	pthread_mutex_lock(&batch->lock);
	batch->left = true;
	last = batch->unsettled == 0;
	pthread_mutex_unlock(&batch->lock);
	if (last)
		batch_free(batch);
}

int disk_run(struct buckets *buckets, struct bucket *bucket, int fd,
	     enum io_operation operation, uint64_t offset_bytes,
	     uint32_t len_bytes, uint64_t deadline_ns)
{
	struct disk_batch *batch = disk_batch_new(buckets, bucket, 1, 0, 0);
	int error;

	if (!batch)
		return -ENOMEM;
	disk_batch_add(batch, operation, fd, NULL, len_bytes, offset_bytes);
	error = disk_batch_run(batch, deadline_ns);
	disk_batch_put(batch);
	return error;
}

int64_t disk_read(struct buckets *buckets, struct bucket *bucket,
		  uint64_t offset_bytes, uint32_t len_bytes,
		  struct disk_batch **ret)
{
	struct disk_batch *batch =
		disk_batch_new(buckets, bucket, 1, len_bytes, 0);
	struct disk_part *part;
	int error;

	if (!batch)
		return -ENOMEM;
	part = disk_batch_add(batch, IO_READ, bucket->fd, batch->buffer,
			      len_bytes, offset_bytes);
	error = disk_batch_run(batch, clock_deadline_ns(len_bytes));
	if (error) {
		disk_batch_put(batch);
		return error;
	}
	*ret = batch;
	return part->res;
}
