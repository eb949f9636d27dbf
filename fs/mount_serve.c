/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "fs/control.h"
#include "fs/fs.h"
#include "fs/guard.h"
#include "fs/loop.h"
#include "fs/mount.h"
#include "fs/mount_control.h"
#include "fs/process.h"
#include "fs/wire.h"
#include "store/store.h"
#include "tools/lib/clock.h"
#include "tools/lib/log.h"

#define READ_AHEAD_KIB 1024u
#define TICK_MS 500
/* After SIGTERM, requests that are under way may end; whoever keeps files
 * open longer loses them. */
#define GRACE_MS 1000

/* One daemon: owned by mount_serve().  The ticker thread ("pagefs-tick")
 * does what comes with time, and takes the signals. */
struct serve {
	const struct mount_plan *plan;
	struct fs fs;
	struct mount_control control;
	char memory_dir[PATH_MAX];
	bool memory_new; /* there was no arena before */
	int pipe;	 /* to the parent; -1 once it has been answered */
	pthread_t ticker;
	bool ticking;
	_Atomic bool ready; /* INIT has come */
	_Atomic bool ended; /* the loop has */
	bool stopped;	    /* by a signal; the ticker's until it is joined */
	char reason[MOUNT_REASON_BYTES];
};

static int fail(struct serve *serve, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int fail(struct serve *serve, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(serve->reason, sizeof(serve->reason), format, arguments);
	va_end(arguments);
	return error;
}

/* ---- the ticker ---- */

static void stop_signals(sigset_t *ret)
{
	sigemptyset(ret);
	sigaddset(ret, SIGTERM);
	sigaddset(ret, SIGINT);
	sigaddset(ret, SIGHUP);
}

/* New look-ups don't reach us any more; then the loop ends by itself, unless
 * files are open. */
static void stop(struct serve *serve)
{
	int error;

	log_info("%s: stopping", serve->plan->mount_point);
	cache_shutdown_begin(serve->fs.cache);
	error = mount_point_detach(serve->plan->mount_point);
	if (error)
		log_warning("%s: cannot unmount: %s", serve->plan->mount_point,
			    strerror(-error));
}

static void *ticker_main(void *arg)
{
	struct serve *serve = arg;
	struct timespec pause = {.tv_nsec = TICK_MS * 1000000L};
	uint64_t kill_ns = UINT64_MAX;
	bool tuned = false;
	sigset_t signals;

	pthread_setname_np(pthread_self(), "pagefs-tick");
	stop_signals(&signals);
	while (!serve->ended) {
		int got = sigtimedwait(&signals, NULL, &pause);

		if (serve->ended)
			break;
		if (got > 0 && !serve->stopped) {
			serve->stopped = true;
			stop(serve);
			kill_ns = clock_monotonic_ns() +
				  GRACE_MS * CLOCK_NS_PER_MS;
		} else if (got > 0) {
			kill_ns = 0; /* asked twice */
		}
		if (clock_monotonic_ns() >= kill_ns)
			loop_stop();
		fs_tick(&serve->fs);
		if (serve->ready && !tuned && serve->pipe < 0) {
			mount_point_read_ahead(serve->plan->mount_point,
					       READ_AHEAD_KIB);
			tuned = true;
		}
	}
	return NULL;
}

/* ---- INIT has been answered (all but) ---- */

static void on_ready(void *arg)
{
	struct serve *serve = arg;

	log_info("%s: serving, version " PAGEFS_VERSION,
		 serve->plan->mount_point);
	mount_daemon_ready(serve->pipe, NULL);
	serve->pipe = -1;
	serve->ready = true;
}

/* ---- opening ---- */

static int place_memory(struct serve *serve, uint64_t bytes, uint64_t *ret_room)
{
	serve->plan->values->memory_bytes = bytes;
	return arena_place(serve->plan->instance, bytes, serve->memory_dir,
			   sizeof(serve->memory_dir), ret_room);
}

/* Nobody asked for a size, and the usual one does not fit: half of the room,
 * as a power of two, so that the next start comes to the same; or what the
 * last start came to, for what it left is in there. */
static int place_what_fits(struct serve *serve, uint64_t *ret_room)
{
	uint64_t usual = serve->plan->values->memory_bytes;
	uint64_t bytes = MOUNT_MEMORY_MIN;
	char want[SIZE_TEXT_MAX], have[SIZE_TEXT_MAX];
	struct arena_found found;
	int error;

	while (2 * bytes <= *ret_room / 2)
		bytes *= 2;
	error = place_memory(serve, bytes, ret_room);
	if (!error && arena_look(serve->memory_dir, &found) == ARENA_KEPT &&
	    found.bytes >= MOUNT_MEMORY_MIN && found.bytes <= *ret_room) {
		bytes = found.bytes;
		error = place_memory(serve, bytes, ret_room);
	}
	if (!error)
		log_info("memory tier: %s, because a tenth of RAM (%s) does "
			 "not fit into shared memory; --memory sets it",
			 size_format_rounded(bytes, have, sizeof(have)),
			 size_format_rounded(usual, want, sizeof(want)));
	return error;
}

static int fail_memory(struct serve *serve, int error, uint64_t room)
{
	const struct mount_plan *plan = serve->plan;
	char need[SIZE_TEXT_MAX], have[SIZE_TEXT_MAX];
	struct arena_found found = {0};

	if (error == -EBUSY) {
		arena_look(serve->memory_dir, &found);
		return fail(serve, error,
			    "%s is in use by another pagefs, pid %ld; unmount "
			    "that one, or give this one a directory of its "
			    "own (--disk)",
			    plan->disk_dir[0] ? plan->disk_dir
					      : plan->mount_point,
			    (long)found.pid);
	}
	if (error != -ENOSPC)
		return fail(serve, error,
			    "cannot make a directory for the memory tier: %s",
			    strerror(-error));
	return fail(serve, error,
		    "the memory tier of %s does not fit: there is room for "
		    "%s; choose a smaller --memory, or make room in shared "
		    "memory",
		    size_format_rounded(plan->values->memory_bytes, need,
					sizeof(need)),
		    size_format_rounded(room, have, sizeof(have)));
}

static int open_memory(struct serve *serve)
{
	const struct mount_plan *plan = serve->plan;
	struct arena_found found;
	uint64_t room = 0;
	int error = place_memory(serve, plan->values->memory_bytes, &room);

	if (error == -ENOSPC &&
	    options_source(plan->options, "memory") == OPTIONS_DEFAULT)
		error = place_what_fits(serve, &room);
	if (error)
		return fail_memory(serve, error, room);
	serve->memory_new =
		arena_look(serve->memory_dir, &found) == ARENA_FRESH;
	return 0;
}

static int open_cache(struct serve *serve)
{
	struct cache_config config;
	char reason[512] = "";
	int error;

	cache_config_defaults(&config);
	mount_control_config(serve->plan, &config);
	config.memory_dir = serve->memory_dir;
	config.changed = fs_changed;
	config.changed_arg = &serve->fs;
	error = cache_open(&config, &serve->fs.cache, reason);
	if (error)
		return fail(serve, error, "%s",
			    *reason ? reason : strerror(-error));
	return 0;
}

static void tell_entry(void *arg, uint64_t parent, const char *name, size_t len)
{
	struct fs *fs = arg;

	(void)fuse_lowlevel_notify_inval_entry(fs->session, parent, name, len);
}

static void tell_directory(void *arg, uint64_t node)
{
	struct fs *fs = arg;

	/* First, so that a listing begun meanwhile counts as kept. */
	node_listing_drop(fs->nodes, node);
	(void)fuse_lowlevel_notify_inval_inode(fs->session, node, 0, 0);
}

static int open_parts(struct serve *serve)
{
	struct fs *fs = &serve->fs;
	const struct inval_ops ops = {tell_entry, tell_directory, fs};
	const struct control_wiring wiring =
		mount_control_wiring(&serve->control);
	int error = nodes_new(&fs->nodes);

	pthread_mutex_init(&fs->handles_lock, NULL);
	list_init(&fs->handles);
	if (!error)
		error = inval_new(fs->nodes, &ops, &fs->inval);
	if (!error)
		error = reserves_new(&fs->reserves);
	if (!error)
		error = control_new(&wiring, &fs->control);
	if (error)
		return fail(serve, error, "cannot start: %s", strerror(-error));
	return 0;
}

static void settings_of(const struct mount_options *values,
			struct fs_settings *ret)
{
	*ret = (struct fs_settings){
		.has_uid = values->uid >= 0,
		.uid = (uid_t)values->uid,
		.has_gid = values->gid >= 0,
		.gid = (gid_t)values->gid,
		.has_umask = values->has_umask,
		.umask = values->umask,
		.owner = geteuid(),
		.owner_group = getegid(),
	};
}

static int new_session(struct serve *serve)
{
	const struct mount_options *values = serve->plan->values;
	char list[256];
	char program[] = "pagefs", option[] = "-o";
	char *argv[] = {program, option, list, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);

	snprintf(list, sizeof(list),
		 "fsname=pagefs,subtype=pagefs,default_permissions%s%s%s",
		 values->ro ? ",ro" : "",
		 values->allow_other ? ",allow_other" : "",
		 values->allow_root ? ",allow_root" : "");
	serve->fs.session = fuse_session_new(&args, &fs_operations,
					     sizeof(fs_operations), &serve->fs);
	fuse_opt_free_args(&args);
	if (!serve->fs.session)
		return fail(serve, -EINVAL, "libfuse takes no session");
	return 0;
}

static int mount_session(struct serve *serve)
{
	const char *path = serve->plan->mount_point;
	int error;

	if (access("/dev/fuse", F_OK) != 0)
		return fail(serve, -ENODEV,
			    "there is no /dev/fuse: load the module (modprobe "
			    "fuse); a container needs --device /dev/fuse");
	if (access("/dev/fuse", R_OK | W_OK) != 0)
		return fail(serve, -EACCES,
			    "/dev/fuse is not open to this user: as root, "
			    "chmod 666 /dev/fuse (udev usually does)");
	if (fuse_session_mount(serve->fs.session, path) != 0)
		return fail(serve, -EPERM, "cannot mount on %s: %s", path,
			    geteuid() == 0
				    ? "the kernel refuses (in a container: "
				      "--cap-add SYS_ADMIN)"
				    : "is fusermount3 installed (package "
				      "fuse3), and setuid root? Does "
				      "/etc/fuse.conf permit it?");
	error = wire_attach(serve->fs.session);
	if (error)
		return fail(serve, error, "libfuse: %s", strerror(-error));
	return 0;
}

/* The order is that of taking apart, backwards. */
static int open_all(struct serve *serve)
{
	int error = open_parts(serve);

	if (!error)
		error = new_session(serve);
	if (!error)
		error = open_memory(serve);
	if (!error)
		error = open_cache(serve);
	if (!error)
		error = mount_session(serve);
	if (!error) {
		error = -pthread_create(&serve->ticker, NULL, ticker_main,
					serve);
		serve->ticking = !error;
		if (error)
			fail(serve, error, "cannot start a thread: %s",
			     strerror(-error));
	}
	return error;
}

/* A tier that holds nothing of its own is not left lying about: one that
 * nobody ever used, or could write to.  (A mount that is read-only can't be
 * told what to do with it.) */
static bool keeps_memory(const struct serve *serve)
{
	return serve->control.keep_memory &&
	       (!serve->memory_new ||
		(serve->ready && !serve->plan->values->ro));
}

static void close_all(struct serve *serve)
{
	struct fs *fs = &serve->fs;
	bool keep = keeps_memory(serve);

	serve->ended = true;
	if (serve->ticking) {
		/* It may sleep, and whoever unmounts waits for us. */
		pthread_kill(serve->ticker, SIGTERM);
		pthread_join(serve->ticker, NULL);
	}
	if (fs->cache) {
		cache_shutdown_begin(fs->cache);
		fs_end(fs);
		cache_close(fs->cache, keep);
		if (!keep)
			(void)arena_unplace(serve->memory_dir);
	} else if (serve->memory_new) {
		(void)arena_unplace(serve->memory_dir);
	}
	reserves_free(fs->reserves); /* where fs_end() was not reached */
	inval_free(fs->inval);
	nodes_free(fs->nodes);
	control_free(fs->control);
	if (fs->session) {
		fuse_session_unmount(fs->session);
		fuse_session_destroy(fs->session);
	}
}

static void raise_open_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
		log_warning("cannot raise the limit on open files to %llu: %s",
			    (unsigned long long)limit.rlim_max,
			    strerror(errno));
}

static void prepare_process(void)
{
	sigset_t signals;

	raise_open_files();
	/* All threads inherit this: only the ticker takes them. */
	stop_signals(&signals);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	umask(0);
	if (!process_visible())
		log_warning("/proc does not show processes: what a writer that "
			    "is killed leaves can't be told from a page");
}

int mount_serve(const struct mount_plan *plan, int pipe)
{
	struct serve *serve = calloc(1, sizeof(*serve));
	pid_t guard;
	int error;

	if (!serve) {
		mount_daemon_ready(pipe, "out of memory");
		return 1;
	}
	prepare_process();
	serve->plan = plan;
	serve->pipe = pipe;
	serve->fs.ready = on_ready;
	serve->fs.ready_arg = serve;
	settings_of(plan->values, &serve->fs.settings);
	mount_control_init(&serve->control, plan, &serve->fs);

	guard = guard_start(plan->mount_point);
	error = open_all(serve);
	if (!error) {
		error = loop_run(serve->fs.session);
		if (error)
			fail(serve, error, "cannot start a thread: %s",
			     strerror(-error));
	}
	if (error)
		mount_daemon_ready(serve->pipe, serve->reason);
	close_all(serve);
	guard_end(guard);
	if (!error)
		log_info("%s: ended; the memory tier is %s", plan->mount_point,
			 keeps_memory(serve) ? "kept" : "freed");
	free(serve);
	return error ? 1 : 0;
}
