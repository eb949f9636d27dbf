/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/fault.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/log.h"

struct point {
	char name[FAULT_NAME_MAX + 1];
	uint64_t nth;	 /* fails at this call; FAULT_EVERY: see period */
	uint64_t period; /* fails at each multiple of this */
	int error;	 /* positive errno */
	uint64_t calls;
	uint64_t hits;
};

/* Guards points, count and environment_read. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct point points[FAULT_POINTS_MAX];
static size_t count;
static bool environment_read;

/* Whether fault_point has to look closer. The lock orders the rest. */
static atomic_bool look = true;
static pthread_once_t environment_once = PTHREAD_ONCE_INIT;

/* Called with the lock held, after a change. */
static void update_look(void)
{
	atomic_store_explicit(&look, count > 0 || !environment_read,
			      memory_order_relaxed);
}

static struct point *find(const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(points[i].name, name) == 0)
			return &points[i];
	}
	return NULL;
}

static int arm(const char *name, uint64_t nth, uint64_t period, int error)
{
	struct point *point;
	int r = 0;

	if (error <= 0 || period == 0 || name[0] == '\0')
		return -EINVAL;
	if (strlen(name) > FAULT_NAME_MAX)
		return -ENAMETOOLONG;

	pthread_mutex_lock(&lock);
	point = find(name);
	if (!point && count < FAULT_POINTS_MAX)
		point = &points[count++];
	if (point) {
		*point = (struct point){
			.nth = nth, .period = period, .error = error};
		memcpy(point->name, name, strlen(name) + 1);
		update_look();
	} else {
		r = -ENOSPC;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static void read_environment(void)
{
	const char *list = getenv("PAGEFS_FAULTS");

	if (list && fault_load(list) < 0)
		log_error("PAGEFS_FAULTS=%s: cannot be read; it is a list of "
			  "name:nth:error, separated by commas",
			  list);
	pthread_mutex_lock(&lock);
	environment_read = true;
	update_look();
	pthread_mutex_unlock(&lock);
}

static int pass(const char *name)
{
	struct point *point;
	int r = 0;

	pthread_mutex_lock(&lock);
	point = find(name);
	if (point) {
		point->calls++;
		if (point->nth == FAULT_EVERY
			    ? point->calls % point->period == 0
			    : point->calls == point->nth) {
			point->hits++;
			r = -point->error;
		}
	}
	pthread_mutex_unlock(&lock);
	return r;
}

int fault_point(const char *name)
{
	if (!atomic_load_explicit(&look, memory_order_relaxed))
		return 0;
	pthread_once(&environment_once, read_environment);
	return pass(name);
}

int fault_arm(const char *name, uint64_t nth, int error)
{
	return arm(name, nth, 1, error);
}

int fault_arm_periodic(const char *name, uint64_t period, int error)
{
	return arm(name, FAULT_EVERY, period, error);
}

void fault_disarm(const char *name)
{
	struct point *point;

	pthread_mutex_lock(&lock);
	point = find(name);
	if (point)
		*point = points[--count];
	update_look();
	pthread_mutex_unlock(&lock);
}

void fault_disarm_all(void)
{
	pthread_mutex_lock(&lock);
	count = 0;
	update_look();
	pthread_mutex_unlock(&lock);
}

uint64_t fault_calls(const char *name)
{
	struct point *point;
	uint64_t calls;

	pthread_mutex_lock(&lock);
	point = find(name);
	calls = point ? point->calls : 0;
	pthread_mutex_unlock(&lock);
	return calls;
}

uint64_t fault_hits(const char *name)
{
	struct point *point;
	uint64_t hits;

	pthread_mutex_lock(&lock);
	point = find(name);
	hits = point ? point->hits : 0;
	pthread_mutex_unlock(&lock);
	return hits;
}

static bool parse_number(const char *text, uint64_t *ret)
{
	char *end;
	unsigned long long value;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno != 0 || *end != '\0')
		return false;
	*ret = value;
	return true;
}

/* The errno of that name or number, or -EINVAL. */
static int parse_error(const char *text)
{
	uint64_t number;

	if (parse_number(text, &number))
		return number > 0 && number < 4096 ? (int)number : -EINVAL;
	for (int i = 1; i < 134; i++) {
		const char *name = strerrorname_np(i);

		if (name && strcmp(name, text) == 0)
			return i;
	}
	return -EINVAL;
}

/* One "name:when:error"; cuts up `item`. */
static int load_item(char *item)
{
	char *name = strsep(&item, ":");
	char *when = strsep(&item, ":");
	int error = item ? parse_error(item) : EIO;
	uint64_t number;

	if (!when || error < 0)
		return -EINVAL;
	if (strcmp(when, "every") == 0)
		return fault_arm(name, FAULT_EVERY, error);
	if (strncmp(when, "every/", 6) == 0) {
		if (!parse_number(when + 6, &number))
			return -EINVAL;
		return fault_arm_periodic(name, number, error);
	}
	if (!parse_number(when, &number) || number == FAULT_EVERY)
		return -EINVAL;
	return fault_arm(name, number, error);
}

int fault_load(const char *list)
{
	char *copy = strdup(list), *rest = copy, *item;
	int r = 0;

	if (!copy)
		return -ENOMEM;
	while (r == 0 && (item = strsep(&rest, ",")) != NULL) {
		if (item[0] != '\0')
			r = load_item(item);
	}
	free(copy);
	return r;
}
