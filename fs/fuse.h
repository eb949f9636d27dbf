/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_FUSE_H
#define PAGEFS_FS_FUSE_H

/* libfuse's low-level interface, in the version of Debian 12: whoever needs it
 * includes it through here, so that all agree on the version. */

#define FUSE_USE_VERSION 314

#include <fuse_lowlevel.h>

#endif
