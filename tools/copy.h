/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_COPY_H
#define PAGEFS_TOOLS_COPY_H

#include <stdint.h>

/* Copies what is left of `from` to `to`: 0, or -errno and in *ret_writing
 * whether it was the writing that failed. Shows progress on stderr after a
 * second where that is a terminal. */
int copy_all(int from, int to, uint64_t *ret_bytes, int *ret_writing);

#endif
