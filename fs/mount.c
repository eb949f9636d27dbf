/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/mount.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "tools/lib/checksum.h"
#include "tools/lib/log.h"
#include "tools/lib/page.h"
#include "tools/lib/strbuf.h"

#define EXIT_USAGE 2

static int wrong(const char *message)
{
	fprintf(stderr, "pagefs mount: %s\nTry 'pagefs mount --help'.\n",
		message);
	return EXIT_USAGE;
}

static uint64_t tenth_of_ram(void)
{
	struct sysinfo info;
	uint64_t bytes = 0;

	if (sysinfo(&info) == 0)
		bytes = (uint64_t)info.totalram * info.mem_unit / 10;
	bytes &= ~(uint64_t)(MOUNT_MEMORY_MIN - 1);
	return bytes < MOUNT_MEMORY_MIN ? MOUNT_MEMORY_MIN : bytes;
}

static int disk_usual(char ret[PATH_MAX])
{
	const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	int len;

	if (geteuid() == 0)
		len = snprintf(ret, PATH_MAX, "/var/lib/pagefs");
	else if (data && *data == '/')
		len = snprintf(ret, PATH_MAX, "%s/pagefs", data);
	else if (home && *home == '/')
		len = snprintf(ret, PATH_MAX, "%s/.local/share/pagefs", home);
	else
		return -ENOENT;
	return len < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Absolute: the daemon changes its directory. */
static int disk_named(const char *name, char ret[PATH_MAX])
{
	char here[PATH_MAX];

	if (*name == '/')
		return snprintf(ret, PATH_MAX, "%s", name) < PATH_MAX
			       ? 0
			       : -ENAMETOOLONG;
	if (!getcwd(here, sizeof(here)))
		return -errno;
	return snprintf(ret, PATH_MAX, "%s/%s", here, name) < PATH_MAX
		       ? 0
		       : -ENAMETOOLONG;
}

static int choose_disk(struct mount_plan *plan, char *reason)
{
	const char *name = plan->values->disk;
	int error = 0;

	if (!name)
		error = disk_usual(plan->disk_dir);
	else if (strcmp(name, "none") != 0)
		error = disk_named(name, plan->disk_dir);
	if (error)
		snprintf(reason, MOUNT_REASON_BYTES,
			 "cannot work out the disk tier's directory (%s): give "
			 "--disk DIR, or --disk none",
			 strerror(-error));
	return error;
}

/* The next start finds the arena by this, wherever it is called from. */
static void name_instance(struct mount_plan *plan)
{
	const char *home =
		plan->disk_dir[0] ? plan->disk_dir : plan->mount_point;
	char real[PATH_MAX];

	if (realpath(home, real))
		home = real;
	snprintf(plan->instance, sizeof(plan->instance), "%016llx",
		 (unsigned long long)checksum_bytes(home, strlen(home), 0));
}

/* What was left to us is decided, so that the options say what is. */
static int settle_options(const struct mount_plan *plan)
{
	struct mount_options *values = plan->values;
	char *disk = strdup(plan->disk_dir[0] ? plan->disk_dir : "none");

	if (!disk)
		return -ENOMEM;
	free(values->disk);
	values->disk = disk;
	if (!values->memory_bytes)
		values->memory_bytes = tenth_of_ram();
	values->allow_other |=
		geteuid() == 0 && !values->noallow_other && !values->allow_root;
	return 0;
}

/* Offsets on disk, in slots and in checks count in these. */
static int check_page_size(char reason[MOUNT_REASON_BYTES])
{
	long bytes = sysconf(_SC_PAGESIZE);

	if (bytes == BLOCK_BYTES)
		return 0;
	snprintf(reason, MOUNT_REASON_BYTES,
		 "pagefs needs 4 KiB pages, and this kernel has pages of %ld "
		 "KiB: boot one that is built with 4 KiB pages",
		 bytes / 1024);
	return -ENOTSUP;
}

static int make_plan(struct mount_plan *plan, const char *mount_point,
		     char reason[MOUNT_REASON_BYTES])
{
	int error = check_page_size(reason);

	if (!error)
		error = mount_point_check(mount_point, plan->mount_point,
					  reason);
	if (!error)
		error = choose_disk(plan, reason);
	if (error)
		return error;
	name_instance(plan);
	error = settle_options(plan);
	if (error)
		snprintf(reason, MOUNT_REASON_BYTES, "%s", strerror(-error));
	return error;
}

static int check_values(const struct mount_options *values)
{
	if (values->memory_bytes && values->memory_bytes < MOUNT_MEMORY_MIN)
		return wrong("the memory tier (--memory) needs 16M at least");
	if (values->disk_cap.percent <= 0 && !values->disk_cap.bytes)
		return wrong("a disk tier of no bytes (--disk-cap 0) can hold "
			     "nothing; --disk none does without one");
	return 0;
}

/* 0; 1: done (help); else the exit code has been found: -EXIT. */
static int read_options(struct options *options, struct mount_options *values,
			int argc, char **argv, const char **ret_mount_point)
{
	struct strbuf text;
	int first, r;

	strbuf_init(&text, 0);
	r = options_parse_arguments(options, argc, argv, &first, &text);
	if (!r && values->help) {
		mount_help(&text);
		fputs(strbuf_text(&text), stdout);
		strbuf_release(&text);
		return 1;
	}
	if (!r && values->config)
		r = options_parse_file(options, values->config, &text);
	if (r)
		wrong(strbuf_text(&text));
	else if (argc - first == 0)
		r = wrong("where to? Give a mount point");
	else if (argc - first > 1)
		r = wrong("one mount point, please");
	else
		r = check_values(values);
	if (!r)
		*ret_mount_point = argv[first];
	strbuf_release(&text);
	return r ? -EXIT_USAGE : 0;
}

/* Whoever starts it from a terminal is told of trouble only. */
static enum log_level level_of(const struct mount_options *values)
{
	enum log_level level = (enum log_level)values->log_level;

	if (!values->foreground && !mount_daemon_logs() &&
	    level > LOG_LEVEL_WARNING)
		return LOG_LEVEL_WARNING;
	return level;
}

static int start(struct mount_plan *plan, const char *mount_point)
{
	char reason[MOUNT_REASON_BYTES] = "";
	int pipe = -1, error;

	log_open(level_of(plan->values));
	error = make_plan(plan, mount_point, reason);
	if (!error && !plan->values->foreground) {
		error = mount_daemon_start(&pipe);
		if (error)
			snprintf(reason, sizeof(reason),
				 "cannot go to the background: %s",
				 strerror(-error));
	}
	if (error) {
		fprintf(stderr, "pagefs mount: %s\n", reason);
		return EXIT_FAILURE;
	}
	return mount_serve(plan, pipe);
}

int mount_run(int argc, char **argv)
{
	struct mount_options values = {0};
	struct options options;
	struct mount_plan plan = {.options = &options, .values = &values};
	const char *mount_point;
	int code;

	options_init(&options, mount_option_specs, &values);
	code = read_options(&options, &values, argc, argv, &mount_point);
	if (code == 0) {
		values.has_umask =
			options_source(&options, "umask") != OPTIONS_DEFAULT;
		code = start(&plan, mount_point);
	} else {
		code = code < 0 ? -code : 0;
	}
	options_release(&options);
	return code;
}
