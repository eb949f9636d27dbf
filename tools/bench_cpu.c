/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tools/bench_daemon.h"

static double seconds_of(const struct timeval *time)
{
	return (double)time->tv_sec + (double)time->tv_usec * 1e-6;
}

static double daemon_cpu_seconds(long pid)
{
	char path[64], line[1024];
	unsigned long user = 0, system = 0;
	const char *after_name;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	file = fopen(path, "r");
	if (!file)
		return 0;
	if (fgets(line, sizeof(line), file) &&
	    (after_name = strrchr(line, ')')))
		/* Fields 14 and 15 of proc(5). */
		sscanf(after_name,
		       ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
		       &user, &system);
	fclose(file);
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

double bench_cpu_seconds(const struct bench_daemon *daemon)
{
	struct rusage own;

	getrusage(RUSAGE_SELF, &own);
	return seconds_of(&own.ru_utime) + seconds_of(&own.ru_stime) +
	       daemon_cpu_seconds((long)bench_daemon_counter(daemon, "pid"));
}

/* The sum of these lines of /proc/PID/status, in bytes. */
static double status_bytes(const struct bench_daemon *daemon,
			   const char *const *names)
{
	char path[64], line[256];
	double total = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/status",
		 (long)bench_daemon_counter(daemon, "pid"));
	file = fopen(path, "r");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		for (size_t i = 0; names[i]; i++) {
			size_t len = strlen(names[i]);

			if (!strncmp(line, names[i], len) && line[len] == ':')
				total += strtod(line + len + 1, NULL) * 1024;
		}
	fclose(file);
	return total;
}

double bench_private_bytes(const struct bench_daemon *daemon)
{
	return status_bytes(daemon,
			    (const char *const[]){"RssAnon", "RssFile", NULL});
}

double bench_anonymous_bytes(const struct bench_daemon *daemon)
{
	return status_bytes(daemon, (const char *const[]){"RssAnon", NULL});
}
