/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tools/capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tools.h"

static const struct tool none[] = {{NULL, NULL, NULL}};

/* Sends a descriptor to a nameless file; returns a copy of what it was. */
static int divert(int fd, FILE *file)
{
	int old = dup(fd);

	if (old < 0 || dup2(fileno(file), fd) < 0)
		abort();
	return old;
}

static void restore(int fd, int old, FILE *file, char *ret)
{
	size_t n;

	dup2(old, fd);
	close(old);
	rewind(file);
	n = fread(ret, 1, CAPTURE_BYTES - 1, file);
	ret[n] = '\0';
	fclose(file);
}

void capture_run(struct capture *capture, const char *line)
{
	char words[4096], program[] = "pagefs", *argv[64] = {program}, *rest;
	FILE *out = tmpfile(), *err = tmpfile();
	int argc = 1, old_out, old_err;

	if (!out || !err)
		abort();
	snprintf(words, sizeof(words), "%s", line);
	for (char *word = strtok_r(words, " ", &rest); word && argc < 63;
	     word = strtok_r(NULL, " ", &rest))
		argv[argc++] = word;
	fflush(stdout);
	old_out = divert(STDOUT_FILENO, out);
	old_err = divert(STDERR_FILENO, err);
	capture->code = tools_main(none, argc, argv);
	fflush(stdout);
	restore(STDOUT_FILENO, old_out, out, capture->out);
	restore(STDERR_FILENO, old_err, err, capture->err);
}
