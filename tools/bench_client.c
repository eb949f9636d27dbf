/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "tools/lib/checksum.h"
#include "tools/lib/clock.h"

int client_init(struct client *client, const char *directory, size_t page_bytes,
		uint64_t seed)
{
	void *buffer;

	if (posix_memalign(&buffer, 4096, page_bytes))
		return -ENOMEM;
	snprintf(client->directory, sizeof(client->directory), "%s", directory);
	client->page_bytes = page_bytes;
	client->seed = seed;
	client->buffer = buffer;
	return 0;
}

void client_release(struct client *client)
{
	free(client->buffer);
	client->buffer = NULL;
}

/* The words of a page are a function of its name and their place, so that a
 * page, a half or a part of another one is told apart at once. */
static uint64_t page_word(uint64_t seed, size_t index)
{
	uint64_t word = (seed + index) * 0x9E3779B97F4A7C15u;

	return word ^ (word >> 32);
}

static uint64_t page_seed(const struct client *client, const char *name)
{
	return checksum_bytes(name, strlen(name), client->seed);
}

static void page_fill(struct client *client, const char *name)
{
	uint64_t seed = page_seed(client, name);

	for (size_t at = 0; at < client->page_bytes; at += 8) {
		uint64_t word = page_word(seed, at / 8);
		size_t left = client->page_bytes - at;

		memcpy(client->buffer + at, &word, left < 8 ? left : 8);
	}
}

static bool page_right(const struct client *client, const char *name)
{
	uint64_t seed = page_seed(client, name);

	for (size_t at = 0; at < client->page_bytes; at += 8) {
		uint64_t word = page_word(seed, at / 8);
		size_t left = client->page_bytes - at;

		if (memcmp(client->buffer + at, &word, left < 8 ? left : 8))
			return false;
	}
	return true;
}

/* What Python's open() does to a descriptor before the first byte. */
static void look_at(int fd)
{
	struct stat st;
	struct termios terminal;

	(void)!fstat(fd, &st);
	(void)!ioctl(fd, TCGETS, &terminal);
	(void)!lseek(fd, 0, SEEK_CUR);
}

/* HiCache writes through a duplicate and closes that first. */
static int write_page(struct client *client, int fd)
{
	int copy = dup(fd), error = 0;
	ssize_t n;

	if (copy < 0)
		return -errno;
	n = write(copy, client->buffer, client->page_bytes);
	if (n < 0)
		error = -errno;
	else if ((size_t)n != client->page_bytes)
		error = -ENOSPC;
	if (close(copy) && !error)
		error = -errno;
	return error;
}

static int put_as(struct client *client, const char *temporary,
		  const char *path)
{
	struct stat st;
	int fd, error;

	(void)!stat(path, &st);
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	look_at(fd);
	error = write_page(client, fd);
	if (close(fd) && !error)
		error = -errno;
	if (!error && rename(temporary, path))
		error = -errno;
	if (error)
		unlink(temporary);
	return error;
}

int client_put(struct client *client, const char *name, uint64_t *ret_ns)
{
	char path[4352], temporary[4480];
	uint64_t start;
	int error;

	snprintf(path, sizeof(path), "%s/%s", client->directory, name);
	snprintf(temporary, sizeof(temporary), "%s.tmp.%d.%d.%032llx", path,
		 (int)getpid(), (int)gettid(),
		 (unsigned long long)page_seed(client, name));
	page_fill(client, name);
	start = clock_monotonic_ns();
	error = put_as(client, temporary, path);
	*ret_ns = clock_monotonic_ns() - start;
	return error;
}

static int read_page(struct client *client, const char *path)
{
	struct stat st;
	ssize_t n;
	int fd, error = 0;

	if (stat(path, &st))
		return errno == ENOENT ? CLIENT_MISS : -errno;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? CLIENT_MISS : -errno;
	(void)!fstat(fd, &st);
	n = read(fd, client->buffer, client->page_bytes);
	if (n < 0)
		error = -errno;
	else if ((size_t)n != client->page_bytes)
		error = CLIENT_WRONG;
	close(fd);
	return error;
}

int client_get(struct client *client, const char *name, uint64_t *ret_ns)
{
	char path[4352];
	uint64_t start;
	int error;

	snprintf(path, sizeof(path), "%s/%s", client->directory, name);
	start = clock_monotonic_ns();
	error = read_page(client, path);
	*ret_ns = clock_monotonic_ns() - start;
	if (!error && !page_right(client, name))
		error = CLIENT_WRONG;
	return error;
}
