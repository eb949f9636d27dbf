/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_LIB_CLOCK_H
#define PAGEFS_TOOLS_LIB_CLOCK_H

/*
 * Times as nanoseconds in 64 bits. Deadlines and ages are monotonic; what a
 * user sees (mtime) and what hosts compare (versions) is real time. Code under
 * test takes `now` as an argument and leaves these calls to its caller. Any
 * thread; a call costs about 20 ns.
 */

#include <stdint.h>
#include <time.h>

#define CLOCK_NS_PER_SECOND UINT64_C(1000000000)
#define CLOCK_NS_PER_MS UINT64_C(1000000)

/* Each operation may take this long, and its bytes at this rate besides. */
#define CLOCK_DEADLINE_BASE_NS (2 * CLOCK_NS_PER_SECOND)
#define CLOCK_DEADLINE_BYTES_PER_SECOND UINT64_C(100000000)

uint64_t clock_monotonic_ns(void);
uint64_t clock_realtime_ns(void);

/* The monotonic time at which an operation on so many bytes that starts at
 * `now_ns` has failed. */
uint64_t clock_deadline_from_ns(uint64_t now_ns, uint64_t len_bytes);

/* The same, for one that starts now. */
uint64_t clock_deadline_ns(uint64_t len_bytes);

/* Times before 1970 become 0. */
uint64_t clock_from_timespec(struct timespec time);
struct timespec clock_to_timespec(uint64_t time_ns);

#endif
