/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/clock.h"

static uint64_t read_clock(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return clock_from_timespec(now);
}

uint64_t clock_monotonic_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_realtime_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

uint64_t clock_deadline_from_ns(uint64_t now_ns, uint64_t len_bytes)
{
	/* Seconds and rest apart: the product would overflow from 18 GB up. */
	uint64_t seconds = len_bytes / CLOCK_DEADLINE_BYTES_PER_SECOND;
	uint64_t rest = len_bytes % CLOCK_DEADLINE_BYTES_PER_SECOND;

	return now_ns + CLOCK_DEADLINE_BASE_NS + seconds * CLOCK_NS_PER_SECOND +
	       rest * CLOCK_NS_PER_SECOND / CLOCK_DEADLINE_BYTES_PER_SECOND;
}

uint64_t clock_deadline_ns(uint64_t len_bytes)
{
	return clock_deadline_from_ns(clock_monotonic_ns(), len_bytes);
}

uint64_t clock_from_timespec(struct timespec time)
{
	if (time.tv_sec < 0)
		return 0;
	return (uint64_t)time.tv_sec * CLOCK_NS_PER_SECOND +
	       (uint64_t)time.tv_nsec;
}

struct timespec clock_to_timespec(uint64_t time_ns)
{
	return (struct timespec){
		.tv_sec = (time_t)(time_ns / CLOCK_NS_PER_SECOND),
		.tv_nsec = (long)(time_ns % CLOCK_NS_PER_SECOND),
	};
}
