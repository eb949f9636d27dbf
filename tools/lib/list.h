/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_LIB_LIST_H
#define PAGEFS_TOOLS_LIB_LIST_H

/*
 * An intrusive, circular, doubly linked list: the head is a node that belongs
 * to no object. Nothing is allocated; whoever owns the objects guards the list.
 * A node that is in no list is empty (points to itself), so list_remove may be
 * called twice.
 */

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *prev;
	struct list *next;
};

#define LIST_INIT(name)                                                        \
	{                                                                      \
		&(name), &(name)                                               \
	}

/* The object whose `member` is at `node`. */
#define list_entry(node, type, member)                                         \
	((type *)(void *)((char *)(node)-offsetof(type, member)))

#define list_first(head, type, member) list_entry((head)->next, type, member)
#define list_last(head, type, member) list_entry((head)->prev, type, member)

#define list_for_each(node, head)                                              \
	for (struct list *node = (head)->next; node != (head);                 \
	     node = node->next)

/* The body may remove `node`, and nothing else. */
#define list_for_each_safe(node, head)                                         \
	for (struct list *node = (head)->next, *node##_next = node->next;      \
	     node != (head); node = node##_next, node##_next = node->next)

static inline void list_init(struct list *list)
{
	list->prev = list;
	list->next = list;
}

static inline bool list_empty(const struct list *list)
{
	return list->next == list;
}

static inline void list_insert_after(struct list *place, struct list *node)
{
	node->prev = place;
	node->next = place->next;
	place->next->prev = node;
	place->next = node;
}

static inline void list_push_front(struct list *head, struct list *node)
{
	list_insert_after(head, node);
}

static inline void list_push_back(struct list *head, struct list *node)
{
	list_insert_after(head->prev, node);
}

static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* Takes the first node off, or returns NULL. */
static inline struct list *list_pop_front(struct list *head)
{
	struct list *node = head->next;

	if (node == head)
		return NULL;
	list_remove(node);
	return node;
}

/* Moves all nodes of `from` to the end of `head`; `from` is empty then. */
static inline void list_splice_back(struct list *head, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = head->prev;
	head->prev->next = from->next;
	from->prev->next = head;
	head->prev = from->prev;
	list_init(from);
}

#endif
