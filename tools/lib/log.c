/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/lib/clock.h"

static const struct {
	const char *name;
	int priority; /* syslog's */
} levels[] = {
	[LOG_LEVEL_ERROR] = {"error", 3},
	[LOG_LEVEL_WARNING] = {"warning", 4},
	[LOG_LEVEL_INFO] = {"info", 6},
	[LOG_LEVEL_DEBUG] = {"debug", 7},
};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

static _Atomic int current_level = LOG_LEVEL_INFO;
static atomic_bool to_journal;

void log_open(enum log_level level)
{
	atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
	atomic_store_explicit(&to_journal, getenv("JOURNAL_STREAM") != NULL,
			      memory_order_relaxed);
}

bool log_enabled(enum log_level level)
{
	return (int)level <=
	       atomic_load_explicit(&current_level, memory_order_relaxed);
}

int log_level_parse(const char *name)
{
	for (size_t i = 0; i < LEVELS; i++) {
		if (strcmp(levels[i].name, name) == 0)
			return (int)i;
	}
	return -EINVAL;
}

const char *log_level_name(enum log_level level)
{
	return levels[level].name;
}

static size_t put_prefix(char *line, enum log_level level)
{
	struct timespec now;
	struct tm tm;
	char date[32];
	int len;

	if (atomic_load_explicit(&to_journal, memory_order_relaxed)) {
		len = snprintf(line, LOG_LINE_MAX, "<%d>",
			       levels[level].priority);
		return (size_t)len;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	len = snprintf(line, LOG_LINE_MAX, "%s.%03ldZ pagefs %s: ", date,
		       now.tv_nsec / 1000000, levels[level].name);
	return (size_t)len;
}

static void write_all(const char *line, size_t len)
{
	/* A log that cannot be written has nobody to tell. */
	while (len > 0) {
		ssize_t done = write(STDERR_FILENO, line, len);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return;
		line += done;
		len -= (size_t)done;
	}
}

__attribute__((format(printf, 3, 0))) static void
write_line(enum log_level level, uint64_t suppressed, const char *format,
	   va_list arguments)
{
	/* One byte more than is ever text: the newline's. */
	char line[LOG_LINE_MAX + 1];
	int saved_errno = errno;
	size_t start = put_prefix(line, level);
	size_t len = start;
	int more;

	more = vsnprintf(line + len, LOG_LINE_MAX - len, format, arguments);
	if (more > 0)
		len += (size_t)more;
	if (suppressed > 0 && len < LOG_LINE_MAX) {
		more = snprintf(line + len, LOG_LINE_MAX - len,
				" (and %" PRIu64 " more like it)", suppressed);
		len += (size_t)more;
	}
	if (len >= LOG_LINE_MAX) {
		len = LOG_LINE_MAX - 1;
		memcpy(line + len - 3, "...", 3);
	}
	for (size_t i = start; i < len; i++) {
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
	}
	line[len++] = '\n';
	write_all(line, len);
	errno = saved_errno;
}

void log_write(enum log_level level, const char *format, ...)
{
	va_list arguments;

	if (!log_enabled(level))
		return;
	va_start(arguments, format);
	write_line(level, 0, format, arguments);
	va_end(arguments);
}

/* Whether this call may write; `ret_suppressed`: how many before could not. */
static bool take_turn(struct log_limit *limit, uint64_t *ret_suppressed)
{
	uint64_t now_ns = clock_monotonic_ns();
	uint64_t next_ns =
		atomic_load_explicit(&limit->next_ns, memory_order_relaxed);

	/* Of threads that come at once, the one whose exchange succeeds. */
	if (now_ns < next_ns ||
	    !atomic_compare_exchange_strong(&limit->next_ns, &next_ns,
					    now_ns + CLOCK_NS_PER_SECOND)) {
		atomic_fetch_add_explicit(&limit->suppressed, 1,
					  memory_order_relaxed);
		return false;
	}
	*ret_suppressed = atomic_exchange_explicit(&limit->suppressed, 0,
						   memory_order_relaxed);
	return true;
}

void log_limited(struct log_limit *limit, enum log_level level,
		 const char *format, ...)
{
	va_list arguments;
	uint64_t suppressed;

	if (!log_enabled(level) || !take_turn(limit, &suppressed))
		return;
	va_start(arguments, format);
	write_line(level, suppressed, format, arguments);
	va_end(arguments);
}
