/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/holders.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Room for a path of the longest kind and what the kernel adds to it. */
#define LINE_BYTES (PATH_MAX + 256)

struct search {
	const char *mount;
	size_t mount_len;
	struct holder found;
	char path[LINE_BYTES];
	char program[64];
};

static bool lies_in(const struct search *search, const char *path)
{
	size_t len = search->mount_len;

	/* A deleted file shows as "PATH (deleted)". */
	return !strncmp(path, search->mount, len) &&
	       (path[len] == '/' || path[len] == '\0' || path[len] == ' ');
}

/* Does this link below /proc/PID lead into the mount? */
static bool check_link(struct search *search, const char *link, const char *how)
{
	ssize_t n = readlink(link, search->path, sizeof(search->path) - 1);

	if (n < 0)
		return false;
	search->path[n] = '\0';
	if (!lies_in(search, search->path))
		return false;
	search->found.how = how;
	return true;
}

static bool check_files(struct search *search, pid_t pid)
{
	char path[64 + NAME_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *files;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	files = opendir(path);
	if (!files)
		return false;
	while (!found && (entry = readdir(files))) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)pid,
			 entry->d_name);
		found = check_link(search, path, "open file");
	}
	closedir(files);
	return found;
}

static bool check_mappings(struct search *search, pid_t pid)
{
	char path[64], line[LINE_BYTES];
	bool found = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		return false;
	while (!found && fgets(line, sizeof(line), maps)) {
		/* The path is all that has a slash in it. */
		const char *slash = strchr(line, '/');

		line[strcspn(line, "\n")] = '\0';
		if (!slash || !lies_in(search, slash))
			continue;
		snprintf(search->path, sizeof(search->path), "%s", slash);
		search->found.how = "mapped file";
		found = true;
	}
	fclose(maps);
	return found;
}

static bool check_descriptors(struct search *search, pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/cwd", (int)pid);
	if (check_link(search, path, "current directory"))
		return true;
	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	if (check_link(search, path, "root directory"))
		return true;
	return check_files(search, pid);
}

static void read_program(pid_t pid, char *ret, int room)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	file = fopen(path, "re");
	if (!file || !fgets(ret, room, file))
		snprintf(ret, (size_t)room, "?");
	if (file)
		fclose(file);
	ret[strcspn(ret, "\n")] = '\0';
}

static unsigned
each_process(struct search *search,
	     bool (*check)(struct search *search, pid_t pid),
	     void (*each)(void *arg, const struct holder *holder), void *arg)
{
	DIR *processes = opendir("/proc");
	struct dirent *entry;
	unsigned count = 0;

	while (processes && (entry = readdir(processes))) {
		pid_t pid = (pid_t)atoi(entry->d_name);

		if (pid <= 0 || pid == getpid() || !check(search, pid))
			continue;
		read_program(pid, search->program, sizeof(search->program));
		search->found.pid = pid;
		search->found.program = search->program;
		search->found.path = search->path;
		each(arg, &search->found);
		count++;
	}
	if (processes)
		closedir(processes);
	return count;
}

unsigned holders_each(const char *mount,
		      void (*each)(void *arg, const struct holder *holder),
		      void *arg)
{
	struct search search = {.mount = mount, .mount_len = strlen(mount)};
	unsigned count = each_process(&search, check_descriptors, each, arg);

	/* Looking at the mappings of a process may wait for a page fault of
	 * its: only where nothing else says who it is. */
	return count ? count : each_process(&search, check_mappings, each, arg);
}
