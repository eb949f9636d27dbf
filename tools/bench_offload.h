/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_BENCH_OFFLOAD_H
#define PAGEFS_TOOLS_BENCH_OFFLOAD_H

/*
 * `pagefs bench offload`: multi-turn conversations whose pages do not fit in
 * memory. Each request of a client reads all its earlier pages back and then
 * writes those of 4,096 more tokens (64 pages, K and V apart: 128 keys). The
 * same requests run twice, with a memory tier that is too small and with one
 * that is not; the hit rates of both must be the same.
 */

/* Returns an exit code (tools/command.h). */
int bench_offload(int argc, char **argv);

#endif
