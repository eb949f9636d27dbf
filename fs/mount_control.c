/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/mount_control.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "fs/fs.h"
#include "fs/mount.h"
#include "fs/values.h"
#include "store/store.h"
#include "tools/lib/clock.h"
#include "tools/lib/log.h"
#include "tools/lib/strbuf.h"

#define COUNTER(name, value, help)                                             \
	values_add(values, VALUE_COUNTER, name "_total", help, (double)(value))
#define GAUGE(name, value, help)                                               \
	values_add(values, VALUE_GAUGE, name, help, (double)(value))

static void add_arena(struct values *values, struct arena *arena)
{
	struct arena_stats s;

	arena_get_stats(arena, &s);
	GAUGE("memory_capacity_bytes", s.capacity_bytes,
	      "Size of the memory tier.");
	GAUGE("memory_used_bytes", s.used_bytes, "Slots in use.");
	GAUGE("memory_wasted_bytes", s.wasted_bytes,
	      "Slots' length less that of what is in them.");
	GAUGE("memory_pinned_bytes", s.pinned_bytes, "Slots of open pages.");
	GAUGE("memory_dirty_bytes", s.dirty_bytes,
	      "Slots whose bytes are nowhere else.");
	GAUGE("memory_quarantined_bytes", s.quarantined_bytes,
	      "Slots that a late read may still write to.");
	GAUGE("memory_free_slots", s.free_slots,
	      "Free slots in regions that have a class.");
	GAUGE("memory_live_slots", s.live_slots, "Slots that hold a chunk.");
	GAUGE("memory_regions", s.regions, "Regions.");
	GAUGE("memory_regions_unassigned", s.regions_unassigned,
	      "Regions without a class.");
}

static void add_buckets(struct values *values, struct buckets *buckets)
{
	struct buckets_stats s;

	buckets_get_stats(buckets, &s);
	GAUGE("disk_cap_bytes", s.cap_bytes, "What the disk tier may take.");
	GAUGE("disk_file_bytes", s.file_bytes, "What its buckets take.");
	GAUGE("disk_live_bytes", s.live_bytes, "What of that is still wanted.");
	GAUGE("disk_buckets", s.buckets, "Bucket files.");
	COUNTER("disk_records_written", s.records_written, "Records written.");
	COUNTER("disk_bytes_written", s.bytes_written,
		"Bytes written, headers and padding included.");
	COUNTER("disk_buckets_dropped", s.buckets_dropped, "Buckets dropped.");
	COUNTER("disk_damaged", s.damaged, "Damaged records met.");
}

static void add_io(struct values *values, struct io *io)
{
	struct io_stats s;

	io_get_stats(io, &s);
	values_add_text(values, "io_engine", "How the disk is asked.",
			s.engine ? s.engine : "");
	values_add_text(values, "io_why",
			"Why not by io_uring, or not with fixed buffers.",
			s.why ? s.why : "");
	GAUGE("io_fixed_buffers", s.fixed_buffers,
	      "1 where reads go into registered memory.");
	COUNTER("io_reads", s.reads, "Disk reads.");
	COUNTER("io_reads_fixed", s.reads_fixed,
		"Of these, into registered memory.");
	COUNTER("io_writes", s.writes, "Disk writes.");
	COUNTER("io_syncs", s.syncs, "Disk syncs.");
	COUNTER("io_submissions", s.submissions, "Batches submitted.");
	COUNTER("io_timeouts", s.timeouts, "Requests past their deadline.");
	COUNTER("io_bytes_read", s.bytes_read, "Bytes read from disk.");
	COUNTER("io_bytes_written", s.bytes_written, "Bytes written to disk.");
	GAUGE("io_in_flight", s.in_flight, "Requests under way.");
}

static void tiers(void *arg, struct values *values)
{
	struct mount_control *control = arg;
	struct cache *cache = control->fs->cache;

	GAUGE("uptime_seconds",
	      (clock_monotonic_ns() - control->started_ns) /
		      CLOCK_NS_PER_SECOND,
	      "Since the daemon started.");
	values_add_text(values, "mount_point", "Where it is mounted.",
			control->plan->mount_point);
	values_add_text(values, "disk_dir", "Where the disk tier is.",
			control->plan->disk_dir);
	values_add_text(values, "instance", "Name of the memory tier.",
			control->plan->instance);
	add_arena(values, cache_arena(cache));
	if (cache_buckets(cache))
		add_buckets(values, cache_buckets(cache));
	if (cache_io(cache))
		add_io(values, cache_io(cache));
}

static void show_options(void *arg, struct strbuf *out)
{
	struct mount_control *control = arg;

	pthread_mutex_lock(&control->lock);
	options_dump(control->plan->options, out);
	pthread_mutex_unlock(&control->lock);
}

/* Splits "name = value"; both point into `line`, which is cut. */
static int split(char *line, char **ret_name, char **ret_value)
{
	char *equals = strchr(line, '=');
	char *end;

	if (!equals)
		return -EINVAL;
	*equals = '\0';
	while (isspace((unsigned char)*line))
		line++;
	for (end = equals; end > line && isspace((unsigned char)end[-1]); end--)
		end[-1] = '\0';
	*ret_name = line;
	for (line = equals + 1; isspace((unsigned char)*line); line++)
		;
	for (end = line + strlen(line);
	     end > line && isspace((unsigned char)end[-1]); end--)
		end[-1] = '\0';
	*ret_value = line;
	return 0;
}

static bool changeable(const char *name)
{
	const struct option_spec *spec = options_find(mount_option_specs, name);

	return spec &&
	       (strcmp(spec->name, "failed-get-ttl-seconds") == 0 ||
		strcmp(spec->name, "failed-get-cache-max-entries") == 0);
}

static uint64_t ttl_ns(const struct mount_options *values)
{
	return (uint64_t)(values->failed_get_ttl_seconds *
			  (double)CLOCK_NS_PER_SECOND);
}

static int configure(void *arg, const char *text)
{
	struct mount_control *control = arg;
	struct mount_options *values = control->plan->values;
	char line[512], *name, *value;
	struct strbuf error;
	int r;

	if (strlen(text) >= sizeof(line))
		return -EINVAL;
	strcpy(line, text);
	r = split(line, &name, &value);
	if (r)
		return r;
	if (!changeable(name)) {
		log_warning("config: %s %s", name,
			    options_find(mount_option_specs, name)
				    ? "can't be changed while mounted"
				    : "is no option");
		return -EINVAL;
	}
	strbuf_init(&error, 0);
	pthread_mutex_lock(&control->lock);
	r = options_set(control->plan->options, OPTIONS_COMMAND_LINE, name,
			value, &error);
	if (!r)
		negative_configure(
			cache_negative(control->fs->cache), ttl_ns(values),
			(unsigned)values->failed_get_cache_max_entries);
	pthread_mutex_unlock(&control->lock);
	if (r)
		log_warning("%s", strbuf_text(&error));
	else
		log_info("now %s = %s", name, value);
	strbuf_release(&error);
	return r;
}

static void keep_memory(void *arg, bool keep)
{
	struct mount_control *control = arg;

	control->keep_memory = keep;
}

void mount_control_init(struct mount_control *control,
			const struct mount_plan *plan, struct fs *fs)
{
	control->plan = plan;
	control->fs = fs;
	control->keep_memory = true;
	control->started_ns = clock_monotonic_ns();
	pthread_mutex_init(&control->lock, NULL);
}

struct control_wiring mount_control_wiring(struct mount_control *control)
{
	return (struct control_wiring){
		.tiers = tiers,
		.options = show_options,
		.configure = configure,
		.keep_memory = keep_memory,
		.arg = control,
	};
}

void mount_control_config(const struct mount_plan *plan,
			  struct cache_config *ret)
{
	const struct mount_options *values = plan->values;

	ret->memory_bytes = values->memory_bytes;
	ret->disk_dir = plan->disk_dir[0] ? plan->disk_dir : NULL;
	if (values->disk_cap.percent > 0) {
		ret->disk_cap_percent = (unsigned)values->disk_cap.percent;
		ret->disk_cap_percent += !ret->disk_cap_percent;
	} else {
		ret->disk_cap_bytes = values->disk_cap.bytes;
	}
	/* Nothing is passed through to the kernel yet: no slot needs a file
	 * (and a mapping) of its own. */
	ret->slot_files = false;
	ret->io_uring = values->io_uring == 0;
	ret->eviction_high_watermark_ratio =
		values->eviction_high_watermark_ratio;
	ret->eviction_ratio = values->eviction_ratio;
	ret->writeback_max_ms = (unsigned)values->writeback_max_ms;
	ret->open_fetch_max_bytes = values->open_fetch_max_bytes;
	ret->failed_get_ttl_seconds = values->failed_get_ttl_seconds;
	ret->failed_get_cache_max_entries =
		(unsigned)values->failed_get_cache_max_entries;
	ret->lookup_wait_ms = (unsigned)values->lookup_wait_ms;
	ret->miss_timeout_ms = (unsigned)values->miss_timeout_ms;
	ret->show_partial = values->show_partial;
	if (values->temporary_names)
		ret->temporary_names = values->temporary_names;
	ret->stop_timeout_ms =
		(unsigned)(values->stop_timeout_ns / CLOCK_NS_PER_MS);
}
