/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEFS_FS_RESERVE_H
#define PAGEFS_FS_RESERVE_H

/*
 * What is kept for a thread between two of its requests.  An OPEN that was
 * answered with ESTALE makes the kernel look the name up again, and open what
 * it is given then; this is what makes sure that there is something to open,
 * and that ESTALE is never answered twice, which would reach the caller:
 *
 *   - a writer: the staging page that an OPEN for writing began, which is what
 *     the look-up answers, whatever the name has come to lead to;
 *   - a wish for one: the OPEN could not begin it (the page was replaced just
 *     then), so the look-up does;
 *   - a page: the version that the look-up answered;
 *   - neither: just that ESTALE has been answered.
 *
 * One reservation a thread; bounded, and each ends after RESERVE_MS: the
 * oldest goes first when there are RESERVE_MAX.  Threads whose id can't be
 * seen share id 0.
 *
 * Threads: any.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/lib/page.h"

struct cache_page;
struct cache_staging;
struct cache_writer;
struct reserves;

#define RESERVE_MAX 1024u
#define RESERVE_MS 2000u

struct reservation {
	struct key_id name; /* negative_key() of what was opened */
	/* NULL, or owned. */
	struct cache_writer *writer;
	pid_t process; /* the writer's */
	bool reads;    /* it was an OPEN for reading: of no use for writing */
	bool writes;   /* a writer is wanted: with these CACHE_STAGE_* flags */
	unsigned flags;
	struct cache_page *page;
	/* Look-ups that find nothing until it is forgotten: the kernel makes
	 * two (of the entry it has, then of the name), and more when others
	 * look the name up at the same time. */
	unsigned absent_left;
};

int reserves_new(struct reserves **ret);
/* Gives back all that is reserved. */
void reserves_free(struct reserves *reserves);

/* This thread's next OPEN of that name follows an ESTALE of ours.  Replaces
 * what the thread had; takes over what is in it. */
void reserve_put(struct reserves *reserves, pid_t thread,
		 const struct reservation *reservation);
/* Takes the thread's reservation for that name: false if it has none. */
bool reserve_take(struct reserves *reserves, pid_t thread,
		  const struct key_id *name, struct reservation *ret);
/* Has the thread one for that name?  A few nanoseconds when nobody has. */
bool reserve_has(struct reserves *reserves, pid_t thread,
		 const struct key_id *name);
/* The staging page of the thread's writer for that name, referenced; NULL: it
 * has none. */
struct cache_staging *reserve_staging(struct reserves *reserves, pid_t thread,
				      const struct key_id *name);
/* Does the thread want a writer for that name, and has none? */
bool reserve_wants_writer(struct reserves *reserves, pid_t thread,
			  const struct key_id *name, unsigned *ret_flags);
/* Keeps that writer for the thread's OPEN, or closes it when nothing is
 * reserved for that. */
void reserve_writer(struct reserves *reserves, pid_t thread,
		    const struct key_id *name, struct cache_writer *writer,
		    pid_t process);
/* The thread has looked that name up, and there is nothing. */
void reserve_absent(struct reserves *reserves, pid_t thread,
		    const struct key_id *name);
/* Keeps the page that the look-up answered for the thread's OPEN, or closes
 * it when nothing is reserved for that. */
void reserve_page(struct reserves *reserves, pid_t thread,
		  const struct key_id *name, struct cache_page *page);
/* Whatever the thread has: it does something else now. */
void reserve_drop(struct reserves *reserves, pid_t thread);
/* Gives back what is in a reservation. */
void reservation_release(struct reservation *reservation);
/* Ends what is too old; called now and then. */
void reserves_expire(struct reserves *reserves, uint64_t now_ns);

#endif
