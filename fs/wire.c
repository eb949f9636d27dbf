/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/wire.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fs/fuse.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

/* flags2, bit 36 in all; linux/fuse.h has it from 6.6 on. */
#define DIRECT_IO_ALLOW_MMAP (1u << 4)

/* INIT comes once, first and alone: its reply is written by the thread that
 * read it, before another request is read. */
static uint64_t init_unique; /* 0: not the next reply */
static uint32_t init_flags, init_flags2;
static bool mmap_allowed;

bool wire_mmap_allowed(void)
{
	return mmap_allowed;
}

#ifdef FUSE_CAP_DIRECT_IO_ALLOW_MMAP

int wire_attach(struct fuse_session *session)
{
	(void)session;
	(void)init_unique;
	(void)init_flags;
	(void)init_flags2;
	return 0;
}

void wire_want(struct fuse_conn_info *conn)
{
	mmap_allowed =
		fuse_set_feature_flag(conn, FUSE_CAP_DIRECT_IO_ALLOW_MMAP);
}

#else

/* What happened before a reply has happened for whoever serves a request that
 * came after it: the kernel lies between, which ThreadSanitizer can't see. */
#ifdef __SANITIZE_THREAD__
static char kernel;

#define SAY_BEFORE_REPLY() __tsan_release(&kernel)
#define SAY_AFTER_REQUEST() __tsan_acquire(&kernel)
#else
#define SAY_BEFORE_REPLY() ((void)0)
#define SAY_AFTER_REQUEST() ((void)0)
#endif

static ssize_t request_read(int fd, void *buf, size_t len, void *data)
{
	ssize_t n = read(fd, buf, len);
	const struct fuse_in_header *header = buf;

	(void)data;
	SAY_AFTER_REQUEST();
	if (n >= (ssize_t)(sizeof(*header) + 20) &&
	    header->opcode == FUSE_INIT) {
		struct fuse_init_in in = {0};
		size_t room = (size_t)n - sizeof(*header);

		memcpy(&in, header + 1, room < sizeof(in) ? room : sizeof(in));
		init_flags = in.flags;
		init_flags2 = in.flags & FUSE_INIT_EXT ? in.flags2 : 0;
		init_unique = header->unique;
	}
	return n;
}

static void complete_init(struct fuse_init_out *out)
{
	if (!(init_flags2 & DIRECT_IO_ALLOW_MMAP))
		return;
	out->flags |= FUSE_INIT_EXT;
	out->flags2 |= DIRECT_IO_ALLOW_MMAP;
	mmap_allowed = true;
}

static ssize_t reply_writev(int fd, struct iovec *iov, int count, void *data)
{
	(void)data;
	if (init_unique && count >= 2 &&
	    iov[0].iov_len == sizeof(struct fuse_out_header) &&
	    iov[1].iov_len == sizeof(struct fuse_init_out)) {
		const struct fuse_out_header *header = iov[0].iov_base;

		if (header->unique == init_unique && !header->error)
			complete_init(iov[1].iov_base);
		init_unique = 0;
	}
	SAY_BEFORE_REPLY();
	/* Not writev(): a sanitizer looks at the bytes after it has returned.
	 * By then the caller has its answer, and may have closed the file that
	 * they belong to. */
	return syscall(SYS_writev, fd, iov, count);
}

int wire_attach(struct fuse_session *session)
{
	static const struct fuse_custom_io io = {
		.writev = reply_writev,
		.read = request_read,
	};

	return fuse_session_custom_io(session, &io, fuse_session_fd(session));
}

void wire_want(struct fuse_conn_info *conn)
{
	(void)conn;
}

#endif
