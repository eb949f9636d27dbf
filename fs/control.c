/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/control.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/control_files.h"
#include "fs/fs.h"
#include "tools/lib/strbuf.h"

#define NUMBER_DIR 2u
#define NUMBER_FIRST 3u /* of the first file */

static const struct control_kind kinds[] = {
	{"stats", 0444, control_make_stats, NULL},
	{"stats.json", 0444, control_make_json, NULL},
	{"metrics", 0444, control_make_metrics, NULL},
	{"config", 0644, control_make_config, control_take_config},
	{"negative", 0444, control_make_negative, NULL},
	{"clear", 0200, NULL, control_take_clear},
	{"evict", 0200, NULL, control_take_evict},
	{"remove", 0200, NULL, control_take_remove},
	{"sync", 0200, NULL, control_take_sync},
	{"stop", 0200, NULL, control_take_stop},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

_Static_assert(NUMBER_FIRST + KINDS <= NODE_RESERVED,
	       "the numbers of control files must not be those of nodes");

struct control_file {
	struct fs *fs;
	const struct control_kind *kind;
	struct strbuf text; /* fixed once open */
	pthread_mutex_t lock;
	struct strbuf input; /* the line so far; guarded by lock */
};

int control_new(const struct control_wiring *wiring, struct control **ret)
{
	struct control *control = calloc(1, sizeof(*control));

	if (!control)
		return -ENOMEM;
	control->wiring = *wiring;
	if (hidden_new(&control->hidden)) {
		free(control);
		return -ENOMEM;
	}
	*ret = control;
	return 0;
}

void control_free(struct control *control)
{
	if (!control)
		return;
	hidden_free(control->hidden);
	free(control);
}

bool control_is_name(const struct node *parent, const char *name)
{
	return parent->number == NODE_ROOT && strcmp(name, CONTROL_NAME) == 0;
}

const char *control_name(unsigned index, uint64_t *ret_number)
{
	if (index >= KINDS)
		return NULL;
	*ret_number = NUMBER_FIRST + index;
	return kinds[index].name;
}

static uint64_t find(const struct node *parent, const char *name)
{
	if (control_is_name(parent, name))
		return NUMBER_DIR;
	if (parent->clock != NUMBER_DIR)
		return 0;
	for (unsigned i = 0; i < KINDS; i++) {
		if (strcmp(kinds[i].name, name) == 0)
			return NUMBER_FIRST + i;
	}
	return 0;
}

bool control_lookup(fuse_req_t req, struct node *parent, const char *name)
{
	struct fs *fs = fs_of(req);
	struct node_key key = {.kind = NODE_CONTROL};
	struct fuse_entry_param entry = {0};
	struct node *node;

	if (parent->kind != NODE_CONTROL && !control_is_name(parent, name))
		return false;
	key.clock = find(parent, name);
	/* No page has a number as high as these. */
	key.object = UINT64_MAX - key.clock;
	if (!key.clock) {
		fuse_reply_err(req, ENOENT);
		return true;
	}
	node = node_enter(fs->nodes, &key, 0, name, strlen(name));
	if (!node) {
		fuse_reply_err(req, ENOMEM);
		return true;
	}
	entry.ino = node->number;
	entry.entry_timeout = FS_LONG_SECONDS;
	control_attributes(fs, node, &entry.attr);
	if (fuse_reply_entry(req, &entry) == -ENOENT)
		node_forget(fs->nodes, node, 1);
	return true;
}

void control_attributes(const struct fs *fs, const struct node *node,
			struct stat *ret)
{
	bool dir = node->clock == NUMBER_DIR;

	*ret = (struct stat){
		.st_ino = node->object,
		.st_mode =
			dir ? S_IFDIR | 0555u
			    : S_IFREG | kinds[node->clock - NUMBER_FIRST].mode,
		.st_nlink = dir ? 2 : 1,
		.st_uid = fs->settings.owner,
		.st_gid = fs->settings.owner_group,
		.st_blksize = 4096,
	};
}

int control_open(struct fs *fs, const struct node *node, int flags,
		 struct control_file **ret)
{
	int mode = flags & O_ACCMODE;
	const struct control_kind *kind;
	struct control_file *file;

	if (node->clock < NUMBER_FIRST)
		return -EISDIR;
	kind = &kinds[node->clock - NUMBER_FIRST];
	if ((mode != O_WRONLY && !kind->make) ||
	    (mode != O_RDONLY && !kind->take))
		return -EACCES;
	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	file->fs = fs;
	file->kind = kind;
	pthread_mutex_init(&file->lock, NULL);
	strbuf_init(&file->text, 0);
	strbuf_init(&file->input, CONTROL_INPUT_MAX);
	if (mode != O_WRONLY)
		kind->make(fs, &file->text);
	if (strbuf_error(&file->text)) {
		control_close(file);
		return -ENOMEM;
	}
	*ret = file;
	return 0;
}

const char *control_read(struct control_file *file, size_t offset, size_t max,
			 size_t *ret_len)
{
	size_t len = file->text.len;

	if (offset > len)
		offset = len;
	*ret_len = len - offset < max ? len - offset : max;
	return strbuf_text(&file->text) + offset;
}

/* Called locked.  Takes the line that has been gathered. */
static int take_line(struct control_file *file)
{
	int r = strbuf_error(&file->input);

	if (!r)
		r = file->kind->take(file->fs, strbuf_text(&file->input),
				     file->input.len);
	strbuf_reset(&file->input);
	return r;
}

int control_write(struct control_file *file, const char *data, size_t len)
{
	int r = 0;

	if (!file->kind->take)
		return -EBADF;
	pthread_mutex_lock(&file->lock);
	while (!r && len) {
		const char *end = memchr(data, '\n', len);
		size_t part = end ? (size_t)(end - data) : len;

		strbuf_add(&file->input, data, part);
		data += part;
		len -= part;
		if (end) {
			data++;
			len--;
			r = take_line(file);
		}
	}
	if (strbuf_error(&file->input))
		r = take_line(file);
	pthread_mutex_unlock(&file->lock);
	return r;
}

int control_flush(struct control_file *file)
{
	int r = 0;

	pthread_mutex_lock(&file->lock);
	if (file->input.len)
		r = take_line(file);
	pthread_mutex_unlock(&file->lock);
	return r;
}

void control_close(struct control_file *file)
{
	if (!file)
		return;
	strbuf_release(&file->text);
	strbuf_release(&file->input);
	pthread_mutex_destroy(&file->lock);
	free(file);
}
