/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/lib/clock.h"

#define THREADS_MAX 64u

struct share {
	const struct files_work *work;
	int (*operation)(const struct files_work *work, const char *path,
			 void *buffer);
	const char *suffix;
	unsigned first; /* this thread's: first, first + threads, ... */
	pthread_barrier_t *start;
	pthread_t thread;
	int error;
};

void files_path(const struct files_work *work, unsigned index, char *ret,
		size_t room)
{
	/* As long as names of pages are: 64 hex digits and what follows. */
	snprintf(ret, room, "%s/%064x_meta-llama-Llama-3.1-8B_0_1.%08x.bin",
		 work->directory, index, index * 2654435761u);
}

static int write_one(const struct files_work *work, const char *path,
		     void *buffer)
{
	int fd = open(path,
		      O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC |
			      (work->direct ? O_DIRECT : 0),
		      0644);
	ssize_t n;
	int error = 0;

	if (fd < 0)
		return -errno;
	n = write(fd, buffer, work->page_bytes);
	if (n < 0)
		error = -errno;
	else if ((size_t)n != work->page_bytes)
		error = -ENOSPC;
	if (!error && work->sync && fsync(fd))
		error = -errno;
	if (close(fd) && !error)
		error = -errno;
	return error;
}

static int read_one(const struct files_work *work, const char *path,
		    void *buffer)
{
	int fd = open(path,
		      O_RDONLY | O_CLOEXEC | (work->direct ? O_DIRECT : 0));
	ssize_t n;
	int error = 0;

	if (fd < 0)
		return -errno;
	n = read(fd, buffer, work->page_bytes);
	if (n < 0)
		error = -errno;
	else if ((size_t)n != work->page_bytes)
		error = -EIO;
	close(fd);
	return error;
}

static int stat_one(const struct files_work *work, const char *path,
		    void *buffer)
{
	struct stat st;

	(void)work, (void)buffer;
	return stat(path, &st) ? -errno : 0;
}

static int stat_absent(const struct files_work *work, const char *path,
		       void *buffer)
{
	struct stat st;

	(void)work, (void)buffer;
	if (!stat(path, &st))
		return -EEXIST;
	return errno == ENOENT ? 0 : -errno;
}

static int create_one(const struct files_work *work, const char *path,
		      void *buffer)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	(void)work, (void)buffer;
	if (fd < 0)
		return -errno;
	return close(fd) ? -errno : 0;
}

static int remove_one(const struct files_work *work, const char *path,
		      void *buffer)
{
	(void)work, (void)buffer;
	return unlink(path) && errno != ENOENT ? -errno : 0;
}

static void *run_share(void *arg)
{
	struct share *share = arg;
	const struct files_work *work = share->work;
	char path[4600];
	void *buffer;

	if (posix_memalign(&buffer, 4096, work->page_bytes + 4096))
		buffer = NULL;
	else
		memset(buffer, 0x5a, work->page_bytes);
	share->error = buffer ? 0 : -ENOMEM;
	pthread_barrier_wait(share->start);
	for (unsigned i = share->first; !share->error && i < work->pages;
	     i += work->threads) {
		size_t len;

		files_path(work, i, path, sizeof(path));
		len = strlen(path);
		snprintf(path + len, sizeof(path) - len, "%s", share->suffix);
		share->error = share->operation(work, path, buffer);
	}
	free(buffer);
	return NULL;
}

static double run(const struct files_work *work,
		  int (*operation)(const struct files_work *, const char *,
				   void *),
		  const char *suffix)
{
	struct share shares[THREADS_MAX];
	pthread_barrier_t start;
	uint64_t from;
	int error = 0;

	pthread_barrier_init(&start, NULL, work->threads + 1);
	for (unsigned i = 0; i < work->threads; i++) {
		shares[i] = (struct share){.work = work,
					   .operation = operation,
					   .suffix = suffix,
					   .first = i,
					   .start = &start};
		if (pthread_create(&shares[i].thread, NULL, run_share,
				   &shares[i]))
			abort(); /* the others would wait for it for ever */
	}
	pthread_barrier_wait(&start);
	from = clock_monotonic_ns();
	for (unsigned i = 0; i < work->threads; i++) {
		pthread_join(shares[i].thread, NULL);
		error = error ? error : shares[i].error;
	}
	from = clock_monotonic_ns() - from;
	pthread_barrier_destroy(&start);
	return error ? error : (double)from * 1e-9 / work->pages;
}

double files_write(const struct files_work *work)
{
	return run(work, write_one, "");
}

double files_read(const struct files_work *work)
{
	return run(work, read_one, "");
}

double files_stat(const struct files_work *work)
{
	return run(work, stat_one, "");
}

double files_stat_missing(const struct files_work *work)
{
	return run(work, stat_absent, ".absent");
}

double files_create(const struct files_work *work)
{
	return run(work, create_one, "");
}

int files_remove(const struct files_work *work)
{
	double seconds = run(work, remove_one, "");

	return seconds < 0 ? (int)seconds : 0;
}

double files_list(const struct files_work *work)
{
	uint64_t from = clock_monotonic_ns();
	DIR *directory = opendir(work->directory);
	unsigned count = 0;

	if (!directory)
		return -errno;
	while (readdir(directory))
		count++;
	closedir(directory);
	if (count < work->pages)
		return -EIO;
	return (double)(clock_monotonic_ns() - from) * 1e-9;
}
