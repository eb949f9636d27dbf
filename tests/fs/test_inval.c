/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/inval.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "fs/node.h"
#include "tools/lib/clock.h"

/* A kernel whose directories can be kept busy. */
struct kernel {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t busy; /* this node's directory is locked by somebody */
	unsigned entries, directories, waiting, done;
	char last[16];
};

struct fixture {
	struct kernel kernel;
	struct nodes *nodes;
	struct inval *inval;
};

static void on_entry(void *arg, uint64_t parent, const char *name, size_t len)
{
	struct kernel *kernel = arg;

	pthread_mutex_lock(&kernel->lock);
	kernel->waiting++;
	pthread_cond_broadcast(&kernel->changed);
	while (kernel->busy == parent)
		pthread_cond_wait(&kernel->changed, &kernel->lock);
	kernel->waiting--;
	kernel->entries++;
	memset(kernel->last, 0, sizeof(kernel->last));
	memcpy(kernel->last, name, len < 15 ? len : 15);
	pthread_cond_broadcast(&kernel->changed);
	pthread_mutex_unlock(&kernel->lock);
}

static void on_directory(void *arg, uint64_t node)
{
	struct kernel *kernel = arg;

	(void)node;
	pthread_mutex_lock(&kernel->lock);
	kernel->directories++;
	pthread_cond_broadcast(&kernel->changed);
	pthread_mutex_unlock(&kernel->lock);
}

static void on_done(void *arg)
{
	struct kernel *kernel = arg;

	pthread_mutex_lock(&kernel->lock);
	kernel->done++;
	pthread_cond_broadcast(&kernel->changed);
	pthread_mutex_unlock(&kernel->lock);
}

/* Waits until the field is at least that; the runner's time limit ends a wait
 * for what does not come. */
static void await(struct kernel *kernel, const unsigned *field, unsigned value)
{
	pthread_mutex_lock(&kernel->lock);
	while (*field < value)
		pthread_cond_wait(&kernel->changed, &kernel->lock);
	pthread_mutex_unlock(&kernel->lock);
}

static void set_busy(struct kernel *kernel, uint64_t node)
{
	pthread_mutex_lock(&kernel->lock);
	kernel->busy = node;
	pthread_cond_broadcast(&kernel->changed);
	pthread_mutex_unlock(&kernel->lock);
}

static uint64_t add_dir(struct nodes *nodes, uint64_t object)
{
	struct node_key key = {.kind = NODE_DIR, .object = object};

	return node_enter(nodes, &key, 1, "dir", 3)->number;
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const struct inval_ops ops = {on_entry, on_directory, &f->kernel};

	pthread_mutex_init(&f->kernel.lock, NULL);
	pthread_cond_init(&f->kernel.changed, NULL);
	*state = f;
	return nodes_new(&f->nodes) || inval_new(f->nodes, &ops, &f->inval);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	set_busy(&f->kernel, 0);
	inval_free(f->inval);
	nodes_free(f->nodes);
	free(f);
	return 0;
}

static void whoever_waits_is_told_after_the_kernel(void **state)
{
	struct fixture *f = *state;

	inval_name(f->inval, 1, "a", 1, on_done, &f->kernel);
	await(&f->kernel, &f->kernel.done, 1);
	assert_int_equal(f->kernel.entries, 1);
	assert_string_equal(f->kernel.last, "a");
}

static void a_slow_directory_holds_up_only_itself(void **state)
{
	struct fixture *f = *state;
	uint64_t slow = add_dir(f->nodes, 50);

	add_dir(f->nodes, 60);
	set_busy(&f->kernel, slow);
	inval_name(f->inval, 50, "a", 1, NULL, NULL);
	await(&f->kernel, &f->kernel.waiting, 1);
	for (int i = 0; i < 100; i++)
		inval_name(f->inval, 50, "b", 1, NULL, NULL);
	inval_name(f->inval, 60, "c", 1, on_done, &f->kernel);
	await(&f->kernel, &f->kernel.done, 1);
	assert_int_equal(f->kernel.entries, 1);
	set_busy(&f->kernel, 0);
	/* The hundred were one. */
	inval_name(f->inval, 50, "d", 1, on_done, &f->kernel);
	await(&f->kernel, &f->kernel.done, 2);
	assert_int_equal(f->kernel.entries, 4);
}

static void a_directory_the_kernel_does_not_know_is_done_at_once(void **state)
{
	struct fixture *f = *state;

	inval_name(f->inval, 70, "a", 1, on_done, &f->kernel);
	await(&f->kernel, &f->kernel.done, 1);
	assert_int_equal(f->kernel.entries, 0);
}

static void past_the_bound_all_known_names_are_invalidated(void **state)
{
	struct fixture *f = *state;
	uint64_t slow = add_dir(f->nodes, 50);
	struct node_key key = {.kind = NODE_PAGE, .object = 5, .clock = 5};
	struct inval_stats stats;
	char name[16];

	node_enter(f->nodes, &key, 50, "known", 5);
	set_busy(&f->kernel, slow);
	for (unsigned i = 0; i < INVAL_NAMES_MAX + 10; i++) {
		int len = snprintf(name, sizeof(name), "%u", i);

		inval_name(f->inval, 50, name, (size_t)len, NULL, NULL);
	}
	inval_name(f->inval, 50, "last", 4, on_done, &f->kernel);
	inval_get_stats(f->inval, &stats);
	assert_true(stats.overflows >= 1);
	set_busy(&f->kernel, 0);
	await(&f->kernel, &f->kernel.done, 1);
	assert_true(f->kernel.entries > INVAL_NAMES_MAX);
}

static void a_directory_alone_can_be_told(void **state)
{
	struct fixture *f = *state;

	inval_directory(f->inval, 1);
	await(&f->kernel, &f->kernel.directories, 1);
	assert_int_equal(f->kernel.entries, 0);
}

static void a_flush_returns_when_the_kernel_knows(void **state)
{
	struct fixture *f = *state;
	uint64_t hour_ns = 3600 * CLOCK_NS_PER_SECOND;

	for (uint64_t dir = 50; dir < 60; dir++) {
		add_dir(f->nodes, dir);
		inval_name(f->inval, dir, "a", 1, NULL, NULL);
		inval_name(f->inval, dir, "b", 1, NULL, NULL);
	}
	inval_flush(f->inval, clock_monotonic_ns() + hour_ns);
	assert_int_equal(f->kernel.entries, 20);
	/* Nothing is left to wait for. */
	inval_flush(f->inval, clock_monotonic_ns() + hour_ns);
}

static void a_flush_of_a_busy_directory_ends_at_its_deadline(void **state)
{
	struct fixture *f = *state;
	uint64_t start_ns = clock_monotonic_ns();
	uint64_t wait_ns = 20 * CLOCK_NS_PER_MS;

	set_busy(&f->kernel, add_dir(f->nodes, 50));
	inval_name(f->inval, 50, "a", 1, NULL, NULL);
	inval_flush(f->inval, start_ns + wait_ns);
	assert_true(clock_monotonic_ns() >= start_ns + wait_ns);
	assert_int_equal(f->kernel.entries, 0);
	set_busy(&f->kernel, 0);
	inval_flush(f->inval, start_ns + 3600 * CLOCK_NS_PER_SECOND);
	assert_int_equal(f->kernel.entries, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(whoever_waits_is_told_after_the_kernel),
		TEST(a_slow_directory_holds_up_only_itself),
		TEST(a_directory_the_kernel_does_not_know_is_done_at_once),
		TEST(past_the_bound_all_known_names_are_invalidated),
		TEST(a_directory_alone_can_be_told),
		TEST(a_flush_returns_when_the_kernel_knows),
		TEST(a_flush_of_a_busy_directory_ends_at_its_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
