/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cache/fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tools/lib/clock.h"

static struct fixture f;

static int open_memory(void **state)
{
	(void)state;
	fixture_open(&f, false);
	return 0;
}

static int open_disk(void **state)
{
	(void)state;
	fixture_open(&f, true);
	return 0;
}

static int close_it(void **state)
{
	(void)state;
	fixture_close(&f);
	return 0;
}

static int find(const char *key)
{
	struct cache_found found;

	return fixture_lookup(&f, key, &found);
}

static uint32_t links(const char *key)
{
	struct cache_found found;

	assert_int_equal(fixture_lookup(&f, key, &found), 0);
	return found.links;
}

/* ---- making ---- */

static void a_directory_is_made_once(void **state)
{
	struct cache_name name = fixture_name(&f, "d");
	struct cache_creator creator = {1, 2, 0750};
	struct cache_found found;
	uint64_t parent;

	(void)state;
	assert_int_equal(cache_mkdir(f.cache, &name, &creator, &found), 0);
	assert_int_equal(found.entry.type, META_DIR);
	assert_int_equal(found.entry.mode, 0750);
	assert_int_equal(found.links, 2);
	assert_int_equal(cache_mkdir(f.cache, &name, &creator, &found),
			 -EEXIST);
	assert_int_equal(cache_directory(f.cache, META_ROOT, &found, &parent),
			 0);
	assert_int_equal(found.links, 3);
	assert_int_equal(cache_rmdir(f.cache, &name), 0);
	assert_int_equal(cache_rmdir(f.cache, &name), CACHE_MISS);
	assert_int_equal(cache_directory(f.cache, META_ROOT, &found, &parent),
			 0);
	assert_int_equal(found.links, 2);
}

static void a_symlink_tells_its_target(void **state)
{
	struct cache_name name = fixture_name(&f, "s");
	struct cache_creator creator = fixture_creator();
	struct cache_found found;
	char target[64];

	(void)state;
	assert_int_equal(cache_symlink(f.cache, &name, "a/b", &creator, &found),
			 0);
	assert_int_equal(found.entry.size_bytes, 3);
	assert_int_equal(cache_readlink(f.cache, found.entry.object, target,
					sizeof(target)),
			 0);
	assert_string_equal(target, "a/b");
	assert_int_equal(cache_unlink(f.cache, &name), 0);
	assert_int_equal(cache_readlink(f.cache, found.entry.object, target,
					sizeof(target)),
			 CACHE_MISS);
}

static void a_page_is_put_and_read_back(void **state)
{
	struct cache_space space;

	(void)state;
	fixture_put(&f, "p", 1, 300000);
	assert_int_equal(fixture_get(&f, "p", 1, 300000), 0);
	assert_int_equal(fixture_get(&f, "p", 2, 300000), -EILSEQ);
	assert_int_equal(fixture_get(&f, "q", 1, 300000), CACHE_MISS);
	fixture_put(&f, "p", 3, 10);
	assert_int_equal(fixture_get(&f, "p", 3, 10), 0);
	fixture_put(&f, "empty", 1, 0);
	assert_int_equal(fixture_get(&f, "empty", 1, 0), 0);
	cache_get_space(f.cache, &space);
	assert_int_equal(space.total_bytes - space.free_bytes, 10);
}

static void names_are_longer_than_a_name_may_be(void **state)
{
	char name[300];
	struct cache_creator creator = fixture_creator();
	struct cache_found found;
	struct cache_name at = {META_ROOT, name, 256};

	(void)state;
	memset(name, 'x', sizeof(name));
	assert_int_equal(cache_mkdir(f.cache, &at, &creator, &found),
			 -ENAMETOOLONG);
	assert_int_equal(cache_lookup(f.cache, &at, 1, &found), -ENAMETOOLONG);
	at.len = 255;
	assert_int_equal(cache_mkdir(f.cache, &at, &creator, &found), 0);
}

static void nothing_is_made_in_a_directory_that_is_gone(void **state)
{
	struct cache_creator creator = fixture_creator();
	struct cache_name name;
	struct cache_found found;

	(void)state;
	fixture_mkdir(&f, "d");
	name = fixture_name(&f, "d/x");
	assert_int_equal(fixture_unlink(&f, "d"), -EISDIR);
	name.name = "x";
	{
		struct cache_name d = fixture_name(&f, "d");

		assert_int_equal(cache_rmdir(f.cache, &d), 0);
	}
	assert_int_equal(cache_mkdir(f.cache, &name, &creator, &found),
			 -ENOENT);
}

/* ---- hard links ---- */

static void a_link_lives_and_is_overwritten_by_itself(void **state)
{
	struct cache_name a, b;
	struct cache_found found;

	(void)state;
	fixture_put(&f, "a", 1, 5000);
	a = fixture_name(&f, "a");
	b = fixture_name(&f, "b");
	assert_int_equal(cache_link(f.cache, &a, &b, &found), 0);
	assert_int_equal(found.links, 2);
	assert_int_equal(cache_link(f.cache, &a, &b, &found), -EEXIST);
	assert_int_equal(fixture_get(&f, "b", 1, 5000), 0);
	fixture_put(&f, "a", 2, 6000);
	assert_int_equal(fixture_get(&f, "a", 2, 6000), 0);
	assert_int_equal(fixture_get(&f, "b", 1, 5000), 0);
	assert_int_equal(links("b"), 1);
	assert_int_equal(fixture_unlink(&f, "a"), 0);
	assert_int_equal(fixture_get(&f, "b", 1, 5000), 0);
}

static void the_first_of_two_names_may_go_first(void **state)
{
	struct cache_name a, b, c;
	struct cache_found found;

	(void)state;
	fixture_put(&f, "a", 1, 5000);
	a = fixture_name(&f, "a");
	b = fixture_name(&f, "b");
	c = fixture_name(&f, "c");
	assert_int_equal(cache_link(f.cache, &a, &b, &found), 0);
	assert_int_equal(cache_link(f.cache, &b, &c, &found), 0);
	assert_int_equal(links("a"), 3);
	assert_int_equal(fixture_rename(&f, "b", "bb", 0), 0);
	assert_int_equal(fixture_unlink(&f, "a"), 0);
	assert_int_equal(links("bb"), 2);
	assert_int_equal(fixture_rename(&f, "bb", "c", 0), 0);
	assert_int_equal(fixture_get(&f, "bb", 1, 5000), 0);
	assert_int_equal(fixture_unlink(&f, "bb"), 0);
	assert_int_equal(links("c"), 1);
	assert_int_equal(fixture_get(&f, "c", 1, 5000), 0);
	assert_int_equal(fixture_unlink(&f, "c"), 0);
	assert_int_equal(find("c"), CACHE_MISS);
}

/* ---- rename ---- */

static void rename_replaces_a_page(void **state)
{
	(void)state;
	fixture_put(&f, "k", 1, 4000);
	fixture_put(&f, "k.tmp", 2, 5000);
	assert_int_equal(fixture_rename(&f, "k.tmp", "k", RENAME_NOREPLACE),
			 -EEXIST);
	assert_int_equal(fixture_rename(&f, "k.tmp", "k", 0), 0);
	assert_int_equal(find("k.tmp"), CACHE_MISS);
	assert_int_equal(fixture_get(&f, "k", 2, 5000), 0);
	assert_int_equal(fixture_rename(&f, "k", "k", 0), 0);
	assert_int_equal(fixture_rename(&f, "nothing", "k", 0), CACHE_MISS);
}

static void rename_knows_directories(void **state)
{
	(void)state;
	fixture_mkdir(&f, "d");
	fixture_mkdir(&f, "d/e");
	fixture_mkdir(&f, "empty");
	fixture_put(&f, "d/e/p", 1, 1000);
	fixture_put(&f, "file", 2, 1000);
	assert_int_equal(fixture_rename(&f, "d", "d/e/x", 0), -EINVAL);
	assert_int_equal(fixture_rename(&f, "d", "file", 0), -ENOTDIR);
	assert_int_equal(fixture_rename(&f, "file", "d", 0), -EISDIR);
	assert_int_equal(fixture_rename(&f, "empty", "d", 0), -ENOTEMPTY);
	assert_int_equal(fixture_rename(&f, "d", "empty", 0), 0);
	assert_int_equal(find("d"), CACHE_MISS);
	assert_int_equal(fixture_get(&f, "empty/e/p", 1, 1000), 0);
	assert_int_equal(fixture_rename(&f, "empty/e", "e", 0), 0);
	assert_int_equal(fixture_get(&f, "e/p", 1, 1000), 0);
	assert_int_equal(links("empty"), 2);
}

static void exchange_swaps_two_names(void **state)
{
	(void)state;
	fixture_mkdir(&f, "d");
	fixture_mkdir(&f, "d/e");
	fixture_put(&f, "d/p", 1, 1000);
	fixture_put(&f, "q", 2, 2000);
	assert_int_equal(fixture_rename(&f, "d/p", "q", RENAME_EXCHANGE), 0);
	assert_int_equal(fixture_get(&f, "d/p", 2, 2000), 0);
	assert_int_equal(fixture_get(&f, "q", 1, 1000), 0);
	assert_int_equal(fixture_rename(&f, "d/e", "q", RENAME_EXCHANGE), 0);
	assert_int_equal(fixture_get(&f, "d/e", 1, 1000), 0);
	assert_int_equal(links("d"), 2);
	assert_int_equal(fixture_rename(&f, "d/p", "none", RENAME_EXCHANGE),
			 CACHE_MISS);
	assert_int_equal(fixture_rename(&f, "d", "d/p", RENAME_EXCHANGE),
			 -EINVAL);
}

/* ---- attributes ---- */

static void attributes_change_only_where_the_object_is_still_there(void **state)
{
	struct cache_name name;
	struct cache_found found;
	struct meta_entry values = {.mode = 0600, .mtime_ns = 12345};

	(void)state;
	fixture_put(&f, "p", 1, 100);
	name = fixture_name(&f, "p");
	assert_int_equal(fixture_lookup(&f, "p", &found), 0);
	assert_int_equal(cache_set_attributes(f.cache, &name,
					      found.entry.object,
					      CACHE_SET_MODE | CACHE_SET_MTIME,
					      &values, &found),
			 0);
	assert_int_equal(fixture_lookup(&f, "p", &found), 0);
	assert_int_equal(found.entry.mode, 0600);
	assert_int_equal(found.entry.mtime_ns, 12345);
	assert_int_equal(cache_set_attributes(f.cache, &name,
					      found.entry.object + 1,
					      CACHE_SET_MODE, &values, &found),
			 CACHE_MISS);
}

static void xattrs_are_set_listed_and_removed(void **state)
{
	struct cache_name name, link;
	struct cache_found found;
	uint64_t object;
	char text[64];

	(void)state;
	fixture_put(&f, "p", 1, 100);
	name = fixture_name(&f, "p");
	link = fixture_name(&f, "l");
	assert_int_equal(cache_link(f.cache, &name, &link, &found), 0);
	object = found.entry.object;
	assert_int_equal(cache_xattr_set(f.cache, &name, object, "user.a", "1",
					 1, XATTR_REPLACE),
			 -ENODATA);
	assert_int_equal(
		cache_xattr_set(f.cache, &name, object, "user.a", "12", 2, 0),
		0);
	assert_int_equal(cache_xattr_set(f.cache, &name, object, "user.a", "1",
					 1, XATTR_CREATE),
			 -EEXIST);
	assert_int_equal(cache_xattr_get(f.cache, object, "user.a", text, 0),
			 2);
	assert_int_equal(cache_xattr_get(f.cache, object, "user.a", text, 1),
			 -ERANGE);
	assert_int_equal(cache_xattr_get(f.cache, object, "user.a", text, 64),
			 2);
	assert_memory_equal(text, "12", 2);
	/* The other name's row among the attributes is not shown. */
	assert_int_equal(cache_xattr_list(f.cache, object, text, sizeof(text)),
			 7);
	assert_string_equal(text, "user.a");
	assert_int_equal(
		cache_xattr_set(f.cache, &name, object, "user.a", NULL, 0, 0),
		0);
	assert_int_equal(cache_xattr_get(f.cache, object, "user.a", text, 64),
			 -ENODATA);
}

/* ---- listing, keys ---- */

static int count_name(void *arg, uint64_t cookie, const char *name, size_t len,
		      const struct meta_entry *entry)
{
	(void)cookie;
	(void)name;
	(void)len;
	(void)entry;
	++*(int *)arg;
	return 0;
}

static void hidden_names_are_not_listed(void **state)
{
	struct cache_name name;
	struct cache_found found;
	struct key_id key;
	int count = 0;

	(void)state;
	fixture_put(&f, "a", 1, 100);
	fixture_put(&f, "b", 1, 100);
	name = fixture_name(&f, "a");
	key = negative_key(name.dir, name.name, name.len);
	negative_insert(cache_negative(f.cache), key, clock_monotonic_ns(),
			true);
	assert_int_equal(
		cache_list(f.cache, META_ROOT, 0, NULL, 0, count_name, &count),
		0);
	assert_int_equal(count, 1);
	assert_int_equal(cache_lookup(f.cache, &name, 1, &found), CACHE_HIDDEN);
	assert_true(found.ttl_ns > 0 && found.ttl_ns <= CLOCK_NS_PER_SECOND);
	assert_int_equal(cache_unlink(f.cache, &name), CACHE_MISS);
	assert_int_equal(fixture_rename(&f, "a", "c", 0), CACHE_MISS);
	/* A directory may take its place. */
	fixture_mkdir(&f, "a");
	assert_int_equal(find("a"), 0);
}

static void keys_are_resolved_and_told(void **state)
{
	struct cache_name name;
	char key[KEY_MAX_BYTES];
	size_t len;

	(void)state;
	fixture_mkdir(&f, "d");
	fixture_mkdir(&f, "d/e");
	fixture_put(&f, "p", 1, 1);
	name = fixture_name(&f, "//d/e/new/");
	assert_int_equal(name.len, 3);
	assert_int_equal(cache_key(f.cache, &name, key, &len), 0);
	assert_int_equal(len, 7);
	assert_memory_equal(key, "d/e/new", 7);
	assert_int_equal(cache_resolve(f.cache, "", 0, &name), -EINVAL);
	assert_int_equal(cache_resolve(f.cache, "x/y", 3, &name), CACHE_MISS);
	assert_int_equal(cache_resolve(f.cache, "p/y", 3, &name), -ENOTDIR);
}

/* ---- a slow source ---- */

struct slow {
	struct cache_source source;
	_Atomic int asked;
	int outcome; /* 1 + this later, from a thread; -1: at once */
	unsigned delay_ms;
	pthread_t threads[8];
	int thread_count;
};

struct late {
	struct slow *slow;
	void (*answer)(void *arg, int outcome, const struct meta_entry *entry);
	void *arg;
};

static void *answer_late(void *arg)
{
	struct late *late = arg;
	struct meta_entry entry = {.type = META_FILE, .object = 77};

	usleep(late->slow->delay_ms * 1000);
	late->answer(late->arg, late->slow->outcome, &entry);
	free(late);
	return NULL;
}

static void slow_lookup(void *self, const char *key, size_t key_bytes,
			uint64_t deadline_ns,
			void (*answer)(void *arg, int outcome,
				       const struct meta_entry *entry),
			void *arg)
{
	struct slow *slow = self;
	struct late *late = malloc(sizeof(*late));

	(void)key;
	(void)key_bytes;
	(void)deadline_ns;
	slow->asked++;
	*late = (struct late){slow, answer, arg};
	pthread_create(&slow->threads[slow->thread_count++], NULL, answer_late,
		       late);
}

static void open_with(struct slow *slow, int outcome, unsigned delay_ms,
		      unsigned wait_ms)
{
	memset(slow, 0, sizeof(*slow));
	slow->source = (struct cache_source){slow_lookup, slow};
	slow->outcome = outcome;
	slow->delay_ms = delay_ms;
	fixture_prepare(&f, false);
	f.config.source = &slow->source;
	f.config.lookup_wait_ms = wait_ms;
	fixture_start(&f);
}

static void join(struct slow *slow)
{
	for (int i = 0; i < slow->thread_count; i++)
		pthread_join(slow->threads[i], NULL);
}

static void a_source_is_waited_for_only_so_long(void **state)
{
	struct slow slow;
	struct cache_found found;
	uint64_t start_ns;

	(void)state;
	open_with(&slow, 0, 1500, 50);
	start_ns = clock_monotonic_ns();
	assert_int_equal(fixture_lookup(&f, "k", &found), CACHE_MISS);
	assert_int_equal(found.ttl_ns, 0);
	assert_true(clock_monotonic_ns() - start_ns < 1000 * CLOCK_NS_PER_MS);
	/* The answer comes when the cache is gone. */
	fixture_close(&f);
	join(&slow);
}

static void a_source_that_has_the_name_is_believed(void **state)
{
	struct slow slow;
	struct cache_found found;

	(void)state;
	open_with(&slow, 0, 1, 10000);
	assert_int_equal(fixture_lookup(&f, "k", &found), 0);
	assert_int_equal(found.entry.object, 77);
	assert_true(found.ttl_ns <= CLOCK_NS_PER_SECOND);
	/* A temporary name is nobody else's. */
	assert_int_equal(fixture_lookup(&f, "k.tmp", &found), CACHE_MISS);
	assert_int_equal(found.ttl_ns, UINT64_MAX);
	assert_int_equal(slow.asked, 1);
	fixture_close(&f);
	join(&slow);
}

static void a_plain_miss_is_remembered(void **state)
{
	struct slow slow;
	struct cache_found found;

	(void)state;
	open_with(&slow, CACHE_MISS, 1, 10000);
	assert_int_equal(fixture_lookup(&f, "k", &found), CACHE_MISS);
	assert_int_equal(fixture_lookup(&f, "k", &found), CACHE_MISS);
	assert_int_equal(slow.asked, 1);
	assert_true(found.ttl_ns > 0 && found.ttl_ns <= CLOCK_NS_PER_SECOND);
	fixture_put(&f, "k", 1, 10);
	assert_int_equal(fixture_unlink(&f, "k"), 0);
	assert_int_equal(fixture_lookup(&f, "k", &found), CACHE_MISS);
	assert_int_equal(slow.asked, 2);
	fixture_close(&f);
	join(&slow);
}

#define both(test)                                                             \
	cmocka_unit_test_setup_teardown(test, open_memory, close_it),          \
		cmocka_unit_test_setup_teardown(test, open_disk, close_it)

int main(void)
{
	const struct CMUnitTest tests[] = {
		both(a_directory_is_made_once),
		both(a_symlink_tells_its_target),
		both(a_page_is_put_and_read_back),
		both(names_are_longer_than_a_name_may_be),
		both(nothing_is_made_in_a_directory_that_is_gone),
		both(a_link_lives_and_is_overwritten_by_itself),
		both(the_first_of_two_names_may_go_first),
		both(rename_replaces_a_page),
		both(rename_knows_directories),
		both(exchange_swaps_two_names),
		both(attributes_change_only_where_the_object_is_still_there),
		both(xattrs_are_set_listed_and_removed),
		both(hidden_names_are_not_listed),
		both(keys_are_resolved_and_told),
		cmocka_unit_test(a_source_is_waited_for_only_so_long),
		cmocka_unit_test(a_source_that_has_the_name_is_believed),
		cmocka_unit_test(a_plain_miss_is_remembered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
