/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/crash/model.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

uint64_t random_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9E3779B97F4A7C15u);

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

/* ---- bytes ---- */

/* Around blocks and chunks (512 KiB here); most are small. */
struct page_state page_of(uint64_t generation)
{
	static const uint32_t sizes[] = {
		0,	1,	4096,	 5000,	       16384,
		65536,	100000, 262144,	 300001,       524288,
		524289, 786432, 1300000, PAGE_MAX - 7, PAGE_MAX};
	uint64_t mix = generation;
	uint64_t pick = random_next(&mix);
	uint32_t len = sizes[pick % (sizeof(sizes) / sizeof(*sizes))];

	if (len > 600000 && (pick >> 32) % 2)
		len = 20000 + (uint32_t)(pick >> 40) % 10000;
	return (struct page_state){
		.generation = generation, .len = len, .kept = len};
}

/* Words by their place, so that a shifted page doesn't pass. */
static void fill(uint8_t *to, uint64_t generation, uint32_t at, uint32_t end)
{
	uint64_t seed = generation * 0xD6E8FEB86659FD93u;

	while (at < end) {
		uint64_t word = (seed + at / 8) * 0x9E3779B97F4A7C15u;
		uint32_t skip = at % 8, n = 8 - skip;

		if (n > end - at)
			n = end - at;
		memcpy(to + at, (uint8_t *)&word + skip, n);
		at += n;
	}
}

void page_fill(const struct page_state *state, uint8_t *ret)
{
	fill(ret, state->generation, 0, state->kept);
	memset(ret + state->kept, 0, state->len - state->kept);
	fill(ret, state->patch_generation, state->patch_at,
	     state->patch_at + state->patch_len);
}

bool page_is(const struct page_state *state, const uint8_t *found, ssize_t len,
	     uint8_t *scratch)
{
	if (!state->generation || len < 0)
		return !state->generation && len == -1;
	if ((size_t)len != state->len)
		return false;
	/* Most that are another generation's can be told by their start. */
	if (state->kept >= 8 && state->patch_at >= 8) {
		fill(scratch, state->generation, 0, 8);
		if (memcmp(found, scratch, 8) != 0)
			return false;
	}
	page_fill(state, scratch);
	return !memcmp(found, scratch, (size_t)len);
}

ssize_t page_read(const char *path, uint8_t *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), error;
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? -1 : -2;
	while ((n = read(fd, ret + len, PAGE_MAX + 1 - len)) > 0)
		len += (size_t)n;
	error = errno;
	close(fd);
	errno = error;
	return n < 0 ? -2 : (ssize_t)len;
}

/* ---- histories ---- */

struct page_state *history_last(struct key_history *history)
{
	return &history->states[history->count - 1];
}

void history_try(struct key_history *history, const struct page_state *state)
{
	history->states[history->count++] = *state;
	history->trying = true;
}

void history_confirm(struct key_history *history)
{
	history->states[0] = *history_last(history);
	history->states[0].durable = true;
	history->count = 1;
	history->trying = false;
}

/* A version that has replaced what was on disk, and is in memory only. */
static bool may_be_lost(const struct key_history *history)
{
	for (size_t i = 1; i < history->count; i++)
		if (history->states[i].len && !history->states[i].durable)
			return true;
	return false;
}

int history_find(const struct key_history *history, bool memory_is_gone,
		 const uint8_t *found, ssize_t len, uint8_t *scratch)
{
	size_t oldest = memory_is_gone	  ? 0
			: history->trying ? history->count - 2
					  : history->count - 1;

	for (size_t i = history->count; i-- > oldest;)
		if (page_is(&history->states[i], found, len, scratch))
			return (int)i;
	return len == -1 && memory_is_gone && may_be_lost(history) ? -2 : -1;
}

void history_settle(struct key_history *history, int found)
{
	if (found == -2)
		*history_last(history) = (struct page_state){0};
	else
		history->count = (size_t)found + 1;
	history->trying = false;
}
