/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_TOOLS_BENCH_FILES_H
#define PAGEFS_TOOLS_BENCH_FILES_H

/*
 * Work on a directory of page files, the same on every file system: whole
 * pages written and read by some threads, look-ups, listings. Each function
 * returns the seconds that one operation took (wall time over operations of
 * all threads), or a negative number (-errno) when one failed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct files_work {
	const char *directory;
	size_t page_bytes;
	unsigned pages;	  /* files 0 .. pages - 1, shared out to the threads */
	unsigned threads; /* 64 at most */
	bool direct;	  /* O_DIRECT */
	bool sync;	  /* write: fsync before the close */
};

/* Creates (or replaces) each file: open, one write, close. */
double files_write(const struct files_work *work);
/* Reads each once: open, one read, close. */
double files_read(const struct files_work *work);
/* Stats each. */
double files_stat(const struct files_work *work);
/* Stats as many names that aren't there. */
double files_stat_missing(const struct files_work *work);
/* Lists the directory once: seconds for all of it. */
double files_list(const struct files_work *work);
/* Makes empty files of those names. */
double files_create(const struct files_work *work);
/* Unlinks them: -errno or 0. */
int files_remove(const struct files_work *work);
void files_path(const struct files_work *work, unsigned index, char *ret,
		size_t room);

#endif
