/* SPDX-License-Identifier: Apache-2.0 */

/* `pagefs status`: how a mount is doing, from its control file stats.json. */

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/command.h"
#include "tools/lib/clock.h"
#include "tools/lib/size.h"
#include "tools/lib/strbuf.h"
#include "tools/mountpoint.h"
#include "tools/status_text.h"
#include "tools/tools.h"

struct status_options {
	bool json;
	uint64_t watch_ns;
};

#define FIELD(name) .offset = offsetof(struct status_options, name)

static const struct option_spec specs[] = {
	{.name = "json",
	 .type = OPTION_FLAG,
	 FIELD(json),
	 .help = "all figures, as one JSON object"},
	{.name = "watch",
	 .type = OPTION_DURATION,
	 .letter = 'w',
	 FIELD(watch_ns),
	 .help = "again and again, this far apart"},
	{.name = NULL},
};

static const struct command command = {
	.name = "status",
	.arguments = "[OPTION]... [MOUNT]",
	.summary = "Show how a mount is doing: tiers, hits, what is pending, "
		   "alarms.",
	.detail = "Exit code 1 where there is no mount, or its daemon is "
		  "gone.",
	.examples = "  pagefs status\n"
		    "  pagefs status --watch 1 /mnt/kv\n"
		    "  pagefs status --json /mnt/kv | jq .hits_disk_total",
	.specs = specs,
	.max_arguments = 1,
};

static int read_stats(const struct mountpoint *mountpoint, struct strbuf *text)
{
	int error = mountpoint_read(mountpoint, "stats.json", text);

	if (!error)
		return COMMAND_OK;
	return command_fail(&command, "%s: %s", mountpoint->path,
			    mountpoint_reason(error));
}

static int show_once(const struct status_options *values,
		     const struct mountpoint *mountpoint)
{
	struct strbuf text;
	json_t *stats;
	int code;

	strbuf_init(&text, 0);
	code = read_stats(mountpoint, &text);
	if (code == COMMAND_OK && values->json) {
		fputs(strbuf_text(&text), stdout);
	} else if (code == COMMAND_OK) {
		stats = json_loads(strbuf_text(&text), 0, NULL);
		strbuf_reset(&text);
		status_text(mountpoint->path, stats, &text);
		fputs(strbuf_text(&text), stdout);
		json_decref(stats);
	}
	strbuf_release(&text);
	return code;
}

static int show(const struct status_options *values,
		const struct mountpoint *mountpoint)
{
	struct timespec pause = clock_to_timespec(values->watch_ns);
	int code = show_once(values, mountpoint);

	while (values->watch_ns && code == COMMAND_OK && !fflush(stdout) &&
	       !nanosleep(&pause, NULL)) {
		if (!values->json)
			putchar('\n');
		code = show_once(values, mountpoint);
	}
	return code;
}

int tool_status(int argc, char **argv)
{
	struct status_options values;
	struct mountpoint mountpoint;
	struct options options;
	int first, code;

	if (command_parse(&command, argc, argv, &values, &options, &first,
			  &code)) {
		code = mountpoint_choose("status", argc - first, argv + first,
					 &mountpoint)
			       ? COMMAND_FAILED
			       : show(&values, &mountpoint);
	}
	options_release(&options);
	return code;
}
