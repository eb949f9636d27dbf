/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "store/arena_format.h"
#include "tools/lib/log.h"

#define RUN_DIRECTORY "/run/pagefs"
#define SHM_DIRECTORY "/dev/shm"
#define TMPFS_MAGIC_NUMBER 0x01021994
/* Beside the arena the index of the memory tier lives in the same place, and
 * a tmpfs needs pages for its own blocks. */
#define SLACK_BYTES (64ull << 20)

static uint64_t place_bytes(uint64_t arena_bytes)
{
	return round_up_block(arena_bytes + arena_bytes / 50 + SLACK_BYTES);
}

/* Where others' files are, too, a small arena asks for less beside it: in a
 * container all of /dev/shm can be 64 MiB. */
static uint64_t shared_place_bytes(uint64_t arena_bytes)
{
	uint64_t slack = arena_bytes / 4;

	if (slack > SLACK_BYTES)
		slack = SLACK_BYTES;
	return round_up_block(arena_bytes + arena_bytes / 50 + slack);
}

static uint64_t largest_arena(uint64_t room)
{
	uint64_t low = 0, high = room;

	while (high - low > BLOCK_BYTES) {
		uint64_t middle = low + (high - low) / 2;

		if (shared_place_bytes(middle) <= room)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static bool instance_valid(const char *instance)
{
	return *instance && !strchr(instance, '/') && strcmp(instance, ".") &&
	       strcmp(instance, "..");
}

/* A directory that nobody else can have put there to have our pages. */
static int make_private(const char *path)
{
	struct stat st;

	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	if (lstat(path, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 022))
		return -EPERM;
	return 0;
}

/* ---- what is there ---- */

int arena_look(const char *path, struct arena_found *ret)
{
	struct arena_superblock superblock;
	char file[4096];
	bool busy;
	ssize_t got;
	int fd, len = snprintf(file, sizeof(file), "%s/arena", path);

	if (len < 0 || (size_t)len >= sizeof(file))
		return -ENAMETOOLONG;
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? ARENA_FRESH : -errno;
	busy = flock(fd, LOCK_SH | LOCK_NB) != 0;
	got = pread(fd, &superblock, sizeof(superblock), 0);
	close(fd);
	*ret = (struct arena_found){0};
	if (got == (ssize_t)sizeof(superblock)) {
		ret->bytes = le64_get(superblock.arena_bytes);
		ret->pid = (pid_t)le32_get(superblock.pid);
	}
	return busy ? -EBUSY : ARENA_KEPT;
}

static bool in_use(const char *path)
{
	struct arena_found found;

	return arena_look(path, &found) == -EBUSY;
}

/* ---- room ---- */

static uint64_t counted_bytes;

static int count_one(const char *path, const struct stat *st, int type,
		     struct FTW *where)
{
	(void)path;
	(void)where;
	if (type == FTW_F)
		counted_bytes += (uint64_t)st->st_blocks * 512;
	return 0;
}

/* What is free there, and what a former arena of ours holds. */
static uint64_t room_at(const char *path)
{
	struct statfs fs;

	if (statfs(path, &fs))
		return 0;
	counted_bytes = 0;
	nftw(path, count_one, 8, FTW_PHYS | FTW_MOUNT);
	return (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize + counted_bytes;
}

static uint64_t ram_bytes(void)
{
	struct sysinfo info;

	if (sysinfo(&info))
		return UINT64_MAX;
	return ((uint64_t)info.totalram + info.totalswap) * info.mem_unit;
}

/* ---- root: a tmpfs of its own ---- */

static bool is_mount_point(const char *path)
{
	char parent[4096];
	struct stat st, up;

	if (snprintf(parent, sizeof(parent), "%s/..", path) >=
	    (int)sizeof(parent))
		return false;
	return !stat(path, &st) && !stat(parent, &up) && st.st_dev != up.st_dev;
}

static int try_mount(const char *path, uint64_t bytes, unsigned long flags,
		     const char *more)
{
	char options[96];

	snprintf(options, sizeof(options), "mode=0700,size=%llu%s",
		 (unsigned long long)bytes, more);
	if (mount("pagefs", path, "tmpfs",
		  flags | MS_NOSUID | MS_NODEV | MS_NOEXEC, options))
		return -errno;
	return 0;
}

static int mount_tmpfs(const char *path, uint64_t bytes)
{
	bool there = is_mount_point(path);
	unsigned long flags = there ? MS_REMOUNT : 0;
	struct statfs fs;
	int rc;

	if (there) {
		if (statfs(path, &fs) || fs.f_type != TMPFS_MAGIC_NUMBER)
			return -EEXIST;
		if ((uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize == bytes)
			return 0;
	}
	rc = try_mount(path, bytes, flags, ",huge=within_size");
	/* Kernels without huge pages in tmpfs don't know the option. */
	if (rc == -EINVAL)
		rc = try_mount(path, bytes, flags, "");
	/* A smaller size is refused while what is there needs more: the arena
	 * of another size that is to be emptied, so go without its files. */
	if (rc == -EINVAL && there && !umount2(path, MNT_DETACH)) {
		log_info("the memory tier found at %s is larger than what is "
			 "wanted now: emptied",
			 path);
		rc = mount_tmpfs(path, bytes);
	}
	return rc;
}

static int place_as_root(const char *path, uint64_t bytes, uint64_t *ret_room)
{
	uint64_t ram = ram_bytes();
	int rc;

	if (mkdir(RUN_DIRECTORY, 0755) && errno != EEXIST)
		return -errno;
	rc = make_private(path);
	if (rc)
		return rc;
	/* Before a tmpfs that somebody works on gets another size. */
	if (in_use(path))
		return -EBUSY;
	if (bytes > ram) {
		*ret_room = ram;
		return -ENOSPC;
	}
	rc = mount_tmpfs(path, place_bytes(bytes));
	if (rc)
		rmdir(path);
	return rc;
}

/* ---- everybody else: a directory where there is room ---- */

static int place_below(const char *base, const char *sub, const char *instance,
		       uint64_t bytes, char *ret_path, size_t path_bytes,
		       uint64_t *room)
{
	uint64_t here;
	int rc, len;

	len = snprintf(ret_path, path_bytes, "%s/%s", base, sub);
	if (len < 0 || (size_t)len >= path_bytes)
		return -ENAMETOOLONG;
	rc = make_private(ret_path);
	if (rc)
		return rc;
	len = snprintf(ret_path, path_bytes, "%s/%s/%s", base, sub, instance);
	if (len < 0 || (size_t)len >= path_bytes)
		return -ENAMETOOLONG;
	rc = make_private(ret_path);
	if (rc)
		return rc;
	if (in_use(ret_path))
		return -EBUSY;
	here = room_at(ret_path);
	if (here >= shared_place_bytes(bytes))
		return 0;
	here = largest_arena(here);
	if (here > *room)
		*room = here;
	rmdir(ret_path); /* stays where it holds something */
	return -ENOSPC;
}

static int place_as_user(const char *instance, uint64_t bytes, char *ret_path,
			 size_t path_bytes, uint64_t *ret_room)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	uint64_t room = 0;
	char sub[64];
	int rc = -ENOENT, rc2;

	if (run && *run == '/')
		rc = place_below(run, "pagefs", instance, bytes, ret_path,
				 path_bytes, &room);
	if (!rc || rc == -EBUSY)
		return rc;
	snprintf(sub, sizeof(sub), "pagefs-%u", (unsigned)geteuid());
	rc2 = place_below(SHM_DIRECTORY, sub, instance, bytes, ret_path,
			  path_bytes, &room);
	if (!rc2 || rc2 == -EBUSY)
		return rc2;
	*ret_room = room;
	return rc == -ENOSPC ? rc : rc2;
}

int arena_place(const char *instance, uint64_t bytes, char *ret_path,
		size_t path_bytes, uint64_t *ret_room)
{
	char path[4096];
	uint64_t room = 0;
	int rc = -EPERM;

	if (!instance_valid(instance))
		return -EINVAL;
	if (!geteuid()) {
		int len = snprintf(path, sizeof(path), RUN_DIRECTORY "/%s",
				   instance);

		if ((size_t)len >= sizeof(path) || (size_t)len >= path_bytes)
			return -ENAMETOOLONG;
		rc = place_as_root(path, bytes, &room);
		if (rc && rc != -ENOSPC && rc != -EBUSY)
			log_warning("cannot mount a tmpfs on %s (%s): the "
				    "memory tier goes where a user's would; "
				    "CAP_SYS_ADMIN would mend it",
				    path, strerror(-rc));
	}
	if (rc && rc != -ENOSPC && rc != -EBUSY)
		rc = place_as_user(instance, bytes, path, sizeof(path), &room);
	if (!rc && strlen(path) >= path_bytes)
		rc = -ENAMETOOLONG;
	if (!rc || (rc == -EBUSY && strlen(path) < path_bytes))
		memcpy(ret_path, path, strlen(path) + 1);
	else if (rc == -ENOSPC)
		*ret_room = room;
	return rc;
}

/* ---- and away with it ---- */

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	return remove(path) && errno != ENOENT && errno != EBUSY ? -1 : 0;
}

/* Removing whole trees asks for a look at the path: one of ours? */
static bool ours(const char *path)
{
	size_t len = strlen(path);

	if (strstr(path, "/../") ||
	    (len >= 3 && !strcmp(path + len - 3, "/..")))
		return false;
	return strstr(path, "/pagefs/") || strstr(path, "/pagefs-");
}

int arena_unplace(const char *path)
{
	if (!ours(path))
		return -EINVAL;
	/* The content goes with the mount: nothing to unlink one by one. */
	if (is_mount_point(path) && umount2(path, 0) &&
	    (errno != EBUSY || umount2(path, MNT_DETACH)))
		return -errno;
	if (nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) &&
	    errno != ENOENT)
		return -errno;
	return 0;
}
