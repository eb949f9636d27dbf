/* SPDX-License-Identifier: Apache-2.0 */

/* `pagefs doctor`: what a mount needs of the kernel and of libfuse. */

#include "tools/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void check_device(const struct doctor *doctor, struct finding *ret)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/dev/fuse", doctor->root);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		close(fd);
		finding_ok(ret, "/dev/fuse can be opened");
	} else if (errno == ENOENT || errno == ENXIO || errno == ENODEV) {
		finding_bad(ret, DOCTOR_FAIL, "nothing can be mounted",
			    "modprobe fuse; in a container: run it with "
			    "--device /dev/fuse --cap-add SYS_ADMIN",
			    "/dev/fuse: %s", strerror(errno));
	} else if (errno == EPERM) {
		finding_bad(ret, DOCTOR_FAIL, "nothing can be mounted",
			    "run the container with --device /dev/fuse "
			    "--cap-add SYS_ADMIN",
			    "/dev/fuse: %s", strerror(errno));
	} else {
		finding_bad(ret, DOCTOR_FAIL, "nothing can be mounted",
			    "chmod 666 /dev/fuse (as root), or mount as root",
			    "/dev/fuse: %s", strerror(errno));
	}
}

/* Where a program is found, as execvp(3) looks for it. */
static bool find_program(const char *name, char ret[PATH_MAX])
{
	const char *path = getenv("PATH");

	for (path = path ? path : "/usr/bin:/bin"; *path;) {
		size_t len = strcspn(path, ":");

		snprintf(ret, PATH_MAX, "%.*s/%s", (int)len, path, name);
		if (!access(ret, X_OK))
			return true;
		path += len + (path[len] == ':');
	}
	return false;
}

static void check_fusermount(const struct doctor *doctor, struct finding *ret)
{
	char path[PATH_MAX];
	struct stat st;

	if (!find_program("fusermount3", path)) {
		finding_bad(ret, doctor->is_root ? DOCTOR_WARN : DOCTOR_FAIL,
			    doctor->is_root
				    ? "only root can mount and unmount"
				    : "nothing can be mounted without root",
			    "apt install fuse3", "fusermount3 is not in PATH");
	} else if (!doctor->is_root && (stat(path, &st) || st.st_uid != 0 ||
					!(st.st_mode & S_ISUID))) {
		finding_bad(ret, DOCTOR_FAIL,
			    "nothing can be mounted without root",
			    "chown root and chmod u+s it (as root)",
			    "%s is not setuid root", path);
	} else {
		finding_ok(ret, "%s", path);
	}
}

/* A line that says it alone; what follows a # is a comment. */
static bool has_line(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (; text; text = strchr(text, '\n'), text = text ? text + 1 : NULL) {
		const char *at = text + strspn(text, " \t");

		if (!strncmp(at, word, len) &&
		    strchr("\n \t#", at[len])) /* finds the NUL, too */
			return true;
	}
	return false;
}

static void check_allow_other(const struct doctor *doctor, struct finding *ret)
{
	char text[16384];

	if (doctor->is_root)
		finding_ok(ret, "root may always use it");
	else if (!doctor_read(doctor, "/etc/fuse.conf", text, sizeof(text)) &&
		 has_line(text, "user_allow_other"))
		finding_ok(ret, "/etc/fuse.conf has user_allow_other");
	else
		finding_bad(ret, DOCTOR_WARN,
			    "only you can use the mount, not root and not an "
			    "engine that runs as another user",
			    "echo user_allow_other >>/etc/fuse.conf (as root)",
			    "/etc/fuse.conf lacks user_allow_other");
}

static void check_mmap(const struct doctor *doctor, struct finding *ret)
{
	if (doctor->kernel >= doctor_kernel(6, 6))
		finding_ok(ret, "pages can be mapped shared");
	else
		finding_bad(ret, DOCTOR_WARN,
			    "mmap with MAP_SHARED fails with ENODEV (LMCache "
			    "GDS and FlexGen use it)",
			    "run a kernel of 6.6 or later",
			    "this kernel lacks FUSE_DIRECT_IO_ALLOW_MMAP");
}

static void check_passthrough(const struct doctor *doctor, struct finding *ret)
{
	static const char costs[] =
		"nothing yet; later versions will let the kernel read pages "
		"by itself, at the speed of tmpfs";

	if (doctor->kernel < doctor_kernel(6, 9))
		finding_bad(ret, DOCTOR_WARN, costs,
			    "run a kernel of 6.9 or later",
			    "this kernel has no FUSE passthrough");
	else if (!(doctor->capabilities & DOCTOR_SYS_ADMIN))
		finding_bad(ret, DOCTOR_WARN, costs,
			    "mount as root, or with CAP_SYS_ADMIN",
			    "no CAP_SYS_ADMIN");
	else
		finding_ok(ret, "would work; not used by this version");
}

static void check_uring(const struct doctor *doctor, struct finding *ret)
{
	static const char parameter[] =
		"/sys/module/fuse/parameters/enable_uring";
	static const char costs[] =
		"nothing yet; later versions will answer look-ups over it, in "
		"4 us where clients and daemon are on different cores";
	char text[16];

	if (doctor->kernel < doctor_kernel(6, 14))
		finding_bad(ret, DOCTOR_WARN, costs,
			    "run a kernel of 6.14 or later",
			    "this kernel has no FUSE over io_uring");
	else if (doctor_read(doctor, parameter, text, sizeof(text)) ||
		 *text != 'Y')
		finding_bad(ret, DOCTOR_WARN, costs,
			    "echo Y >/sys/module/fuse/parameters/enable_uring "
			    "(as root)",
			    "FUSE over io_uring is off");
	else
		finding_ok(ret, "would work; not used by this version");
}

/* The inode of the first pid namespace, which is the same in all kernels. */
#define INITIAL_PID_NAMESPACE "pid:[4026531836]"

static void check_processes(const struct doctor *doctor, struct finding *ret)
{
	char path[PATH_MAX], text[64] = "";
	ssize_t n;

	snprintf(path, sizeof(path), "%s/proc/self/ns/pid", doctor->root);
	n = readlink(path, text, sizeof(text) - 1);
	if (n > 0 && !strcmp(text, INITIAL_PID_NAMESPACE))
		finding_ok(ret, "the daemon sees all processes");
	else
		finding_bad(ret, DOCTOR_WARN,
			    "a writer outside that is killed while it writes "
			    "a page in place leaves the half of it",
			    "run pagefs in the host's pid namespace (docker "
			    "run --pid host)",
			    "a pid namespace of its own");
}

const struct doctor_check doctor_fuse_checks[] = {
	{"fuse device", check_device},	    {"fusermount3", check_fusermount},
	{"allow_other", check_allow_other}, {"shared mmap", check_mmap},
	{"passthrough", check_passthrough}, {"fuse io_uring", check_uring},
	{"processes", check_processes},	    {NULL, NULL},
};
