/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TESTS_TOOLS_CAPTURE_H
#define PAGEFS_TESTS_TOOLS_CAPTURE_H

/*
 * Runs the command line in this process, and keeps what it printed.
 */

#define CAPTURE_BYTES 65536

struct capture {
	int code;
	char out[CAPTURE_BYTES];
	char err[CAPTURE_BYTES];
};

/* `pagefs LINE`; words are parted by blanks. */
void capture_run(struct capture *capture, const char *line);

#endif
