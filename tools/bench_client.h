/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_BENCH_CLIENT_H
#define PAGEFS_TOOLS_BENCH_CLIENT_H

/*
 * One engine's hands: writes and reads pages by the calls that SGLang's
 * HiCache file backend makes, in its order, and knows every byte that must
 * come back. A client belongs to one thread.
 */

#include <stddef.h>
#include <stdint.h>

enum client_outcome {
	CLIENT_MISS = 1,  /* get: the page is not there */
	CLIENT_WRONG = 2, /* get: bytes that were never written, or too few */
};

struct client {
	char directory[4096]; /* below the mount */
	size_t page_bytes;
	uint64_t seed;
	uint8_t *buffer; /* page_bytes, 4 KiB-aligned */
};

/* 0 or -ENOMEM. */
int client_init(struct client *client, const char *directory, size_t page_bytes,
		uint64_t seed);
void client_release(struct client *client);

/* Writes the page: a temporary name, one write through a duplicate of the
 * descriptor, rename. 0 or -errno; *ret_ns is how long it took. */
int client_put(struct client *client, const char *name, uint64_t *ret_ns);
/* stat, then open, fstat, one read of the whole page, close; every byte is
 * compared. 0, CLIENT_MISS, CLIENT_WRONG or -errno (what an engine would die
 * of). *ret_ns leaves out the comparison. */
int client_get(struct client *client, const char *name, uint64_t *ret_ns);

#endif
