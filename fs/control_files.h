/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_CONTROL_FILES_H
#define PAGEFS_FS_CONTROL_FILES_H

/* What each control file gives and takes; between fs/control*.c only. */

#include <stddef.h>
#include <sys/types.h>

#include "fs/control.h"
#include "fs/hidden.h"

struct control {
	struct control_wiring wiring;
	struct hidden *hidden;
};

struct control_kind {
	const char *name;
	mode_t mode;
	/* NULL: can't be read. */
	void (*make)(struct fs *fs, struct strbuf *out);
	/* One line (terminated); NULL: can't be written. */
	int (*take)(struct fs *fs, const char *line, size_t len);
};

void control_make_stats(struct fs *fs, struct strbuf *out);
void control_make_json(struct fs *fs, struct strbuf *out);
void control_make_metrics(struct fs *fs, struct strbuf *out);
void control_make_config(struct fs *fs, struct strbuf *out);
void control_make_negative(struct fs *fs, struct strbuf *out);

int control_take_config(struct fs *fs, const char *line, size_t len);
int control_take_clear(struct fs *fs, const char *line, size_t len);
int control_take_evict(struct fs *fs, const char *line, size_t len);
int control_take_remove(struct fs *fs, const char *line, size_t len);
int control_take_sync(struct fs *fs, const char *line, size_t len);
int control_take_stop(struct fs *fs, const char *line, size_t len);

#endif
