/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/facts.h"
#include "cache/names.h"

#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/log.h"

int fact_key(struct meta_txn *txn, const struct cache_name *name,
	     char ret[KEY_MAX_BYTES], size_t *ret_len)
{
	if (!name->dir) {
		*ret_len = 0;
		return 0;
	}
	return meta_key(txn, name->dir, name->name, name->len, ret, ret_len);
}

/* ---- what a page consists of ---- */

struct summing {
	uint64_t at_clock;
	uint64_t *clocks; /* by index: 0 where there is no row */
	size_t room;
};

static int sum_row(void *arg, const struct meta_chunk *row)
{
	struct summing *summing = arg;
	uint64_t clock = row->id.version.clock;

	if (clock <= summing->at_clock && row->id.index < summing->room &&
	    clock > summing->clocks[row->id.index] &&
	    cache_chunk_current(row, summing->at_clock))
		summing->clocks[row->id.index] = clock;
	return 0;
}

int chunk_sum(struct cache *cache, struct meta_txn *txn,
	      const struct meta_entry *entry, bool memory, uint64_t *ret_sum,
	      uint32_t *ret_count)
{
	struct summing summing = {
		.at_clock = entry->version.clock,
		.room = (entry->size_bytes >> entry->chunk_shift) + 1,
	};
	int error = 0;

	*ret_sum = *ret_count = 0;
	summing.clocks = calloc(summing.room, sizeof(*summing.clocks));
	if (!summing.clocks)
		return -ENOMEM;
	if (memory)
		error = meta_chunk_each(txn, META_MEMORY, entry->object, 0,
					sum_row, &summing);
	if (error >= 0 && cache->buckets)
		error = meta_chunk_each(txn, META_DISK, entry->object, 0,
					sum_row, &summing);
	for (size_t i = 0; i < summing.room; i++) {
		if (!summing.clocks[i])
			continue;
		*ret_sum += (summing.clocks[i] ^ i * 0x9E3779B97F4A7C15ull) *
			    0xC2B2AE3D27D4EB4Full;
		++*ret_count;
	}
	free(summing.clocks);
	return error < 0 ? error : 0;
}

/* ---- encoding ---- */

struct bytes {
	uint8_t *all;
	size_t len, room;
};

static void *bytes_grow(struct bytes *bytes, size_t more)
{
	uint8_t *grown;

	if (bytes->len + more > bytes->room) {
		bytes->room = 2 * bytes->room + more;
		grown = realloc(bytes->all, bytes->room);
		if (!grown)
			return NULL;
		bytes->all = grown;
	}
	bytes->len += more;
	return bytes->all + bytes->len - more;
}

static int encode_xattr(void *arg, const char *name, size_t name_len,
			const void *value, size_t len)
{
	struct meta_xattr xattr = {name, name_len, value, len};
	void *at;

	if (!name_len || object_is_link_row(name, name_len))
		return 0;
	at = bytes_grow(arg, meta_xattr_bytes(&xattr));
	if (!at)
		return -ENOMEM;
	meta_xattr_encode(&xattr, at);
	return 0;
}

static int encode(const struct meta_fact *fact, void **ret, size_t *ret_bytes)
{
	size_t len = meta_fact_bytes(fact);
	void *bytes = malloc(len);

	if (!bytes)
		return -ENOMEM;
	*ret_bytes = meta_fact_encode(fact, bytes);
	*ret = bytes;
	return 0;
}

static int encode_chunks(struct cache *cache, struct meta_txn *txn,
			 const struct meta_entry *entry, struct bytes *xattrs)
{
	uint64_t sum;
	uint32_t count;
	int error = chunk_sum(cache, txn, entry, true, &sum, &count);

	if (error)
		return error;
	sum = htole64(sum);
	return encode_xattr(xattrs, FACT_CHUNKS_XATTR,
			    sizeof(FACT_CHUNKS_XATTR) - 1, &sum, sizeof(sum));
}

int fact_encode_set(struct cache *cache, struct meta_txn *txn, const char *key,
		    size_t key_bytes, const struct page_version *at,
		    const struct meta_entry *entry, void **ret,
		    size_t *ret_bytes)
{
	struct meta_fact fact = {
		.kind = META_FACT_SET,
		.at = *at,
		.key = key,
		.key_bytes = key_bytes,
		.entry = *entry,
	};
	struct bytes xattrs = {0};
	const void *target;
	int error = 0;

	fact.entry.flags &= ~(uint32_t)(META_ON_DISK | META_NAME_NEW);
	if (entry->type == META_SYMLINK) {
		error = meta_attr_get(txn, entry->object, "", 0, &target,
				      &fact.target_bytes);
		fact.target = target;
	}
	if (!error)
		error = meta_attr_each(txn, entry->object, encode_xattr,
				       &xattrs);
	if (error >= 0 && entry->type == META_FILE && entry->chunks)
		error = encode_chunks(cache, txn, entry, &xattrs);
	fact.xattrs = xattrs.all;
	fact.xattrs_bytes = xattrs.len;
	if (!error)
		error = encode(&fact, ret, ret_bytes);
	free(xattrs.all);
	return error == META_ABSENT ? -ENOENT : error;
}

/* ---- the queue ---- */

static int queue_bytes(struct meta_txn *txn, uint64_t clock, const void *bytes,
		       size_t len)
{
	struct meta_pending row = {
		.clock = clock,
		.kind = META_PENDING_FACT,
		.fact = bytes,
		.fact_bytes = len,
	};

	return meta_pending_put(txn, &row);
}

static int queue(struct meta_txn *txn, const struct meta_fact *fact)
{
	size_t len;
	void *bytes;
	int error = encode(fact, &bytes, &len);

	if (error)
		return error;
	error = queue_bytes(txn, fact->at.clock, bytes, len);
	free(bytes);
	return error;
}

int cache_fact_set(struct cache *cache, struct meta_txn *txn,
		   const struct cache_name *name,
		   const struct meta_entry *entry)
{
	struct page_version at = cache_next_version(cache);
	char key[KEY_MAX_BYTES];
	size_t key_bytes, len;
	void *bytes;
	int error;

	if (!cache->buckets)
		return 0;
	error = fact_key(txn, name, key, &key_bytes);
	if (!error)
		error = fact_encode_set(cache, txn, key, key_bytes, &at, entry,
					&bytes, &len);
	if (error)
		return error == META_ABSENT ? -ENOENT : error;
	error = queue_bytes(txn, at.clock, bytes, len);
	free(bytes);
	return error;
}

int cache_fact_gone(struct cache *cache, struct meta_txn *txn,
		    const struct cache_name *name)
{
	struct meta_fact fact = {
		.kind = META_FACT_GONE,
		.at = cache_next_version(cache),
	};
	char key[KEY_MAX_BYTES];
	int error;

	if (!cache->buckets)
		return 0;
	error = fact_key(txn, name, key, &fact.key_bytes);
	/* With its directory gone, the name is. */
	if (error)
		return error == META_ABSENT ? 0 : error;
	fact.key = key;
	return queue(txn, &fact);
}

int fact_queue_moved(struct cache *cache, struct meta_txn *txn,
		     const char *from, size_t from_bytes, const char *to,
		     size_t to_bytes)
{
	struct meta_fact fact = {
		.kind = META_FACT_MOVED,
		.at = cache_next_version(cache),
		.key = from,
		.key_bytes = from_bytes,
		.to_key = to,
		.to_key_bytes = to_bytes,
	};

	return cache->buckets ? queue(txn, &fact) : 0;
}

int cache_pending_page(struct cache *cache, struct meta_txn *txn,
		       const struct meta_entry *entry)
{
	struct meta_pending row = {
		.clock = entry->version.clock,
		.kind = META_PENDING_PAGE,
		.object = entry->object,
	};

	if (!cache->buckets)
		return 0;
	/* Counted here, under the transaction, where the write-behind counts
	 * down; what an abort leaves it puts right when the queue is empty. */
	CACHE_COUNT(cache, pending_pages, 1);
	CACHE_COUNT(cache, pending_bytes, entry->stored_bytes);
	return meta_pending_put(txn, &row);
}

/* ---- facts that outlive their bucket ---- */

struct keeping {
	struct cache *cache;
	struct meta_txn *txn;
	uint64_t object;
};

/* The names that the object has now, as of now. */
static int keep_name(void *arg, const struct object_name *name)
{
	struct keeping *keeping = arg;
	struct cache_name at = {name->dir, name->name, name->len};

	/* A pending page's name goes out with its chunks. */
	if (entry_pending(keeping->cache, &name->entry))
		return 0;
	return cache_fact_set(keeping->cache, keeping->txn, &at, &name->entry);
}

static int keep_set(struct keeping *keeping, const struct meta_fact *fact)
{
	struct cache_name root = {0, "", 0};
	struct meta_entry entry;
	int error;

	if (fact->entry.object != META_ROOT)
		return object_each_name(keeping->txn, fact->entry.object,
					keep_name, keeping);
	error = names_dir_get(keeping->txn, META_ROOT, &entry, NULL, NULL);
	return error ? error
		     : cache_fact_set(keeping->cache, keeping->txn, &root,
				      &entry);
}

/* Nothing that a GONE or a MOVED of the oldest bucket speaks of is left when
 * that bucket goes: names older than they stood in buckets older still. */
static int is_oldest(struct cache *cache, uint32_t bucket, bool *ret)
{
	uint32_t *ids;
	size_t count;
	int error = bucket_list(cache->buckets, &ids, &count);

	if (error)
		return error;
	*ret = !count || ids[0] == bucket;
	free(ids);
	return 0;
}

int cache_facts_keep(struct cache *cache, struct meta_txn *txn,
		     const struct bucket_record *record)
{
	struct keeping keeping = {.cache = cache, .txn = txn};
	const uint8_t *bytes = record->data;
	size_t left = record->len_bytes, used;
	struct meta_fact fact;
	bool oldest;
	int error = is_oldest(cache, record->place.bucket, &oldest);

	for (; !error && left; bytes += used, left -= used) {
		if (meta_fact_decode(bytes, left, &fact, &used) != 0) {
			log_warning("bucket %u: a journal record ends in what "
				    "is no fact",
				    (unsigned)record->place.bucket);
			return 0;
		}
		if (fact.kind == META_FACT_SET)
			error = keep_set(&keeping, &fact);
		else if (!oldest)
			error = queue_bytes(txn, fact.at.clock, bytes, used);
	}
	return error;
}
