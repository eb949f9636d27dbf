/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/control_files.h"
#include "fs/fs.h"
#include "tools/lib/clock.h"
#include "tools/lib/log.h"

/* Whoever looks after a command has returned sees what it did. */
#define TOLD_NS CLOCK_NS_PER_SECOND

/* Names that one request removes at most: some 50 ms. */
#define REMOVE_NAMES 4096u

static void wait_told(struct fs *fs)
{
	inval_flush(fs->inval, clock_monotonic_ns() + TOLD_NS);
}

static void show(void *arg, uint64_t dir, const char *name, size_t len)
{
	struct fs *fs = arg;

	inval_name(fs->inval, dir, name, len, NULL, NULL);
}

bool control_hidden(struct fs *fs, const struct cache_name *name,
		    uint64_t ttl_ns)
{
	return hidden_add(fs->control->hidden, name->dir, name->name, name->len,
			  clock_monotonic_ns(), ttl_ns);
}

void control_show_hidden(struct fs *fs)
{
	hidden_take(fs->control->hidden, clock_monotonic_ns(), show, fs);
	wait_told(fs);
}

int control_take_config(struct fs *fs, const char *line, size_t len)
{
	const struct control_wiring *wiring = &fs->control->wiring;
	int r;

	if (strspn(line, " \t") == len || line[0] == '#')
		return 0;
	r = wiring->configure(wiring->arg, line);
	if (!r)
		control_show_hidden(fs);
	return r;
}

int control_take_clear(struct fs *fs, const char *line, size_t len)
{
	size_t count = negative_clear(cache_negative(fs->cache));

	(void)line;
	(void)len;
	control_show_hidden(fs);
	log_info("negative cache emptied: %zu entries", count);
	return 0;
}

/* The key of a line, to a name; an empty one is the root: CACHE_MISS. */
static int resolve(struct fs *fs, const char *key, size_t len,
		   struct cache_name *ret)
{
	while (len && *key == '/') {
		key++;
		len--;
	}
	return len ? cache_resolve(fs->cache, key, len, ret) : CACHE_MISS;
}

int control_take_evict(struct fs *fs, const char *line, size_t len)
{
	struct cache_name name;
	int r;

	if (strcmp(line, "*") == 0)
		return -fs_errno(cache_evict(fs->cache, NULL));
	r = resolve(fs, line, len, &name);
	if (!r)
		r = cache_evict(fs->cache, &name);
	return -fs_errno(r);
}

int control_take_remove(struct fs *fs, const char *line, size_t len)
{
	bool tree = strncmp(line, "-r ", 3) == 0;
	struct cache_name name;
	int r;

	if (tree) {
		line += 3;
		len -= 3;
	}
	if (tree && strspn(line, "/") == len) {
		r = cache_remove(fs->cache, NULL, true, REMOVE_NAMES);
	} else {
		r = resolve(fs, line, len, &name);
		if (!r)
			r = cache_remove(fs->cache, &name, tree, REMOVE_NAMES);
	}
	wait_told(fs);
	return r == CACHE_MORE ? -EAGAIN : -fs_errno(r);
}

int control_take_sync(struct fs *fs, const char *line, size_t len)
{
	(void)line;
	(void)len;
	return -fs_errno(cache_sync(fs->cache));
}

int control_take_stop(struct fs *fs, const char *line, size_t len)
{
	const struct control_wiring *wiring = &fs->control->wiring;

	(void)len;
	if (strcmp(line, "keep") == 0)
		wiring->keep_memory(wiring->arg, true);
	else if (strcmp(line, "free") == 0)
		wiring->keep_memory(wiring->arg, false);
	else
		return -EINVAL;
	return 0;
}
