/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_BENCH_CPU_H
#define PAGEFS_TOOLS_BENCH_CPU_H

/* What a daemon costs, as /proc says. */

struct bench_daemon;

/* CPU seconds that this process and the daemon have used so far. */
double bench_cpu_seconds(const struct bench_daemon *daemon);
/* Resident memory that is the daemon's own: anonymous and file pages, without
 * the shared memory that the arena consists of. Bytes. */
double bench_private_bytes(const struct bench_daemon *daemon);
/* The anonymous part of it: heap and stacks. */
double bench_anonymous_bytes(const struct bench_daemon *daemon);

#endif
