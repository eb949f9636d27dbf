/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <unistd.h>

#include "fs/control_files.h"
#include "fs/fs.h"
#include "fs/values.h"
#include "fs/wire.h"
#include "meta/meta.h"
#include "tools/lib/clock.h"
#include "tools/lib/strbuf.h"

#define COUNTER(name, value, help)                                             \
	values_add(values, VALUE_COUNTER, name "_total", help, (double)(value))
#define GAUGE(name, value, help)                                               \
	values_add(values, VALUE_GAUGE, name, help, (double)(value))

static void add_opens(struct values *values, const struct cache_stats *s)
{
	COUNTER("opens", s->opens, "Pages opened for reading.");
	COUNTER("hits_memory", s->hits_memory,
		"Opens answered from the memory tier.");
	COUNTER("hits_disk", s->hits_disk, "Opens answered from disk.");
	COUNTER("hits_empty", s->hits_empty, "Opens of empty pages.");
	COUNTER("misses", s->misses, "Opens of pages that are lost.");
	COUNTER("failures", s->failures, "Opens whose get failed.");
	COUNTER("busy", s->busy,
		"Opens refused for want of memory or at the end.");
	COUNTER("stale", s->stale, "Opens of versions no longer current.");
	COUNTER("fetches", s->fetches, "Chunks asked of the disk tier.");
	COUNTER("fetches_shared", s->fetches_shared,
		"Readers that waited for another's fetch.");
	GAUGE("open_pages", s->open_pages, "Versions open for reading.");
	GAUGE("open_writers", s->open_writers, "Handles open for writing.");
}

static void add_changes(struct values *values, const struct cache_stats *s)
{
	COUNTER("commits", s->commits, "Versions committed.");
	COUNTER("committed_bytes", s->bytes_committed, "Bytes committed.");
	COUNTER("aborted_writers", s->aborted_writers,
		"Pages dropped because a writer was killed.");
	COUNTER("evicted_pages", s->evicted_pages,
		"Chunks evicted from the memory tier.");
	COUNTER("evicted_bytes", s->evicted_bytes,
		"Bytes evicted from the memory tier.");
	COUNTER("lost_pages", s->lost_pages,
		"Pages dropped because no copy of them was left.");
	COUNTER("waits_for_memory", s->waits_for_memory,
		"Times somebody waited for a slot.");
	COUNTER("no_space", s->no_space, "Writes refused with ENOSPC.");
}

static void add_disk(struct values *values, const struct cache_stats *s)
{
	COUNTER("checksum_errors", s->checksum_errors,
		"Chunks whose bytes did not match their checksum.");
	COUNTER("disk_errors", s->disk_errors, "Disk requests that failed.");
	COUNTER("timeouts", s->timeouts, "Disk reads past their deadline.");
	COUNTER("refused_reads", s->refused_reads,
		"Reads not tried while late ones hold too much memory.");
	GAUGE("pending_pages", s->pending_pages,
	      "Commits not yet written to a bucket.");
	GAUGE("pending_bytes", s->pending_bytes,
	      "Bytes not yet written to a bucket.");
	COUNTER("written_pages", s->written_pages,
		"Commits written to buckets.");
	COUNTER("written_bytes", s->written_bytes, "Bytes written to buckets.");
	COUNTER("write_errors", s->write_errors,
		"Batches that could not be written.");
	GAUGE("disk_alarm", s->disk_alarm,
	      "1 while writing to the disk tier fails.");
}

static void add_negative(struct values *values, struct fs *fs)
{
	struct negative_stats s;

	negative_get_stats(cache_negative(fs->cache), &s);
	GAUGE("negative_entries", s.entries, "Names in the negative cache.");
	COUNTER("negative_hits", s.hits,
		"Answers that the negative cache gave.");
	COUNTER("negative_inserts", s.inserts, "Names put into it.");
	COUNTER("negative_expired", s.expired, "Names whose time was over.");
	COUNTER("negative_evicted_early", s.evicted_early,
		"Names thrown out before their time.");
	COUNTER("negative_cleared", s.cleared, "Names removed by clear.");
}

static void add_index(struct values *values, struct fs *fs)
{
	struct meta *meta = cache_meta(fs->cache);
	struct meta_totals totals = {0};
	struct meta_stats stats = {0};
	struct meta_txn *txn;

	if (meta_begin_read(meta, &txn) == 0) {
		(void)meta_get_totals(txn, &totals);
		meta_abort(txn);
	}
	(void)meta_get_stats(meta, &stats);
	GAUGE("pages", totals.pages, "Names of pages.");
	GAUGE("directories", totals.directories, "Directories.");
	GAUGE("symlinks", totals.symlinks, "Symbolic links.");
	GAUGE("logical_bytes", totals.logical_bytes, "Bytes of all pages.");
	GAUGE("index_memory_bytes", stats.memory_bytes,
	      "Index of the memory tier.");
	GAUGE("index_disk_bytes", stats.disk_bytes,
	      "Index of the disk tier and of names.");
}

static void add_mount(struct values *values, struct fs *fs)
{
	struct inval_stats inval;

	inval_get_stats(fs->inval, &inval);
	GAUGE("pid", getpid(), "Process id of the daemon.");
	COUNTER("lookups", fs->lookups, "Look-ups that the kernel asked.");
	COUNTER("open_requests", fs->opens, "Opens that the kernel asked.");
	COUNTER("opens_again", fs->opens_again,
		"Opens that the kernel was told to do again.");
	COUNTER("opens_failed", fs->opens_failed,
		"Opens answered with ENOENT or sent back for good.");
	COUNTER("unseen_processes", fs->unseen_processes,
		"Writers whose process could not be seen.");
	GAUGE("nodes", nodes_count(fs->nodes), "Nodes that the kernel knows.");
	COUNTER("invalidations", inval.names,
		"Names that the kernel was told to forget.");
	COUNTER("invalidation_overflows", inval.overflows,
		"Times a whole directory was invalidated.");
	GAUGE("mmap_shared", wire_mmap_allowed(),
	      "1 where mmap(MAP_SHARED) works (kernel 6.6).");
}

static void add_space(struct values *values, struct fs *fs)
{
	struct cache_space space = {0};

	cache_get_space(fs->cache, &space);
	GAUGE("space_total_bytes", space.total_bytes, "Size of the pool.");
	GAUGE("space_free_bytes", space.free_bytes, "Free in the pool.");
	GAUGE("space_available_bytes", space.available_bytes,
	      "Free, and what eviction would free at once.");
}

static struct values *gather(struct fs *fs)
{
	const struct control_wiring *wiring = &fs->control->wiring;
	struct values *values = calloc(1, sizeof(*values));
	struct cache_stats stats = {0};

	if (!values)
		return NULL;
	cache_get_stats(fs->cache, &stats);
	values_add_text(values, "version", "The program's version.",
			PAGEFS_VERSION);
	add_mount(values, fs);
	add_index(values, fs);
	add_space(values, fs);
	add_opens(values, &stats);
	add_changes(values, &stats);
	add_disk(values, &stats);
	add_negative(values, fs);
	wiring->tiers(wiring->arg, values);
	return values;
}

static void print(struct fs *fs, struct strbuf *out,
		  void (*how)(const struct values *values, struct strbuf *out))
{
	struct values *values = gather(fs);

	if (values)
		how(values, out);
	free(values);
}

void control_make_stats(struct fs *fs, struct strbuf *out)
{
	print(fs, out, values_print_lines);
}

void control_make_json(struct fs *fs, struct strbuf *out)
{
	print(fs, out, values_print_json);
}

void control_make_metrics(struct fs *fs, struct strbuf *out)
{
	print(fs, out, values_print_metrics);
}

void control_make_config(struct fs *fs, struct strbuf *out)
{
	const struct control_wiring *wiring = &fs->control->wiring;

	wiring->options(wiring->arg, out);
}

static void add_entry(void *arg, struct key_id key, uint64_t left_ns)
{
	strbuf_printf(arg, "%016llx%016llx %.3f\n", (unsigned long long)key.hi,
		      (unsigned long long)key.lo,
		      (double)left_ns / (double)CLOCK_NS_PER_SECOND);
}

void control_make_negative(struct fs *fs, struct strbuf *out)
{
	negative_each(cache_negative(fs->cache), clock_monotonic_ns(),
		      add_entry, out);
}
