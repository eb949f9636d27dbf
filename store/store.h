/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_STORE_STORE_H
#define PAGEFS_STORE_STORE_H

/*
 * Pages on this host: the memory arena, the disk ring and the offload
 * buckets.  The store knows chunks and places; names, and what a place is
 * for, are the index's matter (meta/), and cache/ puts the two together.
 */

#include "store/arena.h"
#include "store/bucket.h"
#include "store/io.h"

#endif
