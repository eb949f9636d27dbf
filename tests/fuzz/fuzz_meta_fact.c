/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "meta/meta.h"

/* A journal of facts, as a bucket holds it: what is taken must encode to the
 * same bytes again. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encodes_again(const struct meta_fact *fact, const uint8_t *data,
			  size_t used)
{
	uint8_t *bytes = malloc(used);

	assert(bytes != NULL);
	assert(meta_fact_bytes(fact) == used);
	assert(meta_fact_encode(fact, bytes) == used);
	assert(memcmp(bytes, data, used) == 0);
	free(bytes);
}

static void walk_xattrs(const void *xattrs, size_t len)
{
	struct meta_xattr xattr;
	size_t offset = 0;
	volatile uint8_t sum = 0;

	while (meta_xattr_next(xattrs, len, &offset, &xattr) > 0) {
		sum = (uint8_t)(sum + (uint8_t)xattr.name[0]);
		if (xattr.value_bytes > 0)
			sum = (uint8_t)(sum + ((const uint8_t *)xattr.value)
						      [xattr.value_bytes - 1]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct meta_fact fact;
	size_t used;

	walk_xattrs(data, size);
	while (meta_fact_decode(data, size, &fact, &used) == 0) {
		assert(used > 0 && used <= size);
		encodes_again(&fact, data, used);
		data += used;
		size -= used;
	}
	return 0;
}
