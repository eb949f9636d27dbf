/* SPDX-License-Identifier: Apache-2.0 */

/* `pagefs doctor`: room for both tiers. */

#include "tools/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tools/lib/size.h"

/* A bucket, and what the index needs besides. */
#define DISK_NEEDED_BYTES (UINT64_C(512) << 20)
#define MEMORY_NEEDED_BYTES (UINT64_C(16) << 20)

/* The directory itself, or the next one above it that is there. */
static void existing(const char *path, char ret[PATH_MAX])
{
	struct stat st;
	char *slash;

	snprintf(ret, PATH_MAX, "%s", path);
	while (stat(ret, &st) && errno == ENOENT) {
		slash = strrchr(ret, '/');
		if (!slash) {
			snprintf(ret, PATH_MAX, ".");
			return;
		}
		slash[slash == ret] = '\0';
	}
}

/* Such as /proc, where root may write but nothing can be kept. */
static bool keeps_files(const char *path)
{
	struct statvfs fs;

	return !statvfs(path, &fs) && fs.f_blocks;
}

static uint64_t free_bytes(const char *path)
{
	struct statvfs fs;

	if (statvfs(path, &fs))
		return 0;
	return (uint64_t)fs.f_bavail * fs.f_frsize;
}

static void check_disk(const struct doctor *doctor, struct finding *ret)
{
	char path[PATH_MAX], text[SIZE_TEXT_MAX];
	uint64_t room;

	if (!strcmp(doctor->disk, "none")) {
		finding_ok(ret, "no disk tier");
		return;
	}
	existing(doctor->disk, path);
	room = free_bytes(path);
	size_format_rounded(room, text, sizeof(text));
	if (access(path, W_OK | X_OK))
		finding_bad(ret, DOCTOR_FAIL,
			    "the disk tier can't be made there",
			    "give --disk a directory that you may write to, "
			    "or 'none'",
			    "%s: %s", path, strerror(errno));
	else if (!keeps_files(path))
		finding_bad(ret, DOCTOR_FAIL,
			    "the disk tier can't be made there",
			    "give --disk a directory on a disk, or 'none'",
			    "%s is no file system for data", path);
	else if (room < DISK_NEEDED_BYTES)
		finding_bad(ret, DOCTOR_WARN,
			    "what is evicted from memory soon finds no room: "
			    "puts fail once memory is full",
			    "make room, or give --disk a directory on a "
			    "larger file system",
			    "%s: %s free", path, text);
	else
		finding_ok(ret, "%s: %s free", path, text);
}

static void check_direct(const struct doctor *doctor, struct finding *ret)
{
	char path[PATH_MAX];
	int fd;

	if (!strcmp(doctor->disk, "none")) {
		finding_ok(ret, "no disk tier");
		return;
	}
	existing(doctor->disk, path);
	/* Without O_DIRECT first: to tell what can't do which. */
	fd = open(path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0) {
		finding_ok(ret, "%s: not tried (%s)", path, strerror(errno));
		return;
	}
	close(fd);
	fd = open(path, O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
	if (fd < 0) {
		finding_bad(ret, DOCTOR_WARN,
			    "buckets go through the page cache: twice the "
			    "memory, and one more copy",
			    "give --disk a directory on ext4 or xfs",
			    "%s: O_DIRECT: %s", path, strerror(errno));
		return;
	}
	close(fd);
	finding_ok(ret, "%s takes O_DIRECT", path);
}

static uint64_t memory_available(const struct doctor *doctor)
{
	char text[4096];
	const char *line;

	if (doctor_read(doctor, "/proc/meminfo", text, sizeof(text)))
		return 0;
	line = strstr(text, "MemAvailable:");
	return line ? strtoull(line + strlen("MemAvailable:"), NULL, 10) * 1024
		    : 0;
}

/* Root gets a tmpfs of its own, which only memory bounds; others use what is
 * there. */
static uint64_t memory_room(const struct doctor *doctor, const char **ret_where)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	uint64_t shm, room;
	char path[PATH_MAX];

	*ret_where = "memory";
	if (doctor->capabilities & DOCTOR_SYS_ADMIN)
		return memory_available(doctor);
	snprintf(path, sizeof(path), "%s/dev/shm", doctor->root);
	shm = free_bytes(path);
	room = runtime ? free_bytes(runtime) : 0;
	*ret_where = room > shm ? "$XDG_RUNTIME_DIR" : "/dev/shm";
	return room > shm ? room : shm;
}

static void check_memory(const struct doctor *doctor, struct finding *ret)
{
	char have[SIZE_TEXT_MAX], want[SIZE_TEXT_MAX];
	const char *where;
	uint64_t room = memory_room(doctor, &where);

	size_format_rounded(room, have, sizeof(have));
	size_format_rounded(doctor->memory_bytes, want, sizeof(want));
	if (room >= doctor->memory_bytes && room >= MEMORY_NEEDED_BYTES)
		finding_ok(ret, "%s: %s free, %s wanted", where, have, want);
	else
		finding_bad(ret,
			    room < MEMORY_NEEDED_BYTES ? DOCTOR_FAIL
						       : DOCTOR_WARN,
			    "a memory tier of that size can't be made",
			    *where == '/' ? "mount -o remount,size=SIZE "
					    "/dev/shm (as root; docker run "
					    "--shm-size SIZE), or a smaller "
					    "--memory"
					  : "free memory, or mount with a "
					    "smaller --memory",
			    "%s: %s free, %s wanted", where, have, want);
}

const struct doctor_check doctor_space_checks[] = {
	{"disk", check_disk},
	{"direct I/O", check_direct},
	{"memory", check_memory},
	{NULL, NULL},
};
