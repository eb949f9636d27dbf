/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_BENCH_FIO_H
#define PAGEFS_TOOLS_BENCH_FIO_H

#include <stddef.h>

/* Seconds that fio takes to read `len_bytes` from the buckets of a disk
 * directory, at queue depth 32 with O_DIRECT through io_uring: what the device
 * gives for the same files. -ENOENT: fio isn't there; or another -errno. */
double bench_fio_read(const char *disk, size_t len_bytes);

#endif
