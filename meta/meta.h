/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_META_META_H
#define PAGEFS_META_META_H

/*
 * What this host knows about pages: names, places, what is still to be
 * written.  Two LMDB environments: one beside the arena in shared memory,
 * one beside the buckets.  Chunk rows live where their bytes live; everything
 * else lives in the disk environment where there is one, else in memory.
 *
 * meta/index.h: the environments, transactions and tables.
 * meta/entry.h: what a name leads to, and its encoding.
 * meta/fact.h:  what buckets' journals hold, so that the index can be built
 *               again from them.
 * meta/hlc.h:   versions.
 */

#include "meta/entry.h"
#include "meta/fact.h"
#include "meta/hlc.h"
#include "meta/index.h"

#endif
