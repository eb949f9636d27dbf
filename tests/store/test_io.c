/* SPDX-License-Identifier: Apache-2.0 */
#include "store/io.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/capability.h>

#include "tools/lib/clock.h"
#include "tools/lib/fault.h"

/* Every test runs on both engines: its initial state says on which. */
static enum io_mode RING = IO_AUTO, THREADS = IO_URING_OFF;

/* One request and what became of it; guarded by `lock`. */
struct item {
	struct io_request request;
	int64_t res;
	unsigned done, settled, released;
	unsigned order; /* of `done` among all */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned order;

static void on_done(struct io_request *request, int64_t res)
{
	struct item *item = request->arg;

	pthread_mutex_lock(&lock);
	item->res = res;
	item->done++;
	item->order = ++order;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void on_release(void *owner)
{
	struct item *item = owner;

	pthread_mutex_lock(&lock);
	item->released++;
	pthread_mutex_unlock(&lock);
}

static void on_settled(struct io_request *request)
{
	struct item *item = request->arg;

	pthread_mutex_lock(&lock);
	item->settled++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void wait_for(unsigned *what)
{
	pthread_mutex_lock(&lock);
	while (*what == 0)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static unsigned value_of(unsigned *what)
{
	unsigned value;

	pthread_mutex_lock(&lock);
	value = *what;
	pthread_mutex_unlock(&lock);
	return value;
}

static struct item *item_new(enum io_operation operation, int fd, void *data,
			     uint32_t len, uint64_t offset)
{
	struct item *item = calloc(1, sizeof(*item));

	item->request = (struct io_request){
		.operation = operation,
		.fd = fd,
		.data = data,
		.len_bytes = len,
		.offset_bytes = offset,
		.done = on_done,
		.settled = on_settled,
		.release = on_release,
		.owner = item,
		.arg = item,
	};
	return item;
}

static void submit(struct io *io, struct item *item)
{
	struct io_request *request = &item->request;

	io_submit(io, &request, 1);
}

/* Waits until it has settled, checks that each callback came once, frees. */
static int64_t finish(struct item *item)
{
	int64_t res;

	wait_for(&item->settled);
	assert_int_equal(item->done, 1);
	assert_int_equal(item->released, 1);
	assert_int_equal(item->settled, 1);
	res = item->res;
	free(item);
	return res;
}

static int64_t transfer(struct io *io, enum io_operation operation, int fd,
			void *data, uint32_t len, uint64_t offset)
{
	struct item *item = item_new(operation, fd, data, len, offset);

	submit(io, item);
	return finish(item);
}

struct fixture {
	struct io *io;
	int fd;
	char path[64];
};

static struct fixture begin(void **state, unsigned depth)
{
	struct io_config config = {.mode = *(enum io_mode *)*state,
				   .depth = depth};
	struct fixture f = {.path = "/var/tmp/pagefs-io-XXXXXX"};
	struct io_stats stats;

	fault_disarm_all();
	assert_int_equal(io_open(&config, &f.io), 0);
	io_get_stats(f.io, &stats);
	if (config.mode == IO_URING_OFF)
		assert_string_equal(stats.engine, "threads");
	f.fd = mkostemp(f.path, O_DIRECT | O_CLOEXEC);
	assert_true(f.fd >= 0);
	return f;
}

static void end(struct fixture *f)
{
	io_close(f->io);
	close(f->fd);
	unlink(f->path);
	fault_disarm_all();
}

static char *buffer(size_t len, int seed)
{
	char *data = aligned_alloc(4096, len);

	for (size_t i = 0; i < len; i++)
		data[i] = (char)((i / 4096 * 31 + i + (size_t)seed) * 7);
	return data;
}

static void what_is_written_can_be_read_back_in_all_sizes(void **state)
{
	static const uint32_t sizes[] = {4096, 8192, 262144, 3670016, 64 << 20};
	struct fixture f = begin(state, 32);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char *out = buffer(sizes[i], (int)i),
		     *in = buffer(sizes[i], 99);

		assert_int_equal(
			transfer(f.io, IO_WRITE, f.fd, out, sizes[i], 8192),
			sizes[i]);
		assert_int_equal(transfer(f.io, IO_SYNC, f.fd, NULL, 0, 0), 0);
		assert_int_equal(
			transfer(f.io, IO_READ, f.fd, in, sizes[i], 8192),
			sizes[i]);
		assert_memory_equal(in, out, sizes[i]);
		free(in);
		free(out);
	}
	end(&f);
}

static void a_vector_goes_out_as_one_write_and_survives_short_ones(void **state)
{
	struct fixture f = begin(state, 4);
	char *out = buffer(1 << 20, 1), *in = buffer(1 << 20, 2);

	for (int shorten = 0; shorten < 2; shorten++) {
		struct iovec vector[] = {{out, 4096},
					 {out + 4096, 65536},
					 {out + 69632, (1 << 20) - 69632}};
		struct item *item =
			item_new(IO_WRITE_VECTOR, f.fd, vector, 1 << 20, 4096);

		if (shorten)
			fault_arm_periodic("io.write.short", 1, EIO);
		item->request.vector_count = 3;
		submit(f.io, item);
		if (shorten) {
			/* Halves down to one block, then has to end. */
			wait_for(&item->settled);
			fault_disarm_all();
			assert_int_equal(finish(item), -EIO);
			continue;
		}
		assert_int_equal(finish(item), 1 << 20);
		assert_int_equal(
			transfer(f.io, IO_READ, f.fd, in, 1 << 20, 4096),
			1 << 20);
		assert_memory_equal(in, out, 1 << 20);
	}
	for (uint64_t nth = 1; nth < 4; nth++) {
		struct iovec vector[] = {{out, 4096},
					 {out + 4096, 65536},
					 {out + 69632, (1 << 20) - 69632}};
		struct item *item =
			item_new(IO_WRITE_VECTOR, f.fd, vector, 1 << 20, 0);

		fault_arm("io.write.short", nth, EIO);
		item->request.vector_count = 3;
		submit(f.io, item);
		assert_int_equal(finish(item), 1 << 20);
		fault_disarm_all();
		memset(in, 0, 1 << 20);
		assert_int_equal(transfer(f.io, IO_READ, f.fd, in, 1 << 20, 0),
				 1 << 20);
		assert_memory_equal(in, out, 1 << 20);
	}
	free(in);
	free(out);
	end(&f);
}

static void a_short_read_is_taken_up_again(void **state)
{
	struct fixture f = begin(state, 4);
	char *out = buffer(1 << 20, 3), *in = buffer(1 << 20, 4);

	transfer(f.io, IO_WRITE, f.fd, out, 1 << 20, 0);
	fault_arm("io.read.short", 1, EIO);
	assert_int_equal(transfer(f.io, IO_READ, f.fd, in, 1 << 20, 0),
			 1 << 20);
	assert_memory_equal(in, out, 1 << 20);
	free(in);
	free(out);
	end(&f);
}

static void a_read_past_the_end_of_the_file_is_short(void **state)
{
	struct fixture f = begin(state, 4);
	char *data = buffer(65536, 5);

	transfer(f.io, IO_WRITE, f.fd, data, 8192, 0);
	assert_int_equal(transfer(f.io, IO_READ, f.fd, data, 65536, 0), 8192);
	assert_int_equal(transfer(f.io, IO_READ, f.fd, data, 4096, 65536), 0);
	assert_int_equal(ftruncate(f.fd, 5000), 0);
	assert_int_equal(transfer(f.io, IO_READ, f.fd, data, 65536, 0), 5000);
	free(data);
	end(&f);
}

static void a_request_refused_for_a_moment_is_tried_again(void **state)
{
	static const int errors[] = {EINTR, EAGAIN};
	struct fixture f = begin(state, 4);
	char *data = buffer(4096, 6);

	transfer(f.io, IO_WRITE, f.fd, data, 4096, 0);
	for (int i = 0; i < 2; i++) {
		fault_arm("io.read", 1, errors[i]);
		assert_int_equal(transfer(f.io, IO_READ, f.fd, data, 4096, 0),
				 4096);
	}
	free(data);
	end(&f);
}

static void an_error_is_told_as_it_is(void **state)
{
	struct fixture f = begin(state, 4);
	char *data = buffer(4096, 7);

	assert_int_equal(transfer(f.io, IO_READ, -1, data, 4096, 0), -EBADF);
	fault_arm("io.read", 1, EIO);
	assert_int_equal(transfer(f.io, IO_READ, f.fd, data, 4096, 0), -EIO);
	fault_arm("io.write", 1, ENOSPC);
	assert_int_equal(transfer(f.io, IO_WRITE, f.fd, data, 4096, 0),
			 -ENOSPC);
	fault_arm("io.sync", 1, EIO);
	assert_int_equal(transfer(f.io, IO_SYNC, f.fd, NULL, 0, 0), -EIO);
	free(data);
	end(&f);
}

static void each_of_many_reads_is_answered_with_its_own_bytes(void **state)
{
	enum {
		COUNT = 300,
		LEN = 65536
	};
	struct fixture f = begin(state, 32);
	static struct io_request *requests[COUNT];
	static struct item *items[COUNT];
	static char *data[COUNT];
	char *out = buffer(LEN, 0);
	struct io_stats stats;

	for (int i = 0; i < COUNT; i++) {
		memset(out, i, LEN);
		transfer(f.io, IO_WRITE, f.fd, out, LEN, (uint64_t)i * LEN);
	}
	for (int i = 0; i < COUNT; i++) {
		data[i] = buffer(LEN, 1);
		items[i] = item_new(IO_READ, f.fd, data[i], LEN,
				    (uint64_t)i * LEN);
		items[i]->request.deadline_ns = clock_deadline_ns(LEN);
		requests[i] = &items[i]->request;
	}
	io_submit(f.io, requests, COUNT);
	for (int i = 0; i < COUNT; i++) {
		assert_int_equal(finish(items[i]), LEN);
		memset(out, i, LEN);
		assert_memory_equal(data[i], out, LEN);
		free(data[i]);
	}
	io_get_stats(f.io, &stats);
	assert_int_equal(stats.reads, COUNT);
	assert_int_equal(stats.in_flight, 0);
	free(out);
	end(&f);
}

struct submitter {
	struct fixture *f;
	int number;
	unsigned wrong;
};

static void *read_many(void *arg)
{
	struct submitter *s = arg;
	char *data = buffer(4096, 0);

	for (int i = 0; i < 200; i++) {
		int block = (i * 7 + s->number) % 64;

		if (transfer(s->f->io, IO_READ, s->f->fd, data, 4096,
			     (uint64_t)block * 4096) != 4096 ||
		    data[17] != (char)block)
			s->wrong++;
	}
	free(data);
	return NULL;
}

static void many_threads_may_submit_at_once(void **state)
{
	struct fixture f = begin(state, 8);
	struct submitter submitters[8];
	pthread_t threads[8];
	char *out = buffer(4096, 0);

	for (int i = 0; i < 64; i++) {
		memset(out, i, 4096);
		transfer(f.io, IO_WRITE, f.fd, out, 4096, (uint64_t)i * 4096);
	}
	for (int i = 0; i < 8; i++) {
		submitters[i] = (struct submitter){.f = &f, .number = i};
		pthread_create(&threads[i], NULL, read_many, &submitters[i]);
	}
	for (int i = 0; i < 8; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(submitters[i].wrong, 0);
	}
	free(out);
	end(&f);
}

static void past_its_deadline_a_read_is_answered_but_settles_later(void **state)
{
	struct fixture f = begin(state, 4);
	char *out = buffer(4096, 8), *in = calloc(1, 8192);
	char *slot = aligned_alloc(4096, 4096);
	struct io_stats stats;
	struct item *item;
	uint64_t start;

	transfer(f.io, IO_WRITE, f.fd, out, 4096, 0);
	memset(slot, 0, 4096);
	fault_arm("io.read.late", 1, 400);
	item = item_new(IO_READ, f.fd, slot, 4096, 0);
	start = clock_monotonic_ns();
	item->request.deadline_ns = start + 50 * CLOCK_NS_PER_MS;
	submit(f.io, item);
	wait_for(&item->done);
	assert_int_equal(item->res, -ETIMEDOUT);
	assert_in_range(clock_monotonic_ns() - start, 50 * CLOCK_NS_PER_MS,
			350 * CLOCK_NS_PER_MS);
	assert_int_equal(value_of(&item->settled), 0);
	assert_int_equal(value_of(&item->released), 0);
	assert_memory_equal(slot, in, 4096); /* nothing has come yet */
	assert_int_equal(finish(item), -ETIMEDOUT);
	assert_memory_equal(slot, out, 4096); /* it came before `settled` */
	io_get_stats(f.io, &stats);
	assert_int_equal(stats.timeouts, 1);
	free(slot);
	free(in);
	free(out);
	end(&f);
}

static void a_request_that_never_started_settles_at_its_deadline(void **state)
{
	struct fixture f = begin(state, 1);
	char *data = buffer(4096, 9);
	struct item *slow = item_new(IO_READ, f.fd, data, 4096, 0);
	struct item *behind = item_new(IO_READ, f.fd, data, 4096, 0);
	struct item *later = item_new(IO_READ, f.fd, data, 4096, 0);

	transfer(f.io, IO_WRITE, f.fd, data, 4096, 0);
	fault_arm("io.read.late", 1, 300);
	submit(f.io, slow);
	behind->request.deadline_ns =
		clock_monotonic_ns() + 30 * CLOCK_NS_PER_MS;
	submit(f.io, behind);
	submit(f.io, later);
	wait_for(&behind->settled);
	assert_int_equal(value_of(&slow->done), 0);
	assert_int_equal(finish(behind), -ETIMEDOUT);
	assert_int_equal(finish(slow), 4096);
	assert_int_equal(finish(later), 4096);
	free(data);
	end(&f);
}

static void reads_go_before_writes_that_wait(void **state)
{
	struct fixture f = begin(state, 1);
	char *data = buffer(4096, 10);
	struct item *first = item_new(IO_READ, f.fd, data, 4096, 0);
	struct item *write = item_new(IO_WRITE, f.fd, data, 4096, 0);
	struct item *reads[3];

	transfer(f.io, IO_WRITE, f.fd, data, 4096, 0);
	fault_arm("io.read.late", 1, 100);
	submit(f.io, first);
	submit(f.io, write);
	for (int i = 0; i < 3; i++) {
		reads[i] = item_new(IO_READ, f.fd, data, 4096, 0);
		submit(f.io, reads[i]);
	}
	wait_for(&write->settled);
	for (int i = 0; i < 3; i++) {
		wait_for(&reads[i]->settled);
		assert_true(reads[i]->order < write->order);
		finish(reads[i]);
	}
	finish(first);
	finish(write);
	free(data);
	end(&f);
}

static void writes_leave_room_for_a_read(void **state)
{
	enum {
		COUNT = 16
	};
	struct fixture f = begin(state, 8);
	char *data = buffer(4096, 11);
	struct item *writes[COUNT];
	struct item *read = item_new(IO_READ, f.fd, data, 4096, 0);
	uint64_t start = clock_monotonic_ns();

	fault_arm_periodic("io.write.late", 1, 200);
	for (int i = 0; i < COUNT; i++) {
		writes[i] = item_new(IO_WRITE, f.fd, data, 4096, 0);
		submit(f.io, writes[i]);
	}
	submit(f.io, read);
	finish(read);
	assert_true(clock_monotonic_ns() - start < 150 * CLOCK_NS_PER_MS);
	fault_disarm_all();
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(finish(writes[i]), 4096);
	free(data);
	end(&f);
}

static void closing_waits_for_what_was_submitted(void **state)
{
	struct fixture f = begin(state, 2);
	char *data = buffer(10 * 4096, 12);
	struct item *items[10];

	transfer(f.io, IO_WRITE, f.fd, data, 4096, 0);
	fault_arm_periodic("io.read.late", 1, 20);
	for (int i = 0; i < 10; i++) {
		items[i] = item_new(IO_READ, f.fd, data + i * 4096, 4096, 0);
		submit(f.io, items[i]);
	}
	end(&f);
	for (int i = 0; i < 10; i++)
		assert_int_equal(finish(items[i]), 4096);
	free(data);
}

struct chain {
	struct io *io;
	struct item *next;
};

static void submit_next(struct io_request *request, int64_t res)
{
	struct item *item = request->arg;
	struct chain *chain = request->owner;

	submit(chain->io, chain->next);
	on_done(&item->request, res);
}

static void ignore_release(void *owner)
{
	(void)owner;
}

static void a_callback_may_submit_even_while_closing(void **state)
{
	struct fixture f = begin(state, 2);
	char *data = buffer(4096, 13);
	struct item *first = item_new(IO_READ, f.fd, data, 4096, 0);
	struct chain chain = {f.io, item_new(IO_READ, f.fd, data, 4096, 0)};

	transfer(f.io, IO_WRITE, f.fd, data, 4096, 0);
	fault_arm("io.read.late", 1, 50);
	first->request.done = submit_next;
	first->request.owner = &chain;
	first->request.release = ignore_release;
	submit(f.io, first);
	end(&f);
	assert_int_equal(first->settled, 1);
	free(first);
	assert_int_equal(finish(chain.next), -ESHUTDOWN);
	free(data);
}

static long wakeups(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

static void an_idle_ring_does_not_wake_up(void **state)
{
	struct fixture f = begin(state, 2);
	char *data = buffer(4096, 14);
	long before;

	transfer(f.io, IO_WRITE, f.fd, data, 4096, 0);
	usleep(50000);
	before = wakeups();
	usleep(500000);
	/* This thread's own, and what a busy machine adds. */
	assert_true(wakeups() - before < 10);
	free(data);
	end(&f);
}

static void reads_into_registered_memory_bring_the_same_bytes(void **state)
{
	enum {
		LEN = 8 << 20
	};
	struct fixture f = begin(state, 8);
	char *arena = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *out = buffer(1 << 20, 15);
	struct io_range ranges[] = {
		{.start = arena + (4 << 20), .len_bytes = 4 << 20},
		{.start = arena, .len_bytes = 1 << 20}};
	struct io_stats stats;
	int count;

	transfer(f.io, IO_WRITE, f.fd, out, 1 << 20, 0);
	for (int round = 0; round < 3; round++) {
		/* Registered, kept, and then only the second one. */
		ranges[0].kept = ranges[1].kept = round == 1;
		count = io_register(f.io, ranges + (round == 2),
				    round == 2 ? 1 : 2, 0);
		io_get_stats(f.io, &stats);
		if (*(enum io_mode *)*state == IO_AUTO &&
		    strcmp(stats.engine, "io_uring") == 0 && !stats.why)
			assert_int_equal(count, round == 2 ? 1 : 2);
		for (size_t at = 0; at < LEN; at += 1 << 20) {
			memset(arena + at, 0, 1 << 20);
			assert_int_equal(transfer(f.io, IO_READ, f.fd,
						  arena + at, 1 << 20, 0),
					 1 << 20);
			assert_memory_equal(arena + at, out, 1 << 20);
		}
	}
	assert_int_equal(io_register(f.io, NULL, 0, 0), 0);
	munmap(arena, LEN);
	free(out);
	end(&f);
}

static void a_refused_registration_leaves_plain_buffers(void **state)
{
	struct fixture f = begin(state, 8);
	char *data = buffer(1 << 20, 16);
	struct io_range range = {.start = data, .len_bytes = 1 << 20};
	struct io_stats stats;

	fault_arm_periodic("io.ring.register", 1, EINVAL);
	assert_int_equal(io_register(f.io, &range, 1, 0), 0);
	io_get_stats(f.io, &stats);
	assert_false(stats.fixed_buffers);
	assert_int_equal(transfer(f.io, IO_WRITE, f.fd, data, 1 << 20, 0),
			 1 << 20);
	free(data);
	end(&f);
}

static void what_the_kernel_refuses_is_plain_and_the_rest_is_not(void **state)
{
	struct fixture f = begin(state, 8);
	char *data = buffer(8 << 20, 16), *out = buffer(1 << 20, 3);
	struct io_range ranges[3];
	struct io_stats stats;

	for (size_t i = 0; i < 3; i++)
		ranges[i] = (struct io_range){.start = data + (i << 21),
					      .len_bytes = 1 << 21};
	transfer(f.io, IO_WRITE, f.fd, out, 1 << 20, 0);
	fault_arm("io.ring.register", 2, EINVAL);
	assert_int_equal(io_register(f.io, ranges, 3, 0), 2);
	io_get_stats(f.io, &stats);
	assert_true(stats.fixed_buffers);
	assert_non_null(stats.why);
	/* From 1 MiB steps across all three, and beyond. */
	for (size_t at = 0; at < 8u << 20; at += 1 << 19) {
		size_t len = at + (1 << 20) > 8u << 20 ? 1 << 19 : 1 << 20;

		memset(data + at, 0, len);
		assert_int_equal(transfer(f.io, IO_READ, f.fd, data + at,
					  (uint32_t)len, 0),
				 len);
		assert_memory_equal(data + at, out, len);
	}
	free(data);
	free(out);
	end(&f);
}

/* Slots of several files on a kernel that takes one file a buffer. */
static void buffers_over_several_files_become_one_each(void **state)
{
	struct fixture f = begin(state, 8);
	char *data = buffer(8 << 20, 16), *out = buffer(1 << 20, 3);
	struct io_range range = {.start = data,
				 .len_bytes = 8 << 20,
				 .piece_bytes = 1 << 20,
				 .kept = true};
	struct io_stats stats;

	transfer(f.io, IO_WRITE, f.fd, out, 1 << 20, 0);
	fault_arm_periodic("io.ring.several", 1, EINVAL);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(io_register(f.io, &range, 1, 0), 1);
		io_get_stats(f.io, &stats);
		assert_null(stats.why);
		for (size_t at = 0; at < 8u << 20; at += 1 << 20)
			assert_int_equal(transfer(f.io, IO_READ, f.fd,
						  data + at, 1 << 20, 0),
					 1 << 20);
		io_get_stats(f.io, &stats);
		assert_int_equal(8 * (round + 1), stats.reads_fixed);
	}
	fault_disarm_all();
	free(data);
	free(out);
	end(&f);
}

/* The arena maps other memory at the same place: a read must not go to what
 * was there before. */
static void forgotten_memory_is_not_read_into_any_more(void **state)
{
	enum {
		LEN = 2 << 20
	};
	struct fixture f = begin(state, 8);
	char *place = mmap(NULL, 2 * LEN, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *out = buffer(LEN, 9);
	struct io_range ranges[] = {{.start = place, .len_bytes = LEN},
				    {.start = place + LEN, .len_bytes = LEN}};
	uint64_t epoch = io_epoch(f.io);

	transfer(f.io, IO_WRITE, f.fd, out, LEN, 0);
	for (int round = 0; round < 100; round++) {
		io_register(f.io, ranges, 2, epoch);
		io_forget(f.io, place, LEN);
		assert_ptr_equal(place,
				 mmap(place, LEN, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
				      -1, 0));
		for (int i = 0; i < 2; i++) {
			char *at = place + i * LEN;

			memset(at, 0, LEN);
			assert_int_equal(
				LEN, transfer(f.io, IO_READ, f.fd, at, LEN, 0));
			assert_memory_equal(at, out, LEN);
		}
		assert_int_equal(-ESTALE, io_register(f.io, ranges, 2, epoch));
		epoch = io_epoch(f.io);
	}
	munmap(place, 2 * LEN);
	free(out);
	end(&f);
}

static void without_io_uring_threads_take_over(void **state)
{
	static const int errors[] = {ENOSYS, EPERM, ENOMEM, EMFILE};

	for (int i = 0; i < 4; i++) {
		struct io_config config = {.mode = IO_AUTO, .depth = 4};
		struct io_stats stats;
		struct io *io;

		(void)state;
		fault_arm("io.ring.init", 1, errors[i]);
		assert_int_equal(io_open(&config, &io), 0);
		io_get_stats(io, &stats);
		assert_string_equal(stats.engine, "threads");
		assert_non_null(stats.why);
		io_close(io);
		fault_disarm_all();
	}
}

/* The limit does not bind CAP_IPC_LOCK, so a child gives that up. */
static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};

	syscall(SYS_capset, &header, none);
}

static int read_under_small_memlock(const char *path)
{
	struct rlimit limit = {65536, 65536};
	struct io_config config = {.mode = IO_AUTO, .depth = 32};
	char *data = buffer(4 << 20, 17), *in = buffer(4 << 20, 0);
	struct io_range range = {.start = in, .len_bytes = 4 << 20};
	int fd = open(path, O_RDWR | O_DIRECT);
	int count;
	struct io *io;

	setrlimit(RLIMIT_MEMLOCK, &limit);
	drop_capabilities();
	if (io_open(&config, &io) != 0)
		return 1;
	count = io_register(io, &range, 1, 0);
	if (count != 0)
		return 2;
	if (transfer(io, IO_WRITE, fd, data, 4 << 20, 0) != 4 << 20)
		return 3;
	if (transfer(io, IO_READ, fd, in, 4 << 20, 0) != 4 << 20)
		return 4;
	io_close(io);
	return memcmp(in, data, 4 << 20) == 0 ? 0 : 5;
}

static void a_memlock_limit_of_64_kib_leaves_plain_buffers(void **state)
{
	char path[] = "/var/tmp/pagefs-io-XXXXXX";
	int fd = mkstemp(path), status;
	pid_t pid;

	(void)state;
	close(fd);
	pid = fork();
	if (pid == 0)
		_exit(read_under_small_memlock(path));
	waitpid(pid, &status, 0);
	unlink(path);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void whichever_request_fails_the_others_do_not(void **state)
{
	enum {
		COUNT = 12
	};
	struct fixture f = begin(state, 4);
	char *data[COUNT];

	for (int i = 0; i < COUNT; i++) {
		data[i] = buffer(4096, i);
		transfer(f.io, IO_WRITE, f.fd, data[i], 4096,
			 (uint64_t)i * 4096);
	}
	for (uint64_t nth = 1; nth <= COUNT + 1; nth++) {
		struct item *items[COUNT];
		int failed = 0;

		fault_arm("io.read", nth, EIO);
		for (int i = 0; i < COUNT; i++) {
			items[i] = item_new(IO_READ, f.fd, data[i], 4096,
					    (uint64_t)i * 4096);
			submit(f.io, items[i]);
		}
		for (int i = 0; i < COUNT; i++)
			failed += finish(items[i]) == -EIO;
		assert_int_equal(failed, nth <= COUNT);
		fault_disarm_all();
	}
	for (int i = 0; i < COUNT; i++)
		free(data[i]);
	end(&f);
}

#define ON(engine, test)                                                       \
	{                                                                      \
#test "[" #engine "]", test, NULL, NULL, &engine               \
	}
#define ON_BOTH(test) ON(RING, test), ON(THREADS, test)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(what_is_written_can_be_read_back_in_all_sizes),
		ON_BOTH(a_vector_goes_out_as_one_write_and_survives_short_ones),
		ON_BOTH(a_short_read_is_taken_up_again),
		ON_BOTH(a_read_past_the_end_of_the_file_is_short),
		ON_BOTH(a_request_refused_for_a_moment_is_tried_again),
		ON_BOTH(an_error_is_told_as_it_is),
		ON_BOTH(each_of_many_reads_is_answered_with_its_own_bytes),
		ON_BOTH(many_threads_may_submit_at_once),
		ON_BOTH(past_its_deadline_a_read_is_answered_but_settles_later),
		ON_BOTH(a_request_that_never_started_settles_at_its_deadline),
		ON_BOTH(reads_go_before_writes_that_wait),
		ON_BOTH(writes_leave_room_for_a_read),
		ON_BOTH(closing_waits_for_what_was_submitted),
		ON_BOTH(a_callback_may_submit_even_while_closing),
		ON_BOTH(an_idle_ring_does_not_wake_up),
		ON_BOTH(reads_into_registered_memory_bring_the_same_bytes),
		ON_BOTH(a_refused_registration_leaves_plain_buffers),
		ON_BOTH(whichever_request_fails_the_others_do_not),
		ON(RING, what_the_kernel_refuses_is_plain_and_the_rest_is_not),
		ON(RING, buffers_over_several_files_become_one_each),
		ON(RING, forgotten_memory_is_not_read_into_any_more),
		cmocka_unit_test(without_io_uring_threads_take_over),
		cmocka_unit_test(
			a_memlock_limit_of_64_kib_leaves_plain_buffers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
