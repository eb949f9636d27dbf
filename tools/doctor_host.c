/* SPDX-License-Identifier: Apache-2.0 */

/* What the checks share: the host as it is, and words for findings. */

#include "tools/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

void finding_ok(struct finding *ret, const char *format, ...)
{
	va_list arguments;

	*ret = (struct finding){.outcome = DOCTOR_OK};
	va_start(arguments, format);
	vsnprintf(ret->found, sizeof(ret->found), format, arguments);
	va_end(arguments);
}

void finding_bad(struct finding *ret, enum doctor_outcome outcome,
		 const char *costs, const char *mend, const char *format, ...)
{
	va_list arguments;

	*ret = (struct finding){.outcome = outcome};
	snprintf(ret->costs, sizeof(ret->costs), "%s", costs);
	snprintf(ret->mend, sizeof(ret->mend), "%s", mend);
	va_start(arguments, format);
	vsnprintf(ret->found, sizeof(ret->found), format, arguments);
	va_end(arguments);
}

int doctor_read(const struct doctor *doctor, const char *path, char *ret,
		size_t room)
{
	char whole[PATH_MAX];
	ssize_t n;
	int fd, error = 0;

	snprintf(whole, sizeof(whole), "%s%s", doctor->root, path);
	fd = open(whole, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, ret, room - 1);
	if (n < 0)
		error = -errno;
	else
		ret[n] = '\0';
	if (n > 0 && ret[n - 1] == '\n')
		ret[n - 1] = '\0';
	close(fd);
	return error;
}

int doctor_read_number(const struct doctor *doctor, const char *path,
		       uint64_t *ret)
{
	char text[64], *end;
	unsigned long long number;
	int error = doctor_read(doctor, path, text, sizeof(text));

	if (error)
		return error;
	number = strtoull(text, &end, 10);
	if (end == text)
		return -EINVAL;
	*ret = number;
	return 0;
}

static uint64_t soft_limit(int resource)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)resource, &limit))
		return 0;
	return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

static uint64_t hard_limit(int resource)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)resource, &limit))
		return 0;
	return limit.rlim_max == RLIM_INFINITY ? UINT64_MAX : limit.rlim_max;
}

static uint64_t effective_capabilities(const struct doctor *doctor)
{
	char text[8192];
	const char *line;

	if (doctor_read(doctor, "/proc/self/status", text, sizeof(text)))
		return 0;
	line = strstr(text, "\nCapEff:");
	return line ? strtoull(line + strlen("\nCapEff:"), NULL, 16) : 0;
}

static uint64_t memory_total(const struct doctor *doctor)
{
	char text[4096];
	const char *line;

	if (doctor_read(doctor, "/proc/meminfo", text, sizeof(text)))
		return 0;
	line = strstr(text, "MemTotal:");
	return line ? strtoull(line + strlen("MemTotal:"), NULL, 10) * 1024 : 0;
}

int doctor_look(const char *disk, uint64_t memory_bytes, struct doctor *ret)
{
	struct utsname name;
	unsigned major = 0, minor = 0;

	if (uname(&name))
		return -errno;
	sscanf(name.release, "%u.%u", &major, &minor);
	*ret = (struct doctor){.root = "", .disk = disk};
	ret->memory_bytes =
		memory_bytes ? memory_bytes : memory_total(ret) / 10;
	ret->is_root = geteuid() == 0;
	ret->capabilities = effective_capabilities(ret);
	ret->kernel = doctor_kernel(major, minor);
	/* pagefs raises its own soft limit on files, never that of memlock. */
	ret->memlock_bytes = soft_limit(RLIMIT_MEMLOCK);
	ret->open_files = hard_limit(RLIMIT_NOFILE);
	ret->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}
