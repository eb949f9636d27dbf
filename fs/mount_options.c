/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/mount_options.h"

#include <stddef.h>

#include "tools/lib/strbuf.h"

#define FIELD(name) .offset = offsetof(struct mount_options, name)

static const char *const io_uring_choices[] = {"auto", "off", NULL};
static const char *const log_levels[] = {"error", "warning", "info", "debug",
					 NULL};

/* What mount(8) and /etc/fstab hand on, without a meaning here. */
#define IGNORED(option)                                                        \
	{                                                                      \
		.name = option, .type = OPTION_FLAG, FIELD(ignored),           \
		.bits = OPTION_HIDDEN                                          \
	}

const struct option_spec mount_option_specs[] = {
	{.name = "memory",
	 .type = OPTION_SIZE,
	 FIELD(memory_bytes),
	 .help = "size of the memory tier",
	 .initial_help = "a tenth of RAM, or less where shared "
			 "memory is small"},
	{.name = "disk",
	 .type = OPTION_STRING,
	 FIELD(disk),
	 .argument = "DIR|none",
	 .help = "directory of the disk tier; made if missing",
	 .initial_help = "/var/lib/pagefs as root, else "
			 "~/.local/share/pagefs"},
	{.name = "disk-cap",
	 .type = OPTION_SIZE_OR_PERCENT,
	 FIELD(disk_cap),
	 .help = "the disk tier's bytes, or part of its file system; 5% stay "
		 "free for others in any case",
	 .initial = "90%"},
	{.name = "config",
	 .type = OPTION_STRING,
	 FIELD(config),
	 .argument = "FILE",
	 .help = "read options from a file, a line `name = value` each",
	 .letter = 'c',
	 .bits = OPTION_COMMAND_LINE_ONLY},
	{.name = "foreground",
	 .type = OPTION_FLAG,
	 FIELD(foreground),
	 .help = "stay in the foreground; log to stderr",
	 .letter = 'f'},
	{.name = "options",
	 .type = OPTION_LIST,
	 .help = "any of these options, and the usual ones of mount",
	 .letter = 'o'},
	{.name = "io-uring",
	 .type = OPTION_CHOICE,
	 FIELD(io_uring),
	 .choices = io_uring_choices,
	 .help = "how the disk is read and written",
	 .initial = "auto"},
	{.name = "eviction-high-watermark-ratio",
	 .type = OPTION_REAL,
	 FIELD(eviction_high_watermark_ratio),
	 .help = "memory is evicted above this part of it",
	 .initial = "0.95",
	 .min = 0.05,
	 .max = 1.0},
	{.name = "eviction-ratio",
	 .type = OPTION_REAL,
	 FIELD(eviction_ratio),
	 .help = "so much of memory is freed then",
	 .initial = "0.05",
	 .min = 0.001,
	 .max = 1.0},
	{.name = "writeback-max-ms",
	 .type = OPTION_INTEGER,
	 FIELD(writeback_max_ms),
	 .help = "a page is on disk so long after its close at the latest",
	 .initial = "200",
	 .min = 1,
	 .max = 3600000},
	{.name = "open-fetch-max",
	 .type = OPTION_SIZE,
	 FIELD(open_fetch_max_bytes),
	 .help = "pages up to this size are read whole at open",
	 .initial = "64M"},
	{.name = "failed-get-ttl-seconds",
	 .type = OPTION_REAL,
	 FIELD(failed_get_ttl_seconds),
	 .help = "a page that could not be read is hidden so long; 0: off",
	 .initial = "1",
	 .min = 0,
	 .max = 86400},
	{.name = "failed-get-cache-max-entries",
	 .type = OPTION_INTEGER,
	 FIELD(failed_get_cache_max_entries),
	 .help = "so many pages are hidden at once",
	 .initial = "65536",
	 .min = 0,
	 .max = 16777216},
	{.name = "lookup-wait-ms",
	 .type = OPTION_INTEGER,
	 FIELD(lookup_wait_ms),
	 .help = "a look-up waits so long for other hosts",
	 .initial = "20",
	 .min = 0,
	 .max = 10000},
	{.name = "miss-timeout-ms",
	 .type = OPTION_INTEGER,
	 FIELD(miss_timeout_ms),
	 .help = "a name that other hosts don't have is remembered so long",
	 .initial = "1000",
	 .min = 0,
	 .max = 3600000},
	{.name = "stop-timeout",
	 .type = OPTION_DURATION,
	 FIELD(stop_timeout_ns),
	 .help = "writing what is pending may take so long at the end",
	 .initial = "30s"},
	{.name = "show-partial",
	 .type = OPTION_FLAG,
	 FIELD(show_partial),
	 .help = "show pages while they are being written"},
	{.name = "temporary-names",
	 .type = OPTION_STRING,
	 FIELD(temporary_names),
	 .argument = "PATTERN:...",
	 .help = "names that stay on this host until they are renamed",
	 .initial = "*.tmp:*.tmp.*:.*"},
	{.name = "log-level",
	 .type = OPTION_CHOICE,
	 FIELD(log_level),
	 .choices = log_levels,
	 .help = "what is worth a line",
	 .initial = "info"},
	{.name = "allow-other",
	 .type = OPTION_FLAG,
	 FIELD(allow_other),
	 .help = "other users may use the mount, as modes permit; as root "
		 "this is so anyway"},
	{.name = "noallow-other",
	 .type = OPTION_FLAG,
	 FIELD(noallow_other),
	 .help = "only root may, mounted by root"},
	{.name = "allow-root",
	 .type = OPTION_FLAG,
	 FIELD(allow_root),
	 .help = "root may use a user's mount"},
	{.name = "ro",
	 .type = OPTION_FLAG,
	 FIELD(ro),
	 .help = "nothing can be written"},
	{.name = "uid",
	 .type = OPTION_INTEGER,
	 FIELD(uid),
	 .help = "show all files as this user's",
	 .initial = "-1",
	 .min = -1,
	 .max = 4294967294.0},
	{.name = "gid",
	 .type = OPTION_INTEGER,
	 FIELD(gid),
	 .help = "show all files as this group's",
	 .initial = "-1",
	 .min = -1,
	 .max = 4294967294.0},
	{.name = "umask",
	 .type = OPTION_OCTAL,
	 FIELD(umask),
	 .help = "show all files with mode 0777 without these bits",
	 .bits = OPTION_NO_DEFAULT},
	{.name = "help",
	 .type = OPTION_FLAG,
	 FIELD(help),
	 .help = "this text",
	 .letter = 'h',
	 .bits = OPTION_COMMAND_LINE_ONLY},
	IGNORED("rw"),
	IGNORED("defaults"),
	IGNORED("default-permissions"),
	IGNORED("nosuid"),
	IGNORED("suid"),
	IGNORED("nodev"),
	IGNORED("dev"),
	IGNORED("noexec"),
	IGNORED("exec"),
	IGNORED("noatime"),
	IGNORED("atime"),
	IGNORED("relatime"),
	IGNORED("auto"),
	IGNORED("noauto"),
	IGNORED("nofail"),
	IGNORED("-netdev"),
	IGNORED("user"),
	IGNORED("nouser"),
	{.name = NULL},
};

void mount_help(struct strbuf *out)
{
	strbuf_puts(out,
		    "Usage: pagefs mount [OPTION]... MOUNTPOINT\n"
		    "Mount a store for KV-cache pages; goes to the background "
		    "once it serves.\n\n");
	options_help(mount_option_specs, out);
	strbuf_puts(
		out,
		"\nEach option works as --name VALUE, in -o (name=VALUE) and "
		"in the configuration\nfile (name = VALUE); '-' and '_' are "
		"the same.\n\n"
		"Examples:\n"
		"  pagefs mount /mnt/kv\n"
		"  pagefs mount --memory 64G --disk /nvme/pagefs "
		"--disk-cap 80% /mnt/kv\n"
		"  pagefs mount --disk none -o allow_other,umask=022 "
		"/mnt/kv\n"
		"  pagefs mount --config /etc/pagefs.conf /mnt/kv\n"
		"\nStop it by `pagefs umount MOUNTPOINT`.\n");
}
