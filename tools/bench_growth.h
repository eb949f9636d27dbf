/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_BENCH_GROWTH_H
#define PAGEFS_TOOLS_BENCH_GROWTH_H

/*
 * `pagefs bench growth`: many small pages; memory a page beside the arena in
 * one tier and in both, and how long a start takes with them on disk. Returns
 * an exit code (tools/command.h).
 */

int bench_growth(int argc, char **argv);

#endif
