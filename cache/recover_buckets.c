/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/recover.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/lib/log.h"

struct survey {
	struct cache *cache;
	const uint32_t *ids; /* ascending: the buckets that are there */
	size_t count;
	struct id_list rows; /* that lead to none of them */
	struct object_list *suspects;
	uint32_t *missing;
	size_t missing_count;
	int error;
};

static int compare_ids(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static bool is_there(const struct survey *survey, uint32_t bucket)
{
	return survey->count && bsearch(&bucket, survey->ids, survey->count,
					sizeof(bucket), compare_ids);
}

static int survey_bucket(void *arg, uint32_t bucket, uint64_t live)
{
	struct survey *survey = arg;
	uint32_t *grown;

	if (is_there(survey, bucket)) {
		bucket_set_live(survey->cache->buckets, bucket, live);
		return 0;
	}
	grown = realloc(survey->missing,
			(survey->missing_count + 1) * sizeof(*grown));
	if (!grown) {
		survey->error = -ENOMEM;
		return 1;
	}
	survey->missing = grown;
	survey->missing[survey->missing_count++] = bucket;
	return 0;
}

static int survey_row(void *arg, const struct meta_chunk *chunk)
{
	struct survey *survey = arg;

	if (is_there(survey, chunk->bucket))
		return 0;
	survey->error = id_list_add(&survey->rows, &chunk->id);
	if (!survey->error)
		survey->error =
			object_list_add(survey->suspects, chunk->id.object);
	return survey->error;
}

static int forget_buckets(struct survey *survey)
{
	struct meta_txn *txn;
	int error = meta_begin_write(survey->cache->meta, &txn);

	for (size_t i = 0; error >= 0 && i < survey->missing_count; i++)
		error = meta_bucket_del(txn, survey->missing[i]);
	if (error < 0) {
		meta_abort(txn);
		return error;
	}
	return cache_commit(survey->cache, txn);
}

static int drop_missing(struct survey *survey)
{
	struct meta_txn *txn;
	int error = meta_begin_read(survey->cache->meta, &txn);

	if (error)
		return error;
	error = meta_chunk_each(txn, META_DISK, 0, 0, survey_row, survey);
	meta_abort(txn);
	if (error >= 0)
		error = survey->error;
	if (!error)
		error = id_list_delete(survey->cache, META_DISK, &survey->rows);
	if (!error)
		error = forget_buckets(survey);
	if (!error)
		log_warning("%s: %zu buckets that the index knows are missing "
			    "(%u the first), with %zu chunks; their pages "
			    "are misses now",
			    survey->cache->config.disk_dir,
			    survey->missing_count, (unsigned)survey->missing[0],
			    survey->rows.count);
	free(survey->rows.all);
	return error;
}

int recover_buckets(struct cache *cache, struct object_list *suspects)
{
	struct survey survey = {.cache = cache, .suspects = suspects};
	struct meta_txn *txn;
	uint32_t *ids = NULL;
	int error = bucket_list(cache->buckets, &ids, &survey.count);

	if (error)
		return error;
	survey.ids = ids;
	/* A bucket without a row holds nothing but journals. */
	for (size_t i = 0; i < survey.count; i++)
		bucket_set_live(cache->buckets, ids[i], 0);
	error = meta_begin_read(cache->meta, &txn);
	if (!error) {
		error = meta_bucket_each(txn, survey_bucket, &survey);
		meta_abort(txn);
		error = error < 0 ? error : survey.error;
	}
	if (!error && survey.missing_count)
		error = drop_missing(&survey);
	free(survey.missing);
	free(ids);
	return error;
}
