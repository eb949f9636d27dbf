/* SPDX-License-Identifier: Apache-2.0 */

/* `pagefs doctor`: io_uring, tried out. */

#include "tools/doctor.h"

#include <errno.h>
#include <liburing.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char threads_cost[] =
	"the disk is read and written by threads with pread and pwrite: more "
	"CPU a page, and fewer requests in flight";

static void check_io_uring(const struct doctor *doctor, struct finding *ret)
{
	struct io_uring ring;
	uint64_t disabled = 0;
	int error = io_uring_queue_init(32, &ring, 0);

	if (!error) {
		io_uring_queue_exit(&ring);
		finding_ok(ret, "a ring can be set up");
		return;
	}
	doctor_read_number(doctor, "/proc/sys/kernel/io_uring_disabled",
			   &disabled);
	if (error == -EPERM && disabled)
		finding_bad(ret, DOCTOR_WARN, threads_cost,
			    "sysctl -w kernel.io_uring_disabled=0",
			    "kernel.io_uring_disabled is %d", (int)disabled);
	else if (error == -EPERM || error == -ENOSYS)
		finding_bad(ret, DOCTOR_WARN, threads_cost,
			    "in a container: allow the io_uring calls in its "
			    "seccomp profile; else run a kernel of 5.6 or "
			    "later",
			    "io_uring_setup: %s", strerror(-error));
	else if (error == -ENOMEM)
		finding_bad(ret, DOCTOR_WARN, threads_cost,
			    "ulimit -l unlimited, or LimitMEMLOCK=infinity in "
			    "the systemd unit",
			    "io_uring_setup: %s", strerror(-error));
	else
		finding_bad(ret, DOCTOR_WARN, threads_cost,
			    "see dmesg for what the kernel says",
			    "io_uring_setup: %s", strerror(-error));
}

#define PIECE_BYTES ((size_t)65536)

/* Two files side by side in one range of addresses, as slots are. */
static int map_two_files(char *range)
{
	int error = 0;

	for (int i = 0; !error && i < 2; i++) {
		int fd = memfd_create("pagefs doctor", MFD_CLOEXEC);

		if (fd < 0)
			return -errno;
		if (ftruncate(fd, PIECE_BYTES) ||
		    mmap(range + (size_t)i * PIECE_BYTES, PIECE_BYTES,
			 PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			 0) == MAP_FAILED)
			error = -errno;
		close(fd);
	}
	return error;
}

/* 0, or -errno of registering one buffer that spans both. */
static int try_fixed_buffers(void)
{
	struct iovec buffer = {.iov_len = 2 * PIECE_BYTES};
	struct io_uring ring;
	int error = io_uring_queue_init(4, &ring, 0);

	if (error)
		return error;
	buffer.iov_base = mmap(NULL, buffer.iov_len, PROT_NONE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer.iov_base == MAP_FAILED) {
		error = -errno;
	} else {
		error = map_two_files(buffer.iov_base);
		if (!error)
			error = io_uring_register_buffers(&ring, &buffer, 1);
		munmap(buffer.iov_base, buffer.iov_len);
	}
	io_uring_queue_exit(&ring);
	return error;
}

static void check_fixed_buffers(const struct doctor *doctor,
				struct finding *ret)
{
	int error = try_fixed_buffers();

	(void)doctor;
	if (!error)
		finding_ok(ret, "one buffer may span several files");
	else if (error == -EINVAL || error == -EOPNOTSUPP)
		finding_bad(ret, DOCTOR_WARN,
			    "nothing yet; later versions will keep slots in "
			    "files of their own, read through plain buffers "
			    "then",
			    "run a kernel of 6.18 or later",
			    "this kernel refuses buffers over several files");
	else
		finding_bad(
			ret, DOCTOR_WARN, "reads from disk use plain buffers",
			error == -ENOMEM
				? "ulimit -l unlimited, or "
				  "LimitMEMLOCK=infinity in the systemd unit"
				: "see 'io_uring' above",
			"registering a buffer: %s", strerror(-error));
}

const struct doctor_check doctor_io_checks[] = {
	{"io_uring", check_io_uring},
	{"fixed buffers", check_fixed_buffers},
	{NULL, NULL},
};
