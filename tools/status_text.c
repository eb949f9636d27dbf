/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/status_text.h"

#include <inttypes.h>
#include <stdint.h>

#include "tools/lib/size.h"
#include "tools/lib/strbuf.h"

static double number(const json_t *stats, const char *name)
{
	return json_number_value(json_object_get(stats, name));
}

static uint64_t count(const json_t *stats, const char *name)
{
	double value = number(stats, name);

	return value > 0 ? (uint64_t)value : 0;
}

static const char *word(const json_t *stats, const char *name)
{
	const char *text = json_string_value(json_object_get(stats, name));

	return text ? text : "";
}

static void add_size(struct strbuf *out, uint64_t bytes)
{
	char text[SIZE_TEXT_MAX];

	strbuf_puts(out, size_format_rounded(bytes, text, sizeof(text)));
}

/* "1 bucket", "2 buckets" */
static void add_count(struct strbuf *out, uint64_t n, const char *one,
		      const char *many)
{
	strbuf_printf(out, "%" PRIu64 " %s", n, n == 1 ? one : many);
}

static void add_share(struct strbuf *out, double part, double whole)
{
	strbuf_printf(out, "%.1f%%", whole > 0 ? part / whole * 100 : 0.0);
}

/* "3.5 GiB of 10.0 GiB (35.0%)" */
static void add_use(struct strbuf *out, uint64_t used, uint64_t capacity)
{
	add_size(out, used);
	strbuf_puts(out, " of ");
	add_size(out, capacity);
	strbuf_puts(out, " (");
	add_share(out, (double)used, (double)capacity);
	strbuf_putc(out, ')');
}

/* A further figure, where it is not zero. */
static void add_bytes(struct strbuf *out, const json_t *stats, const char *name,
		      const char *what)
{
	if (!count(stats, name))
		return;
	strbuf_puts(out, ", ");
	add_size(out, count(stats, name));
	strbuf_printf(out, " %s", what);
}

static void add_daemon(const char *mount, const json_t *stats,
		       struct strbuf *out)
{
	uint64_t up = count(stats, "uptime_seconds");

	strbuf_printf(out,
		      "mount     %s\n"
		      "daemon    pagefs %s, pid %" PRIu64 ", up %" PRIu64
		      "d %02u:%02u:%02u\n",
		      mount, word(stats, "version"), count(stats, "pid"),
		      up / 86400, (unsigned)(up / 3600 % 24),
		      (unsigned)(up / 60 % 60), (unsigned)(up % 60));
}

static void add_tiers(const json_t *stats, struct strbuf *out)
{
	strbuf_printf(out, "pages     %" PRIu64 " in ", count(stats, "pages"));
	add_count(out, count(stats, "directories"), "directory", "directories");
	strbuf_puts(out, ", ");
	add_size(out, count(stats, "logical_bytes"));
	strbuf_puts(out, "\nmemory    ");
	add_use(out, count(stats, "memory_used_bytes"),
		count(stats, "memory_capacity_bytes"));
	add_bytes(out, stats, "memory_pinned_bytes", "open");
	if (count(stats, "disk_cap_bytes"))
		add_bytes(out, stats, "memory_dirty_bytes", "not on disk yet");
	add_bytes(out, stats, "memory_quarantined_bytes", "in quarantine");
	strbuf_puts(out, "\ndisk      ");
	if (count(stats, "disk_cap_bytes")) {
		add_use(out, count(stats, "disk_file_bytes"),
			count(stats, "disk_cap_bytes"));
		strbuf_puts(out, ", ");
		add_count(out, count(stats, "disk_buckets"), "bucket",
			  "buckets");
		add_bytes(out, stats, "pending_bytes", "pending");
	} else {
		strbuf_puts(out, "none");
	}
	strbuf_putc(out, '\n');
}

static void add_hits(const json_t *stats, struct strbuf *out)
{
	double memory = number(stats, "hits_memory_total") +
			number(stats, "hits_empty_total");
	double disk = number(stats, "hits_disk_total");
	double failed = number(stats, "misses_total") +
			number(stats, "failures_total") +
			number(stats, "busy_total");
	double all = memory + disk + failed;

	strbuf_printf(out, "reads     %.0f: ", all);
	add_share(out, memory, all);
	strbuf_puts(out, " from memory, ");
	add_share(out, disk, all);
	strbuf_puts(out, " from disk, ");
	add_share(out, failed, all);
	strbuf_puts(out, " failed\n");
}

static void add_changes(const json_t *stats, struct strbuf *out)
{
	strbuf_puts(out, "writes    ");
	add_count(out, count(stats, "commits_total"), "page", "pages");
	strbuf_printf(out,
		      " committed, %" PRIu64 " pending, %" PRIu64 " evicted\n",
		      count(stats, "pending_pages"),
		      count(stats, "evicted_pages_total"));
	strbuf_puts(out, "negative  ");
	add_count(out, count(stats, "negative_entries"), "name", "names");
	strbuf_puts(out, " hidden, ");
	add_count(out, count(stats, "negative_hits_total"), "answer",
		  "answers");
	strbuf_puts(out, " given\n");
}

static void add_engine(const json_t *stats, struct strbuf *out)
{
	const char *why = word(stats, "io_why");

	if (!*word(stats, "io_engine"))
		return;
	strbuf_printf(out, "disk I/O  %s", word(stats, "io_engine"));
	if (*why)
		strbuf_printf(out, " (%s)", why);
	strbuf_putc(out, '\n');
}

/* What somebody should look at. */
static const struct alarm {
	const char *name; /* not zero: the alarm is on */
	const char *text;
} alarms[] = {
	{"disk_alarm",
	 "writing to the disk tier fails: see the log for why; make room or "
	 "replace the disk. Pages stay in memory meanwhile"},
	{"checksum_errors_total",
	 "bytes on disk did not match their checksums: they were not given to "
	 "anybody. Check the disk (smartctl), then 'pagefs fsck --verify'"},
	{"disk_errors_total",
	 "requests to the disk failed: look at dmesg and smartctl"},
	{"timeouts_total",
	 "the disk took longer than the deadline (2 s and 10 ms a MB): it is "
	 "overloaded or dying; iostat -x says which"},
	{"lost_pages_total",
	 "pages were lost because no copy was left: a larger memory tier or a "
	 "disk tier would have kept them"},
	{"no_space_total",
	 "writes were refused with ENOSPC: memory was full of pages that are "
	 "open or could not be written to disk, or others have filled the "
	 "disk"},
	{"unseen_processes_total",
	 "writers in another pid namespace: a page that one of them writes in "
	 "place stays half-written when it is killed ('pagefs doctor')"},
};

static void add_alarms(const json_t *stats, struct strbuf *out)
{
	for (size_t i = 0; i < sizeof(alarms) / sizeof(*alarms); i++)
		if (count(stats, alarms[i].name))
			strbuf_printf(out, "ALARM     %s %" PRIu64 ": %s\n",
				      alarms[i].name,
				      count(stats, alarms[i].name),
				      alarms[i].text);
}

void status_text(const char *mount, const json_t *stats, struct strbuf *out)
{
	add_daemon(mount, stats, out);
	add_tiers(stats, out);
	add_hits(stats, out);
	add_changes(stats, out);
	add_engine(stats, out);
	add_alarms(stats, out);
}
