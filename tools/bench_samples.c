/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_samples.h"

#include <errno.h>
#include <stdlib.h>

static int samples_reserve(struct samples *samples, size_t count)
{
	size_t room = samples->room ? samples->room : 1024;
	uint64_t *values;

	while (room < count)
		room *= 2;
	if (room == samples->room)
		return 0;
	values = realloc(samples->values_ns, room * sizeof(*values));
	if (!values)
		return -ENOMEM;
	samples->values_ns = values;
	samples->room = room;
	return 0;
}

int samples_add(struct samples *samples, uint64_t value_ns)
{
	int error = samples_reserve(samples, samples->count + 1);

	if (!error)
		samples->values_ns[samples->count++] = value_ns;
	return error;
}

int samples_merge(struct samples *into, const struct samples *from)
{
	int error = samples_reserve(into, into->count + from->count);

	for (size_t i = 0; !error && i < from->count; i++)
		into->values_ns[into->count++] = from->values_ns[i];
	return error;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

uint64_t samples_percentile(struct samples *samples, double ratio)
{
	size_t rank;

	if (!samples->count)
		return 0;
	qsort(samples->values_ns, samples->count, sizeof(uint64_t), by_value);
	rank = (size_t)(ratio * (double)(samples->count - 1) + 0.5);
	return samples->values_ns[rank];
}

uint64_t samples_mean(const struct samples *samples)
{
	double sum = 0;

	for (size_t i = 0; i < samples->count; i++)
		sum += (double)samples->values_ns[i];
	return samples->count ? (uint64_t)(sum / (double)samples->count) : 0;
}

void samples_release(struct samples *samples)
{
	free(samples->values_ns);
	*samples = (struct samples){0};
}
