/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_STATUS_TEXT_H
#define PAGEFS_TOOLS_STATUS_TEXT_H

#include <jansson.h>

struct strbuf;

/* The figures of a mount (the object in its control file stats.json) in words:
 * a line a subject, then an alarm a line with what to do about it. A figure
 * that is not there counts as zero. A pure function. */
void status_text(const char *mount, const json_t *stats, struct strbuf *out);

#endif
