/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_DOCTOR_H
#define PAGEFS_TOOLS_DOCTOR_H

/*
 * What `pagefs doctor` looks at. Each check asks this host one question and
 * fills in a finding; none changes anything, none waits. What a check needs to
 * know of the host stands in struct doctor, so that a test can make up a host.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum doctor_outcome {
	DOCTOR_OK,
	DOCTOR_WARN, /* it works, with a loss that `costs` names */
	DOCTOR_FAIL, /* pagefs can't work like this */
};

struct finding {
	enum doctor_outcome outcome;
	char found[256];
	char costs[256]; /* empty where the outcome is ok, as mend */
	char mend[256];
};

struct doctor {
	const char *root;      /* in front of /proc, /sys, /etc and /dev: "" */
	const char *disk;      /* of the disk tier; it need not exist */
	uint64_t memory_bytes; /* of the memory tier */
	bool is_root;
	uint64_t capabilities;		    /* effective ones, a bit each */
	unsigned kernel;		    /* doctor_kernel(6, 18) */
	uint64_t memlock_bytes, open_files; /* limits; UINT64_MAX: none */
	uint64_t page_bytes;		    /* of the machine's memory */
};

#define doctor_kernel(major, minor) ((unsigned)(major)*1000 + (minor))
#define DOCTOR_IPC_LOCK (UINT64_C(1) << 14)
#define DOCTOR_SYS_ADMIN (UINT64_C(1) << 21)

struct doctor_check {
	const char *name;
	void (*run)(const struct doctor *doctor, struct finding *ret);
};

/* End with a NULL name. */
extern const struct doctor_check doctor_fuse_checks[];
extern const struct doctor_check doctor_limit_checks[];
extern const struct doctor_check doctor_io_checks[];
extern const struct doctor_check doctor_space_checks[];

/* This host, as it is. 0 or -errno. memory_bytes 0: a tenth of its memory. */
int doctor_look(const char *disk, uint64_t memory_bytes, struct doctor *ret);

/* Sets the finding's outcome and text. */
void finding_ok(struct finding *ret, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void finding_bad(struct finding *ret, enum doctor_outcome outcome,
		 const char *costs, const char *mend, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* The first bytes of a file below `root`, without a newline at the end: 0 or
 * -errno. */
int doctor_read(const struct doctor *doctor, const char *path, char *ret,
		size_t room);
/* The number that a file holds: 0 or -errno. */
int doctor_read_number(const struct doctor *doctor, const char *path,
		       uint64_t *ret);

#endif
