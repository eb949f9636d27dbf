/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXITING 0x4ul /* PF_EXITING, include/linux/sched.h */
#define FIELD_FLAGS 9
#define FIELD_EXIT_CODE 52

static ssize_t read_proc(pid_t thread, const char *file, char *text,
			 size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)thread, file);

	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;

	ssize_t len = read(fd, text, size - 1);

	close(fd);
	if (len <= 0)
		return -ESRCH;
	text[len] = '\0';
	return len;
}

pid_t process_of_thread(pid_t thread)
{
	char text[2048];

	if (thread <= 0)
		return 0;

	/* Only a process's first thread can be opened like this. */
	int fd = (int)syscall(SYS_pidfd_open, thread, 0);

	if (fd >= 0) {
		close(fd);
		return thread;
	}
	if (read_proc(thread, "status", text, sizeof(text)) < 0)
		return 0;

	const char *line = strstr(text, "\nTgid:");

	return line ? (pid_t)strtol(line + 6, NULL, 10) : 0;
}

/* The n-th field of a stat line, counted from 1; the second one (the command)
 * may hold blanks and parentheses. */
static const char *field(const char *text, int n)
{
	const char *at = strrchr(text, ')');

	for (int i = 2; at && i < n; i++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return at;
}

/* A thread that exits has given its memory back before it closes its files. */
static bool without_memory(pid_t thread)
{
	char text[128];

	return read_proc(thread, "statm", text, sizeof(text)) > 0 &&
	       strtoul(text, NULL, 10) == 0;
}

/*
 * Reading a process's stat waits for its exec(2) to end, and exec closes files
 * (O_CLOEXEC), which waits for us: so it is read only of those that exit.
 * statm waits for nothing.
 */
bool process_killed(pid_t thread)
{
	char text[1024];

	if (thread <= 0 || !without_memory(thread) ||
	    read_proc(thread, "stat", text, sizeof(text)) < 0)
		return false;

	const char *flags = field(text, FIELD_FLAGS);
	const char *code = field(text, FIELD_EXIT_CODE);

	return flags && code && (strtoul(flags, NULL, 10) & EXITING) &&
	       (strtol(code, NULL, 10) & 0x7f);
}

/* Descriptors of a process that are looked at, at most. */
#define DESCRIPTORS_MAX 1024

enum sight {
	HAS,
	HAS_NOT,
	UNSEEN
};

/* Does the path that the descriptor was opened by end in this name, as it is
 * now?  A fifth of the cost of asking for the inode number. */
static bool is_called(int dir_fd, const char *number, const char *name,
		      size_t len)
{
	char path[PATH_MAX];
	ssize_t n = readlinkat(dir_fd, number, path, sizeof(path));

	return n > (ssize_t)len && path[n - (ssize_t)len - 1] == '/' &&
	       memcmp(path + n - len, name, len) == 0;
}

static enum sight descriptor_is(pid_t thread, const char *number,
				uint64_t inode)
{
	char file[64], text[512];
	const char *line;

	snprintf(file, sizeof(file), "fdinfo/%.20s", number);
	if (read_proc(thread, file, text, sizeof(text)) < 0)
		return HAS_NOT; /* closed meanwhile */
	line = strstr(text, "\nino:");
	if (!line)
		return UNSEEN;
	return strtoull(line + 5, NULL, 10) == inode ? HAS : HAS_NOT;
}

/* name NULL: whatever it is called. */
static enum sight look_for_file(pid_t thread, uint64_t inode, const char *name,
				size_t len)
{
	char path[64];
	struct dirent *entry;
	enum sight sight = HAS_NOT;
	int left = DESCRIPTORS_MAX;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)thread);
	dir = thread > 0 ? opendir(path) : NULL;
	if (!dir)
		return UNSEEN;
	while (sight == HAS_NOT && (entry = readdir(dir))) {
		if (left-- == 0)
			sight = UNSEEN;
		else if (entry->d_name[0] != '.' &&
			 (!name ||
			  is_called(dirfd(dir), entry->d_name, name, len)))
			sight = descriptor_is(thread, entry->d_name, inode);
	}
	closedir(dir);
	return sight;
}

bool process_has_file(pid_t thread, uint64_t inode, const char *name,
		      size_t len)
{
	return look_for_file(thread, inode, name, len) == HAS;
}

bool process_may_have_file(pid_t thread, uint64_t inode)
{
	return look_for_file(thread, inode, NULL, 0) != HAS_NOT ||
	       without_memory(thread);
}

bool process_visible(void)
{
	char text[1024];

	return read_proc(getpid(), "stat", text, sizeof(text)) > 0 &&
	       field(text, FIELD_EXIT_CODE);
}
