/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/lib/fault.h"

int arena_sys_open(int dir_fd, const char *name, int flags, int *ret_fd)
{
	int error = fault_point("store.arena_open");
	int fd;

	if (error)
		return error;
	fd = openat(dir_fd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int arena_sys_truncate(int fd, uint64_t len_bytes)
{
	int error = fault_point("store.arena_truncate");

	if (error)
		return error;
	return ftruncate(fd, (off_t)len_bytes) ? -errno : 0;
}

int arena_sys_allocate(int fd, uint64_t offset, uint64_t len_bytes)
{
	int error = fault_point("store.arena_fallocate");

	if (error)
		return error;
	while (fallocate(fd, 0, (off_t)offset, (off_t)len_bytes)) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

int arena_sys_map(void *at, size_t len_bytes, int fd, void **ret)
{
	int error = fault_point("store.arena_mmap");
	void *map;

	if (error)
		return error;
	map = mmap(at, len_bytes, PROT_READ | PROT_WRITE,
		   MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	if (ret)
		*ret = map;
	return 0;
}

int arena_sys_unmap(void *at, size_t len_bytes)
{
	void *map = mmap(
		at, len_bytes, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

	return map == MAP_FAILED ? -errno : 0;
}
