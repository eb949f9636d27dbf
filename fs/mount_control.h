/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_MOUNT_CONTROL_H
#define PAGEFS_FS_MOUNT_CONTROL_H

/*
 * What the control files need of the wiring: the tiers' numbers, the options
 * in force, and the few of them that may change while mounted.  Any thread.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "fs/control.h"

struct cache_config;
struct fs;
struct mount_plan;

struct mount_control {
	const struct mount_plan *plan;
	struct fs *fs;
	pthread_mutex_t lock;	  /* guards the plan's values once mounted */
	_Atomic bool keep_memory; /* at the end; true unless `stop` says so */
	uint64_t started_ns;	  /* monotonic */
};

void mount_control_init(struct mount_control *control,
			const struct mount_plan *plan, struct fs *fs);
struct control_wiring mount_control_wiring(struct mount_control *control);
/* The plan, as the cache takes it; all but the memory tier's directory. */
void mount_control_config(const struct mount_plan *plan,
			  struct cache_config *ret);

#endif
