/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/stage.h"

#include <assert.h>
#include <string.h>

/* The first range that ends at `at` or behind it. */
static unsigned position(const struct stage_ranges *ranges, uint32_t at)
{
	unsigned i = 0;

	while (i < ranges->count && ranges->range[i].to < at)
		i++;
	return i;
}

void stage_ranges_add(struct stage_ranges *ranges, uint32_t from, uint32_t to)
{
	struct stage_range *range = ranges->range;
	unsigned first = position(ranges, from), last = first;

	if (from >= to)
		return;
	for (; last < ranges->count && range[last].from <= to; last++) {
		if (range[last].from < from)
			from = range[last].from;
		if (range[last].to > to)
			to = range[last].to;
	}
	assert(ranges->count - (last - first) < STAGE_RANGES_MAX);
	memmove(&range[first + 1], &range[last],
		(ranges->count - last) * sizeof(*range));
	range[first] = (struct stage_range){from, to};
	ranges->count = ranges->count - (last - first) + 1;
}

void stage_ranges_cut(struct stage_ranges *ranges, uint32_t len)
{
	while (ranges->count && ranges->range[ranges->count - 1].from >= len)
		ranges->count--;
	if (ranges->count && ranges->range[ranges->count - 1].to > len)
		ranges->range[ranges->count - 1].to = len;
}

bool stage_ranges_gap(const struct stage_ranges *ranges, uint32_t from,
		      uint32_t to, struct stage_range *ret)
{
	for (unsigned i = 0; i < ranges->count && from < to; i++) {
		const struct stage_range *range = &ranges->range[i];

		if (range->to <= from)
			continue;
		if (range->from > from) {
			if (range->from < to)
				to = range->from;
			break;
		}
		from = range->to;
	}
	if (from >= to)
		return false;
	*ret = (struct stage_range){from, to};
	return true;
}

bool stage_ranges_cover(const struct stage_ranges *ranges, uint32_t from,
			uint32_t to)
{
	struct stage_range gap;

	return !stage_ranges_gap(ranges, from, to, &gap);
}

uint32_t stage_ranges_end(const struct stage_ranges *ranges)
{
	return ranges->count ? ranges->range[ranges->count - 1].to : 0;
}
