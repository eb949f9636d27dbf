/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/copy.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/lib/clock.h"
#include "tools/lib/size.h"

#define PIECE_BYTES ((size_t)1 << 20)

static int write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static void show_progress(uint64_t bytes, uint64_t *next_ns, bool *shown)
{
	uint64_t now = clock_monotonic_ns();
	char text[SIZE_TEXT_MAX];

	if (now < *next_ns)
		return;
	*next_ns = now + CLOCK_NS_PER_SECOND / 4;
	*shown = true;
	fprintf(stderr, "\r%s ",
		size_format_rounded(bytes, text, sizeof(text)));
}

int copy_all(int from, int to, uint64_t *ret_bytes, int *ret_writing)
{
	uint64_t next_ns = clock_monotonic_ns() + CLOCK_NS_PER_SECOND;
	bool terminal = isatty(STDERR_FILENO), shown = false;
	char *piece = malloc(PIECE_BYTES);
	ssize_t n = 1;
	int error = piece ? 0 : -ENOMEM;

	*ret_bytes = 0;
	*ret_writing = 0;
	while (!error && n) {
		n = read(from, piece, PIECE_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			error = -errno;
			break;
		}
		error = write_all(to, piece, (size_t)n);
		*ret_writing = error != 0;
		*ret_bytes += (uint64_t)n;
		if (terminal)
			show_progress(*ret_bytes, &next_ns, &shown);
	}
	if (shown)
		fputs("\r\033[K", stderr);
	free(piece);
	return error;
}
