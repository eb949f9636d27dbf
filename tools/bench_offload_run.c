/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_offload_run.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/bench_client.h"
#include "tools/lib/checksum.h"
#include "tools/lib/clock.h"

struct request {
	unsigned client;
	unsigned round;
	uint64_t arrival_ns; /* after the start */
};

struct run {
	const struct offload_plan *plan;
	struct request *requests; /* in the order of arrival */
	size_t count;
	uint64_t start_ns;

	pthread_mutex_t lock;
	pthread_cond_t ended;
	size_t next;		/* guarded by lock, as all below */
	unsigned *rounds_done;	/* a client */
	unsigned *clients_done; /* a round */
};

struct worker {
	pthread_t thread;
	struct run *run;
	struct client client;
	struct offload_result result;
};

/* splitmix64 (Steele, Lea, Flood 2014): small, and the same everywhere. */
static uint64_t random_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9E3779B97F4A7C15u);

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

static void shuffle(struct request *requests, size_t count, uint64_t *state)
{
	for (size_t i = count; i > 1; i--) {
		size_t j = random_next(state) % i;
		struct request swap = requests[i - 1];

		requests[i - 1] = requests[j];
		requests[j] = swap;
	}
}

static void plan_requests(struct run *run)
{
	const struct offload_plan *plan = run->plan;
	uint64_t state = plan->seed;
	double at_s = 0;

	for (size_t i = 0; i < run->count; i++) {
		run->requests[i].round = (unsigned)(i / plan->clients);
		run->requests[i].client = (unsigned)(i % plan->clients);
	}
	for (unsigned round = 0; round < plan->rounds; round++)
		shuffle(run->requests + (size_t)round * plan->clients,
			plan->clients, &state);
	for (size_t i = 0; plan->request_rate > 0 && i < run->count; i++) {
		double uniform = (double)(random_next(&state) >> 11) * 0x1p-53;

		at_s += -log(1 - uniform) / plan->request_rate;
		run->requests[i].arrival_ns = (uint64_t)(at_s * 1e9);
	}
}

/* As HiCache names a page: 64 hex digits, model, rank and size; K and V. */
static void page_name(const struct request *request, unsigned round,
		      unsigned index, char *ret, size_t room)
{
	char key[64];
	uint64_t id[4];

	snprintf(key, sizeof(key), "client %u round %u page %u",
		 request->client, round, index / 2);
	checksum_key(key, strlen(key), id);
	checksum_key(id, 16, id + 2);
	snprintf(ret, room,
		 "%016llx%016llx%016llx%016llx_%s_Qwen-Qwen3-1.7B_0_1.bin",
		 (unsigned long long)id[0], (unsigned long long)id[1],
		 (unsigned long long)id[2], (unsigned long long)id[3],
		 index % 2 ? "v" : "k");
}

static void count_error(struct offload_result *result, int error)
{
	result->errors++;
	if (!result->first_error)
		result->first_error = error;
}

static void count_get(struct offload_result *result, int outcome, uint64_t ns)
{
	if (outcome == 0) {
		result->hits++;
		samples_add(&result->get, ns);
	} else if (outcome == CLIENT_MISS) {
		result->misses++;
	} else if (outcome == CLIENT_WRONG) {
		result->wrong++;
	} else {
		count_error(result, outcome);
	}
}

static void count_put(struct offload_result *result, int outcome, uint64_t ns)
{
	if (outcome == 0) {
		result->keys++;
		samples_add(&result->put, ns);
	} else {
		count_error(result, outcome);
	}
}

static void serve(struct worker *worker, const struct request *request)
{
	char name[192];
	uint64_t ns, start = clock_monotonic_ns();

	for (unsigned round = 0; round < request->round; round++)
		for (unsigned i = 0; i < OFFLOAD_KEYS_PER_REQUEST; i++) {
			page_name(request, round, i, name, sizeof(name));
			int outcome = client_get(&worker->client, name, &ns);

			count_get(&worker->result, outcome, ns);
		}
	for (unsigned i = 0; i < OFFLOAD_KEYS_PER_REQUEST; i++) {
		page_name(request, request->round, i, name, sizeof(name));
		int outcome = client_put(&worker->client, name, &ns);

		count_put(&worker->result, outcome, ns);
	}
	samples_add(&worker->result.request, clock_monotonic_ns() - start);
}

/* A client waits for its own answer before it asks more. */
static bool may_start(const struct run *run, const struct request *request)
{
	if (run->rounds_done[request->client] < request->round)
		return false;
	return !run->plan->round_barrier || request->round == 0 ||
	       run->clients_done[request->round - 1] == run->plan->clients;
}

static const struct request *take(struct run *run)
{
	const struct request *request = NULL;

	pthread_mutex_lock(&run->lock);
	if (run->next < run->count) {
		request = &run->requests[run->next++];
		while (!may_start(run, request))
			pthread_cond_wait(&run->ended, &run->lock);
	}
	pthread_mutex_unlock(&run->lock);
	return request;
}

static void finish(struct run *run, const struct request *request)
{
	unsigned done;

	pthread_mutex_lock(&run->lock);
	run->rounds_done[request->client]++;
	done = ++run->clients_done[request->round];
	pthread_cond_broadcast(&run->ended);
	pthread_mutex_unlock(&run->lock);
	if (run->plan->progress && done == run->plan->clients)
		fprintf(stderr, "  round %u of %u\n", request->round + 1,
			run->plan->rounds);
}

static void sleep_until(uint64_t at_ns)
{
	struct timespec at = clock_to_timespec(at_ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) ==
	       EINTR)
		;
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	const struct request *request;

	while ((request = take(worker->run))) {
		sleep_until(worker->run->start_ns + request->arrival_ns);
		serve(worker, request);
		finish(worker->run, request);
	}
	return NULL;
}

static void merge(struct offload_result *into, struct offload_result *part)
{
	into->keys += part->keys;
	into->hits += part->hits;
	into->misses += part->misses;
	into->wrong += part->wrong;
	into->errors += part->errors;
	if (!into->first_error)
		into->first_error = part->first_error;
	samples_merge(&into->get, &part->get);
	samples_merge(&into->put, &part->put);
	samples_merge(&into->request, &part->request);
	offload_result_release(part);
}

static int run_workers(struct run *run, struct worker *workers,
		       struct offload_result *ret)
{
	const struct offload_plan *plan = run->plan;
	unsigned started = 0;
	int error = 0;

	for (; !error && started < plan->max_parallel; started++) {
		struct worker *worker = &workers[started];

		worker->run = run;
		error = client_init(&worker->client, plan->directory,
				    plan->page_bytes, plan->seed);
		if (!error)
			error = -pthread_create(&worker->thread, NULL, work,
						worker);
		if (error) {
			client_release(&worker->client);
			break;
		}
	}
	for (unsigned i = 0; i < started; i++) {
		pthread_join(workers[i].thread, NULL);
		merge(ret, &workers[i].result);
		client_release(&workers[i].client);
	}
	return error;
}

int offload_run(const struct offload_plan *plan, struct offload_result *ret)
{
	struct run run = {.plan = plan,
			  .count = (size_t)plan->clients * plan->rounds};
	struct worker *workers = calloc(plan->max_parallel, sizeof(*workers));
	int error = -ENOMEM;

	*ret = (struct offload_result){0};
	run.requests = calloc(run.count, sizeof(*run.requests));
	run.rounds_done = calloc(plan->clients, sizeof(unsigned));
	run.clients_done = calloc(plan->rounds, sizeof(unsigned));
	if (workers && run.requests && run.rounds_done && run.clients_done) {
		pthread_mutex_init(&run.lock, NULL);
		pthread_cond_init(&run.ended, NULL);
		plan_requests(&run);
		run.start_ns = clock_monotonic_ns();
		error = run_workers(&run, workers, ret);
		pthread_cond_destroy(&run.ended);
		pthread_mutex_destroy(&run.lock);
	}
	free(run.clients_done);
	free(run.rounds_done);
	free(run.requests);
	free(workers);
	return error;
}

void offload_result_release(struct offload_result *result)
{
	samples_release(&result->get);
	samples_release(&result->put);
	samples_release(&result->request);
}
