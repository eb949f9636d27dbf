/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_CONTROL_H
#define PAGEFS_FS_CONTROL_H

/*
 * The hidden directory .pagefs: reachable by name from the root, listed
 * nowhere.  What is read is made when the file is opened; what is written is
 * taken a line at a time, as the write comes, and answered by the write's (the
 * last line without a newline: by the close's) error.  A key may have a slash
 * in front, so that one called `*` or `-r x` can be meant.
 *
 *	stats       lines `name value`       stats.json  the same as JSON
 *	metrics     Prometheus text          config      `name = value`; may be
 *	                                                 written
 *	negative    ids of keys with the     clear       write anything: empties
 *	            seconds they have left               the negative cache
 *	evict       a key a line, `*`: all   sync        write anything
 *	remove      `key` or `-r key`: removes it, hidden ones as well; EAGAIN:
 *	            some is left, write again; `-r /`: everything
 *	stop        `keep` or `free`: what becomes of the memory tier when the
 *	            file system is unmounted
 *
 * Threads: any.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/fuse.h"

struct cache_name;
struct control;
struct control_file;
struct fs;
struct node;
struct stat;
struct strbuf;
struct values;

#define CONTROL_NAME ".pagefs"
#define CONTROL_INPUT_MAX (1u << 20) /* a line at most, a write at most */

/* What the wiring knows and the control files show. */
struct control_wiring {
	/* Adds the tiers' numbers: see fs/values.h. */
	void (*tiers)(void *arg, struct values *values);
	/* Adds the options in force, as lines. */
	void (*options)(void *arg, struct strbuf *out);
	/* `name = value`: 0; -EINVAL, and the log says why. */
	int (*configure)(void *arg, const char *line);
	/* What becomes of the memory tier at the end. */
	void (*keep_memory)(void *arg, bool keep);
	void *arg;
};

int control_new(const struct control_wiring *wiring, struct control **ret);
void control_free(struct control *control);

/* Is this name in this directory that of the control directory? */
bool control_is_name(const struct node *parent, const char *name);
/* Answers a look-up of the control directory, or of something in it; false:
 * it is neither. */
bool control_lookup(fuse_req_t req, struct node *parent, const char *name);
void control_attributes(const struct fs *fs, const struct node *node,
			struct stat *ret);
/* The names in it, in order: NULL after the last. */
const char *control_name(unsigned index, uint64_t *ret_number);

/* 0, -EISDIR, -EACCES (a file that can't be read, or not be written), -ENOMEM;
 * makes the text to be read. */
int control_open(struct fs *fs, const struct node *node, int flags,
		 struct control_file **ret);
/* What there is from that offset; valid until control_close(). */
const char *control_read(struct control_file *file, size_t offset, size_t max,
			 size_t *ret_len);
/* Takes whole lines: 0, or the first line's -errno (-EINVAL: it could not be
 * read). */
int control_write(struct control_file *file, const char *data, size_t len);
/* Takes what is left without a newline. */
int control_flush(struct control_file *file);
void control_close(struct control_file *file);

/* The kernel is about to be told that the negative cache hides this name.
 * False: it shouldn't remember it. */
bool control_hidden(struct fs *fs, const struct cache_name *name,
		    uint64_t ttl_ns);
/* Makes the kernel ask again for names that the negative cache hid. */
void control_show_hidden(struct fs *fs);

#endif
