/* SPDX-License-Identifier: Apache-2.0 */

/* `pagefs doctor`: limits of the process, and settings of the memory. */

#include "tools/doctor.h"

#include <inttypes.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/page.h"
#include "tools/lib/size.h"

/* Slots from here on are files of their own, which cost a mapping each. */
#define SLOT_FILE_BYTES (UINT64_C(256) << 10)

static void check_page_size(const struct doctor *doctor, struct finding *ret)
{
	if (doctor->page_bytes == BLOCK_BYTES)
		finding_ok(ret, "4 KiB");
	else
		finding_bad(ret, DOCTOR_FAIL,
			    "pagefs does not start: it needs 4 KiB pages",
			    "boot a kernel that is built with 4 KiB pages",
			    "%" PRIu64 " KiB", doctor->page_bytes / 1024);
}

static void check_memlock(const struct doctor *doctor, struct finding *ret)
{
	char limit[SIZE_TEXT_MAX], need[SIZE_TEXT_MAX];

	size_format_rounded(doctor->memory_bytes, need, sizeof(need));
	if (doctor->memlock_bytes == UINT64_MAX)
		finding_ok(ret, "no limit");
	else if (doctor->capabilities & DOCTOR_IPC_LOCK)
		finding_ok(ret, "CAP_IPC_LOCK lifts the limit");
	else if (doctor->memlock_bytes >= doctor->memory_bytes)
		finding_ok(ret, "enough for a memory tier of %s", need);
	else
		finding_bad(
			ret, DOCTOR_WARN,
			"the memory tier can't be registered with io_uring: "
			"each read from disk pins its pages anew",
			"ulimit -l unlimited, or LimitMEMLOCK=infinity in the "
			"systemd unit",
			"%s may be locked, the memory tier has %s",
			size_format_rounded(doctor->memlock_bytes, limit,
					    sizeof(limit)),
			need);
}

/* A quarter of the limit is for buckets, up to 1,024 of them. */
#define FILES_WANTED 4096
#define FILES_NEEDED 256

static void check_files(const struct doctor *doctor, struct finding *ret)
{
	static const char mend[] =
		"ulimit -Hn 65536 (as root), or LimitNOFILE=65536 in the "
		"systemd unit";

	if (doctor->open_files >= FILES_WANTED)
		finding_ok(ret, "limit %" PRIu64, doctor->open_files);
	else if (doctor->open_files >= FILES_NEEDED)
		finding_bad(ret, DOCTOR_WARN,
			    "not all buckets stay open: reads of a large disk "
			    "tier open and close files",
			    mend, "limit %" PRIu64, doctor->open_files);
	else
		finding_bad(ret, DOCTOR_FAIL,
			    "the daemon runs out of files under load", mend,
			    "limit %" PRIu64, doctor->open_files);
}

static void check_mappings(const struct doctor *doctor, struct finding *ret)
{
	uint64_t maps = 0, need = doctor->memory_bytes / SLOT_FILE_BYTES * 2;
	char mend[128];

	if (doctor_read_number(doctor, "/proc/sys/vm/max_map_count", &maps)) {
		finding_bad(ret, DOCTOR_WARN,
			    "how many slots get files of "
			    "their own is not known",
			    "mount /proc", "vm.max_map_count can't be read");
	} else if (maps >= need) {
		finding_ok(ret, "vm.max_map_count %" PRIu64, maps);
	} else {
		snprintf(mend, sizeof(mend),
			 "sysctl -w vm.max_map_count=%" PRIu64, need);
		finding_bad(ret, DOCTOR_WARN,
			    "nothing yet; later versions will hand slots that "
			    "are files of their own to the kernel",
			    mend,
			    "vm.max_map_count %" PRIu64
			    ", the memory tier may need %" PRIu64,
			    maps, need);
	}
}

/* Is the tmpfs there mounted with huge pages? */
static bool mounted_huge(const struct doctor *doctor, const char *directory)
{
	char path[PATH_MAX];
	struct mntent *entry;
	bool huge = false;
	FILE *mounts;

	snprintf(path, sizeof(path), "%s/proc/self/mounts", doctor->root);
	mounts = setmntent(path, "r");
	while (mounts && (entry = getmntent(mounts)))
		if (!strcmp(entry->mnt_dir, directory))
			huge = hasmntopt(entry, "huge") &&
			       !strstr(entry->mnt_opts, "huge=never");
	if (mounts)
		endmntent(mounts);
	return huge;
}

static void check_huge_pages(const struct doctor *doctor, struct finding *ret)
{
	static const char costs[] =
		"the memory tier lies in pages of 4 KiB: copying large pages "
		"takes up to 1.5 times as long";
	char text[128];

	if (doctor_read(doctor,
			"/sys/kernel/mm/transparent_hugepage/shmem_enabled",
			text, sizeof(text)))
		finding_bad(ret, DOCTOR_WARN, costs,
			    "run a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
			    "this kernel has none for shared memory");
	else if (strstr(text, "[deny]"))
		finding_bad(ret, DOCTOR_WARN, costs,
			    "echo never >/sys/kernel/mm/transparent_hugepage/"
			    "shmem_enabled (as root; pagefs asks for its own)",
			    "shmem_enabled is 'deny'");
	else if (doctor->capabilities & DOCTOR_SYS_ADMIN)
		finding_ok(ret, "pagefs mounts a tmpfs with huge=within_size");
	else if (strstr(text, "[force]") || mounted_huge(doctor, "/dev/shm"))
		finding_ok(ret, "/dev/shm gives huge pages");
	else
		finding_bad(ret, DOCTOR_WARN, costs,
			    "mount -o remount,huge=within_size /dev/shm (as "
			    "root), or mount pagefs as root",
			    "/dev/shm is mounted without huge=");
}

const struct doctor_check doctor_limit_checks[] = {
	{"page size", check_page_size},	  {"memlock", check_memlock},
	{"open files", check_files},	  {"mappings", check_mappings},
	{"huge pages", check_huge_pages}, {NULL, NULL},
};
