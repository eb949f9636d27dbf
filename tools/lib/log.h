/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_LIB_LOG_H
#define PAGEFS_TOOLS_LIB_LOG_H

/*
 * The log: one line a message, to stderr. Under systemd (JOURNAL_STREAM is
 * set) a line starts with its syslog priority, "<3>", and journald adds the
 * time; elsewhere it starts with the time and the level. A newline or other
 * control byte inside a message is written as '?', so that a key with a
 * newline in its name cannot forge a line.
 *
 * Any thread may call anything here; a line is one write(2). A message below
 * the level costs one relaxed load. errno is left as it was.
 */

#include <stdbool.h>
#include <stdint.h>

enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
};

/* The longest line, in bytes; what is beyond is cut, and ends in "...". */
#define LOG_LINE_MAX 2048

/* State of one place that logs at most once a second; starts as zeros. */
struct log_limit {
	_Atomic uint64_t next_ns;    /* monotonic; nothing before this */
	_Atomic uint64_t suppressed; /* lines since the last one written */
};

/* Sets the level and looks at JOURNAL_STREAM. Before it, the level is info. */
void log_open(enum log_level level);

bool log_enabled(enum log_level level);

/* The level of that name ("error", "warning", "info", "debug"), or -EINVAL. */
int log_level_parse(const char *name);
const char *log_level_name(enum log_level level);

void log_write(enum log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Like log_write, but at most one line a second for each `limit`; the line
 * after a pause says how many were suppressed. */
void log_limited(struct log_limit *limit, enum log_level level,
		 const char *format, ...) __attribute__((format(printf, 3, 4)));

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
