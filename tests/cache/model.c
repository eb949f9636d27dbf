/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cache/model.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>

void model_init(struct model *model, uint64_t seed)
{
	memset(model, 0, sizeof(*model));
	model->random = seed * 0x9E3779B97F4A7C15ull + 1;
}

uint64_t model_random(struct model *model, uint64_t below)
{
	model->random ^= model->random << 13;
	model->random ^= model->random >> 7;
	model->random ^= model->random << 17;
	return (model->random >> 11) % below;
}

struct model_node *model_find(struct model *model, const char *key)
{
	for (int i = 0; i < MODEL_NODES; i++)
		if (model->nodes[i].type &&
		    strcmp(model->nodes[i].key, key) == 0)
			return &model->nodes[i];
	return NULL;
}

static struct model_node *node_for(struct model *model, const char *key)
{
	struct model_node *node = model_find(model, key);

	for (int i = 0; !node && i < MODEL_NODES; i++)
		if (!model->nodes[i].type)
			node = &model->nodes[i];
	assert_non_null(node);
	memset(node, 0, sizeof(*node));
	snprintf(node->key, sizeof(node->key), "%s", key);
	return node;
}

/* Is `key` below the directory `dir`? */
static bool below(const char *key, const char *dir)
{
	size_t len = strlen(dir);

	return strncmp(key, dir, len) == 0 && key[len] == '/';
}

static bool dir_empty(struct model *model, const char *dir)
{
	for (int i = 0; i < MODEL_NODES; i++)
		if (model->nodes[i].type && below(model->nodes[i].key, dir))
			return false;
	return true;
}

static bool parent_there(struct model *model, const char *key)
{
	char parent[MODEL_KEY];
	char *slash;
	struct model_node *node;

	snprintf(parent, sizeof(parent), "%s", key);
	slash = strrchr(parent, '/');
	if (!slash)
		return true;
	*slash = 0;
	node = model_find(model, parent);
	return node && node->type == MODEL_DIR;
}

/* Three levels of few names, so that changes meet. */
static void random_key(struct model *model, char ret[MODEL_KEY])
{
	size_t len = 0;

	for (uint64_t depth = model_random(model, 3) + 1; depth; depth--)
		len += (size_t)snprintf(ret + len, MODEL_KEY - len, "%s%c%u",
					len ? "/" : "",
					(char)('a' + model_random(model, 3)),
					(unsigned)model_random(model, 2));
	if (model_random(model, 6) == 0)
		snprintf(ret + len, MODEL_KEY - len, ".tmp");
}

/* ---- changes ---- */

static void put(struct model *model, struct fixture *fixture, const char *key)
{
	struct model_node *node = model_find(model, key);
	uint64_t seed = ++model->seeds;
	size_t len = (size_t)model_random(model, 9) * 1000;

	if (node && node->type != MODEL_FILE)
		return;
	if (model_random(model, 20) == 0)
		len = (2u << 20) + 5000; /* several chunks */
	fixture_put(fixture, key, seed, len);
	node = node_for(model, key);
	node->type = MODEL_FILE;
	node->seed = seed;
	node->len = len;
}

static void make_dir(struct model *model, struct fixture *fixture,
		     const char *key)
{
	struct cache_name name = fixture_name(fixture, key);
	struct cache_creator creator = {0, 0, 0755};
	struct cache_found found;
	int error = cache_mkdir(fixture->cache, &name, &creator, &found);

	assert_int_equal(error, model_find(model, key) ? -EEXIST : 0);
	if (!error)
		node_for(model, key)->type = MODEL_DIR;
}

static void make_symlink(struct model *model, struct fixture *fixture,
			 const char *key)
{
	struct cache_name name = fixture_name(fixture, key);
	struct cache_creator creator = {0, 0, 0777};
	struct cache_found found;
	struct model_node *node;
	char target[32];
	int error;

	snprintf(target, sizeof(target), "%llu",
		 (unsigned long long)++model->seeds);
	error = cache_symlink(fixture->cache, &name, target, &creator, &found);
	assert_int_equal(error, model_find(model, key) ? -EEXIST : 0);
	if (error)
		return;
	node = node_for(model, key);
	node->type = MODEL_SYMLINK;
	node->seed = model->seeds;
}

static void remove_key(struct model *model, struct fixture *fixture,
		       const char *key)
{
	struct model_node *node = model_find(model, key);
	struct cache_name name = fixture_name(fixture, key);

	if (node && node->type == MODEL_DIR) {
		int error = cache_rmdir(fixture->cache, &name);

		assert_int_equal(error, dir_empty(model, key) ? 0 : -ENOTEMPTY);
		if (!error)
			node->type = MODEL_NONE;
		return;
	}
	assert_int_equal(cache_unlink(fixture->cache, &name),
			 node ? 0 : CACHE_MISS);
	if (node)
		node->type = MODEL_NONE;
}

static void link_key(struct model *model, struct fixture *fixture,
		     const char *from, const char *to)
{
	struct model_node *node = model_find(model, from);
	struct cache_name a = fixture_name(fixture, from);
	struct cache_name b = fixture_name(fixture, to);
	struct cache_found found;
	struct model_node *second;
	int error;

	if (!node || node->type != MODEL_FILE)
		return;
	error = cache_link(fixture->cache, &a, &b, &found);
	assert_int_equal(error, model_find(model, to) ? -EEXIST : 0);
	if (error)
		return;
	second = node_for(model, to);
	second->type = MODEL_FILE;
	second->seed = node->seed;
	second->len = node->len;
}

static void change_mode(struct model *model, struct fixture *fixture,
			const char *key)
{
	struct meta_entry values = {.mode = 0640};
	struct cache_name name = fixture_name(fixture, key);
	struct cache_found found;

	if (!model_find(model, key))
		return;
	assert_int_equal(cache_lookup(fixture->cache, &name, 1, &found), 0);
	assert_int_equal(cache_set_attributes(fixture->cache, &name,
					      found.entry.object,
					      CACHE_SET_MODE, &values, &found),
			 0);
}

/* ---- rename ---- */

static int may_rename(struct model *model, const char *from, const char *to,
		      unsigned flags)
{
	struct model_node *a = model_find(model, from);
	struct model_node *b = model_find(model, to);

	if (!a || (flags & RENAME_EXCHANGE && !b))
		return CACHE_MISS;
	if (flags & RENAME_NOREPLACE && b)
		return -EEXIST;
	if (strcmp(from, to) == 0)
		return 0;
	if (below(to, from))
		return -EINVAL;
	if (flags & RENAME_EXCHANGE)
		return below(from, to) ? -EINVAL : 0;
	if (b && a->type == MODEL_DIR && b->type != MODEL_DIR)
		return -ENOTDIR;
	if (b && a->type != MODEL_DIR && b->type == MODEL_DIR)
		return -EISDIR;
	if (b && b->type == MODEL_DIR && !dir_empty(model, to))
		return -ENOTEMPTY;
	return 0;
}

/* What is at or below `from` is called `to` now. */
static void move(struct model *model, const char *from, const char *to)
{
	size_t len = strlen(from);
	char key[2 * MODEL_KEY];

	for (int i = 0; i < MODEL_NODES; i++) {
		struct model_node *node = &model->nodes[i];

		if (!node->type ||
		    (strcmp(node->key, from) != 0 && !below(node->key, from)))
			continue;
		snprintf(key, sizeof(key), "%s%s", to, node->key + len);
		assert_true(strlen(key) < MODEL_KEY);
		memcpy(node->key, key, strlen(key) + 1);
	}
}

static void rename_key(struct model *model, struct fixture *fixture,
		       const char *from, const char *to)
{
	static const unsigned all_flags[] = {0, 0, 0, RENAME_NOREPLACE,
					     RENAME_EXCHANGE};
	unsigned flags = all_flags[model_random(model, 5)];
	int expected = may_rename(model, from, to, flags);
	int error = fixture_rename(fixture, from, to, flags);
	struct model_node *b = model_find(model, to);

	if (expected != error)
		fail_msg("rename %s %s %u: %d, not %d", from, to, flags, error,
			 expected);
	if (error || strcmp(from, to) == 0)
		return;
	if (flags & RENAME_EXCHANGE) {
		move(model, from, "?");
		move(model, to, from);
		move(model, "?", to);
		return;
	}
	/* Two names of one object stay as they are. */
	if (b && b->type == MODEL_FILE) {
		struct cache_found found;

		if (fixture_lookup(fixture, from, &found) == 0)
			return;
	}
	if (b)
		b->type = MODEL_NONE;
	move(model, from, to);
}

void model_step(struct model *model, struct fixture *fixture)
{
	char key[MODEL_KEY], other[MODEL_KEY];

	random_key(model, key);
	random_key(model, other);
	if (!parent_there(model, key) || !parent_there(model, other))
		return;
	switch (model_random(model, 16)) {
	case 0:
	case 1:
	case 2:
		make_dir(model, fixture, key);
		break;
	case 3:
		make_symlink(model, fixture, key);
		break;
	case 4:
	case 5:
		remove_key(model, fixture, key);
		break;
	case 6:
		link_key(model, fixture, key, other);
		break;
	case 7:
		change_mode(model, fixture, key);
		break;
	case 8:
	case 9:
	case 10:
	case 11:
		rename_key(model, fixture, key, other);
		break;
	default:
		put(model, fixture, key);
	}
}

/* ---- comparing ---- */

struct comparing {
	struct model *model;
	struct fixture *fixture;
	char dirs[MODEL_NODES][MODEL_KEY];
	int dir_count, names;
	const char *prefix;
};

static int compare_name(void *arg, uint64_t cookie, const char *name,
			size_t len, const struct meta_entry *entry)
{
	struct comparing *comparing = arg;
	struct model_node *node;
	char key[2 * MODEL_KEY];

	(void)cookie;
	snprintf(key, sizeof(key), "%s%s%.*s", comparing->prefix,
		 *comparing->prefix ? "/" : "", (int)len, name);
	node = model_find(comparing->model, key);
	if (!node)
		fail_msg("%s is there, and should not be", key);
	assert_int_equal(entry->type == META_DIR, node->type == MODEL_DIR);
	assert_int_equal(entry->type == META_FILE, node->type == MODEL_FILE);
	comparing->names++;
	if (node->type == MODEL_DIR)
		memcpy(comparing->dirs[comparing->dir_count++], node->key,
		       MODEL_KEY);
	return 0;
}

static void compare_bytes(struct fixture *fixture,
			  const struct model_node *node)
{
	struct cache_found found;
	char target[32] = "", expected[32];

	if (node->type == MODEL_FILE) {
		int error =
			fixture_get(fixture, node->key, node->seed, node->len);

		if (error)
			fail_msg("%s: %d", node->key, error);
	}
	if (node->type != MODEL_SYMLINK)
		return;
	assert_int_equal(fixture_lookup(fixture, node->key, &found), 0);
	assert_int_equal(cache_readlink(fixture->cache, found.entry.object,
					target, sizeof(target)),
			 0);
	snprintf(expected, sizeof(expected), "%llu",
		 (unsigned long long)node->seed);
	assert_string_equal(target, expected);
}

void model_compare(struct model *model, struct fixture *fixture)
{
	struct comparing comparing = {model, fixture, .dir_count = 1};
	struct cache_space space;
	int expected = 0;

	while (comparing.dir_count) {
		char dir[MODEL_KEY];
		uint64_t object = META_ROOT;
		struct cache_found found;

		memcpy(dir, comparing.dirs[--comparing.dir_count], MODEL_KEY);
		comparing.prefix = dir;
		if (*dir) {
			assert_int_equal(fixture_lookup(fixture, dir, &found),
					 0);
			object = found.entry.object;
		}
		assert_int_equal(cache_list(fixture->cache, object, 0, NULL, 0,
					    compare_name, &comparing),
				 0);
	}
	for (int i = 0; i < MODEL_NODES; i++) {
		if (!model->nodes[i].type)
			continue;
		expected++;
		compare_bytes(fixture, &model->nodes[i]);
	}
	assert_int_equal(comparing.names, expected);
	cache_get_space(fixture->cache, &space);
	assert_int_equal(space.pages, expected);
}
