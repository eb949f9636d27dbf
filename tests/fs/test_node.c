/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int set_up(void **state)
{
	struct nodes *nodes;

	if (nodes_new(&nodes))
		return -1;
	*state = nodes;
	return 0;
}

static int tear_down(void **state)
{
	nodes_free(*state);
	return 0;
}

static struct node *enter(struct nodes *nodes, uint64_t object, uint64_t clock,
			  const char *name)
{
	struct node_key key = {
		.kind = NODE_PAGE, .object = object, .clock = clock};

	return node_enter(nodes, &key, 1, name, strlen(name));
}

static void one_version_is_one_node(void **state)
{
	struct nodes *nodes = *state;
	struct node *a = enter(nodes, 7, 1, "a");

	assert_ptr_equal(enter(nodes, 7, 1, "a"), a);
	assert_ptr_not_equal(enter(nodes, 7, 2, "a"), a);
	assert_ptr_equal(node_get(nodes, a->number), a);
	assert_int_equal(nodes_count(nodes), 3);
}

static void a_number_is_never_used_again(void **state)
{
	struct nodes *nodes = *state;
	struct node *node = enter(nodes, 7, 1, "a");
	uint64_t number = node->number;

	node_forget(nodes, node, 1);
	assert_null(node_get(nodes, number));
	assert_int_not_equal(enter(nodes, 7, 1, "a")->number, number);
}

static void a_node_lives_while_it_is_looked_up_or_held(void **state)
{
	struct nodes *nodes = *state;
	struct node *node = enter(nodes, 7, 1, "a");
	uint64_t number = node->number;

	enter(nodes, 7, 1, "a");
	node_hold(nodes, node);
	node_forget(nodes, node, 1);
	assert_non_null(node_get(nodes, number));
	node_forget(nodes, node, 1);
	assert_non_null(node_get(nodes, number));
	node_release(nodes, node);
	assert_null(node_get(nodes, number));
}

static void the_root_is_never_forgotten(void **state)
{
	struct nodes *nodes = *state;
	struct node *root = node_get(nodes, NODE_ROOT);

	node_forget(nodes, root, 1000);
	assert_ptr_equal(node_get(nodes, NODE_ROOT), root);
	assert_int_equal(node_directory(nodes, 1), NODE_ROOT);
	assert_int_equal(node_directory(nodes, 2), 0);
}

static void a_rename_is_remembered(void **state)
{
	struct nodes *nodes = *state;
	struct node *node = enter(nodes, 7, 1, "a");
	struct node_key key = {.kind = NODE_PAGE, .object = 7, .clock = 1};
	char name[NAME_MAX_BYTES];
	uint64_t dir;
	size_t len;

	node_renamed(nodes, &key, 5, "other", 5);
	assert_true(node_name(nodes, node, &dir, name, &len));
	assert_int_equal(dir, 5);
	assert_int_equal(len, 5);
	assert_memory_equal(name, "other", 5);
}

struct names {
	unsigned count;
	unsigned char seen[5000];
};

static void see(void *arg, const char *name, size_t len)
{
	struct names *names = arg;
	char text[16] = "";

	memcpy(text, name, len);
	names->seen[atoi(text)]++;
	names->count++;
}

static void all_names_of_a_directory_are_found(void **state)
{
	struct nodes *nodes = *state;
	struct names *names = calloc(1, sizeof(*names));
	struct node_key other = {.kind = NODE_PAGE, .object = 1, .clock = 1};
	char name[16];

	for (unsigned i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "%u", i);
		enter(nodes, 100 + i, i, name);
	}
	node_enter(nodes, &other, 2, "1", 1);
	nodes_in_dir(nodes, 1, see, names);
	assert_int_equal(names->count, 5000);
	for (unsigned i = 0; i < 5000; i++)
		assert_int_equal(names->seen[i], 1);
	free(names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(one_version_is_one_node),
		TEST(a_number_is_never_used_again),
		TEST(a_node_lives_while_it_is_looked_up_or_held),
		TEST(the_root_is_never_forgotten),
		TEST(a_rename_is_remembered),
		TEST(all_names_of_a_directory_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
