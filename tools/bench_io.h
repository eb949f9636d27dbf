/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_BENCH_IO_H
#define PAGEFS_TOOLS_BENCH_IO_H

/*
 * `pagefs bench io`: whole pages read and written through a mount, look-ups
 * and listings, each beside tmpfs, ext4 or fio in the same run. Returns an
 * exit code (tools/command.h).
 */

int bench_io(int argc, char **argv);

#endif
