/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_MOUNT_OPTIONS_H
#define PAGEFS_FS_MOUNT_OPTIONS_H

/* The options of `pagefs mount`: one table for the command line, -o and the
 * configuration file. */

#include <stdbool.h>
#include <stdint.h>

#include "tools/lib/options.h"
#include "tools/lib/size.h"

struct strbuf;

struct mount_options {
	uint64_t memory_bytes; /* 0: a tenth of RAM */
	char *disk;	       /* NULL: the usual place; "none" */
	struct size_or_percent disk_cap;
	char *config;
	bool foreground;
	int io_uring; /* index: auto, off */
	double eviction_high_watermark_ratio;
	double eviction_ratio;
	int64_t writeback_max_ms;
	uint64_t open_fetch_max_bytes;
	double failed_get_ttl_seconds;
	int64_t failed_get_cache_max_entries;
	int64_t lookup_wait_ms;
	int64_t miss_timeout_ms;
	uint64_t stop_timeout_ns;
	bool show_partial;
	char *temporary_names;
	int log_level; /* enum log_level */
	/* As other file systems have them. */
	bool allow_other, allow_root, noallow_other;
	bool ro;
	int64_t uid, gid; /* -1: as stored */
	uint32_t umask;
	bool has_umask;
	bool help;
	bool ignored;
};

extern const struct option_spec mount_option_specs[];

/* The whole help text. */
void mount_help(struct strbuf *out);

#endif
