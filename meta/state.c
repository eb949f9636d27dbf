/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/lib/fault.h"

#define STATE_VERSION 1u
#define STATE_MAX_BYTES 512
#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

/* Up to size - 1 bytes of the file, terminated: how many, or -errno. */
static ssize_t read_text(int dir_fd, const char *name, char *ret, size_t size)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return -errno;
	got = read(fd, ret, size - 1);
	if (got < 0)
		got = -errno;
	else
		ret[got] = '\0';
	close(fd);
	return got;
}

/* Without /proc the answer is "", which is never the same boot. */
void state_boot_id(char ret[40])
{
	ssize_t got = read_text(AT_FDCWD, BOOT_ID_PATH, ret, 40);

	if (got < 0)
		got = 0;
	ret[got] = '\0';
	ret[strcspn(ret, "\n ")] = '\0';
}

static int state_parse(const char *text, struct env_state *ret)
{
	struct env_state state = {0};
	unsigned version, clean, damaged, rebuilding;
	int end = 0;

	if (sscanf(text, "pagefs-index %u\n", &version) != 1)
		return -EBADMSG;
	if (version > STATE_VERSION)
		return -EPROTO;
	if (sscanf(text,
		   "pagefs-index %u\nboot %39s\nclean %u\ndamaged %u\n"
		   "rebuilding %u\nbytes %" SCNu64 "\nmtime_ns %" SCNu64 "\n%n",
		   &version, state.boot, &clean, &damaged, &rebuilding,
		   &state.bytes, &state.mtime_ns, &end) != 7 ||
	    end == 0 || clean > 1 || damaged > 1 || rebuilding > 1)
		return -EBADMSG;
	state.clean = clean;
	state.damaged = damaged;
	state.rebuilding = rebuilding;
	*ret = state;
	return 0;
}

int state_read(const char *dir, struct env_state *ret)
{
	char text[STATE_MAX_BYTES];
	ssize_t got;
	int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir_fd < 0)
		return errno == ENOENT ? META_ABSENT : -errno;
	got = read_text(dir_fd, "state", text, sizeof(text));
	close(dir_fd);
	if (got == -ENOENT)
		return META_ABSENT;
	return got < 0 ? (int)got : state_parse(text, ret);
}

static int write_file(int dir_fd, const char *name, int flags, const char *text)
{
	size_t len = strlen(text);
	int rc = 0;
	ssize_t put;
	int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC | flags, 0600);

	if (fd < 0)
		return -errno;
	put = write(fd, text, len);
	if (put < 0)
		rc = -errno;
	else if ((size_t)put < len)
		rc = -ENOSPC;
	else if (ftruncate(fd, (off_t)len) < 0)
		rc = -errno;
	else if (fsync(fd) < 0)
		rc = -errno;
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	return rc;
}

int state_write(const char *dir, const struct env_state *state)
{
	char text[STATE_MAX_BYTES];
	int rc = fault_point("meta.state");
	int dir_fd;

	if (rc < 0)
		return rc;
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	snprintf(text, sizeof(text),
		 "pagefs-index %u\nboot %s\nclean %d\ndamaged %d\n"
		 "rebuilding %d\nbytes %" PRIu64 "\nmtime_ns %" PRIu64 "\n",
		 STATE_VERSION, state->boot[0] != '\0' ? state->boot : "-",
		 state->clean, state->damaged, state->rebuilding, state->bytes,
		 state->mtime_ns);
	rc = write_file(dir_fd, "state.new", O_CREAT | O_TRUNC, text);
	if (rc == 0 && renameat(dir_fd, "state.new", dir_fd, "state") < 0)
		rc = -errno;
	if (rc == -ENOSPC) {
		/* On a full disk the old one's block is all there is. What a
		 * crash leaves of it does not parse: a rebuild. */
		unlinkat(dir_fd, "state.new", 0);
		rc = write_file(dir_fd, "state", 0, text);
		if (rc == -ENOENT)
			rc = -ENOSPC;
	}
	if (rc == 0 && fsync(dir_fd) < 0)
		rc = -errno;
	close(dir_fd);
	return rc;
}
