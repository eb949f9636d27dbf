/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct item {
	int value;
	struct list node;
};

/* The values in order, as digits of a number. */
static int digits(struct list *head)
{
	int number = 0;

	list_for_each (node, head)
		number = number * 10 +
			 list_entry(node, struct item, node)->value;
	return number;
}

static void nodes_keep_the_order_in_which_they_came(void **state)
{
	struct item a = {.value = 1}, b = {.value = 2}, c = {.value = 3};
	struct list head = LIST_INIT(head);

	(void)state;
	assert_true(list_empty(&head));
	list_push_back(&head, &b.node);
	list_push_back(&head, &c.node);
	list_push_front(&head, &a.node);
	assert_int_equal(digits(&head), 123);
	assert_ptr_equal(list_first(&head, struct item, node), &a);
	assert_ptr_equal(list_last(&head, struct item, node), &c);
	list_remove(&b.node);
	assert_int_equal(digits(&head), 13);
	list_insert_after(&c.node, &b.node);
	assert_int_equal(digits(&head), 132);
}

static void a_node_may_be_removed_twice(void **state)
{
	struct item a = {.value = 1};
	struct list head = LIST_INIT(head);

	(void)state;
	list_push_back(&head, &a.node);
	list_remove(&a.node);
	list_remove(&a.node);
	assert_true(list_empty(&head));
	assert_true(list_empty(&a.node));
}

static void pop_takes_the_first_and_ends_with_null(void **state)
{
	struct item a = {.value = 1}, b = {.value = 2};
	struct list head = LIST_INIT(head);

	(void)state;
	list_push_back(&head, &a.node);
	list_push_back(&head, &b.node);
	assert_ptr_equal(list_pop_front(&head), &a.node);
	assert_ptr_equal(list_pop_front(&head), &b.node);
	assert_null(list_pop_front(&head));
}

static void splice_moves_all_and_leaves_an_empty_list(void **state)
{
	struct item items[4] = {
		{.value = 1}, {.value = 2}, {.value = 3}, {.value = 4}};
	struct list to = LIST_INIT(to), from = LIST_INIT(from);

	(void)state;
	list_push_back(&to, &items[0].node);
	list_splice_back(&to, &from);
	assert_int_equal(digits(&to), 1);
	for (int i = 1; i < 4; i++)
		list_push_back(&from, &items[i].node);
	list_splice_back(&to, &from);
	assert_int_equal(digits(&to), 1234);
	assert_true(list_empty(&from));
}

static void the_safe_walk_may_remove_its_node(void **state)
{
	struct item items[5];
	struct list head = LIST_INIT(head);

	(void)state;
	for (int i = 0; i < 5; i++) {
		items[i].value = i + 1;
		list_push_back(&head, &items[i].node);
	}
	list_for_each_safe (node, &head) {
		if (list_entry(node, struct item, node)->value % 2 == 1)
			list_remove(node);
	}
	assert_int_equal(digits(&head), 24);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_keep_the_order_in_which_they_came),
		cmocka_unit_test(a_node_may_be_removed_twice),
		cmocka_unit_test(pop_takes_the_first_and_ends_with_null),
		cmocka_unit_test(splice_moves_all_and_leaves_an_empty_list),
		cmocka_unit_test(the_safe_walk_may_remove_its_node),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
