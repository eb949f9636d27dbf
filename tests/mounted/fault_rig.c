/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/mounted/fault_rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS_MAX 48

/* For the watchdog, which can't ask. */
static volatile pid_t daemon_pid;

/* ---- namespaces ---- */

static bool mounts_apart(void)
{
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("proc", "/proc", "proc", 0, NULL) == 0 &&
	       mount("rig", "/run", "tmpfs", 0, "mode=0755,size=1g") == 0 &&
	       mount("rig", "/dev/shm", "tmpfs", 0, "mode=1777,size=512m") == 0;
}

/* A /dev/fuse that everybody may open, as distributions have it. */
static bool fuse_for_all(void)
{
	return mknod("/run/fuse", S_IFCHR | 0666, makedev(10, 229)) == 0 &&
	       chmod("/run/fuse", 0666) == 0 &&
	       mount("/run/fuse", "/dev/fuse", NULL, MS_BIND, NULL) == 0;
}

/* The tests, which are root, look into what a user has mounted. */
static bool others_allowed(void)
{
	int fd = open("/run/fuse.conf", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	bool written = fd >= 0 && write(fd, "user_allow_other\n", 17) == 17;

	if (fd >= 0)
		close(fd);
	return written && mount("/run/fuse.conf", "/etc/fuse.conf", NULL,
				MS_BIND, NULL) == 0;
}

/* Process 1 of its namespace: whatever it leaves behind ends with it. */
static int run_apart(int (*tests)(void))
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!mounts_apart() || !fuse_for_all() || !others_allowed()) {
		printf("no namespaces here: %s\n", strerror(errno));
		return 77;
	}
	return tests();
}

int rig_main(int (*tests)(void))
{
	pid_t child;
	int status;

	cmocka_set_test_filter(getenv("PAGEFS_TEST_FILTER"));
	if (!getenv("PAGEFS_BIN") || access("/dev/fuse", F_OK)) {
		puts("needs PAGEFS_BIN and /dev/fuse");
		return 77;
	}
	if (geteuid() != 0)
		return tests();
	if (unshare(CLONE_NEWNS | CLONE_NEWPID) != 0) {
		printf("no namespaces here: %s\n", strerror(errno));
		return 77;
	}
	child = fork();
	if (child == 0)
		exit(run_apart(tests));
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

void rig_needs_root(void)
{
	if (geteuid() != 0)
		skip();
}

/* ---- life ---- */

static void on_alarm(int number)
{
	static const char text[] = "the watchdog kills the daemon\n";

	(void)number;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) > 0 && daemon_pid > 0)
		kill(daemon_pid, SIGKILL);
	/* What does not come back to life by that never will. */
	signal(SIGALRM, SIG_DFL);
	alarm(10);
}

int rig_setup(void **state)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	if (!rig)
		return -1;
	strcpy(rig->dir, "/tmp/pagefs-faults-XXXXXX");
	if (!mkdtemp(rig->dir))
		return -1;
	chmod(rig->dir, 0755);
	snprintf(rig->mount, sizeof(rig->mount), "%s/mount", rig->dir);
	snprintf(rig->disk, sizeof(rig->disk), "%s/disk", rig->dir);
	snprintf(rig->log, sizeof(rig->log), "%s/log", rig->dir);
	if (mkdir(rig->mount, 0755) != 0)
		return -1;
	*state = rig;
	signal(SIGALRM, on_alarm);
	alarm(RIG_WATCHDOG_SECONDS);
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	return remove(path);
}

/* Those of daemons that were killed, too, are in memory. */
static void free_memory_tiers(void)
{
	DIR *dir = opendir("/run/pagefs");
	struct dirent *entry;
	char path[320];

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/run/pagefs/%s", entry->d_name);
		if (entry->d_name[0] != '.')
			umount2(path, MNT_DETACH);
	}
	if (dir)
		closedir(dir);
}

int rig_teardown(void **state)
{
	struct rig *rig = *state;

	/* After a test that failed the daemon may be anything. */
	rig_kill(rig);
	while (umount2(rig->mount, MNT_DETACH) == 0)
		;
	if (geteuid() == 0)
		free_memory_tiers();
	else
		rig_run(rig, "umount %s", rig->mount);
	nftw(rig->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	free(rig);
	alarm(0);
	return 0;
}

/* ---- the program ---- */

static void become_nobody(void)
{
	if (setgroups(0, NULL) || setresgid(RIG_NOBODY, RIG_NOBODY, RIG_NOBODY))
		_exit(99);
	if (setresuid(RIG_NOBODY, RIG_NOBODY, RIG_NOBODY))
		_exit(99);
}

static void run_child(struct rig *rig, char **argv, int out)
{
	char home[128], run[128];

	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	snprintf(home, sizeof(home), "%s/home", rig->dir);
	setenv("HOME", home, 1);
	/* What root's memory tiers leave goes with the namespace. */
	snprintf(run, sizeof(run), "%s/run", rig->dir);
	mkdir(run, 0700);
	setenv("XDG_RUNTIME_DIR", run, 1);
	if (geteuid() == 0)
		unsetenv("XDG_RUNTIME_DIR");
	unsetenv("XDG_DATA_HOME");
	unsetenv("JOURNAL_STREAM");
	if (rig->faults)
		setenv("PAGEFS_FAULTS", rig->faults, 1);
	if (rig->before_exec)
		rig->before_exec();
	if (rig->as_user)
		become_nobody();
	execv(argv[0], argv);
	_exit(98);
}

/* Runs it with its output in the file; the exit code. */
static int run_into(struct rig *rig, char *line, const char *file)
{
	char *argv[WORDS_MAX] = {getenv("PAGEFS_BIN")}, *rest;
	int argc = 1, status = 0, out;
	pid_t child;

	for (char *word = strtok_r(line, " ", &rest);
	     word && argc < WORDS_MAX - 1; word = strtok_r(NULL, " ", &rest))
		argv[argc++] = word;
	out = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC,
		   0666);
	assert_true(out >= 0);
	fflush(NULL);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		run_child(rig, argv, out);
	close(out);
	while (waitpid(child, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static const char *slurp(const char *file, char *to)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n;

	assert_true(fd >= 0);
	while (len < RIG_OUTPUT_BYTES - 1 &&
	       (n = read(fd, to + len, RIG_OUTPUT_BYTES - 1 - len)) > 0)
		len += (size_t)n;
	to[len] = '\0';
	close(fd);
	return to;
}

int rig_run(struct rig *rig, const char *words, ...)
{
	char line[1024], file[128];
	va_list arguments;
	int code;

	va_start(arguments, words);
	vsnprintf(line, sizeof(line), words, arguments);
	va_end(arguments);
	snprintf(file, sizeof(file), "%s/out", rig->dir);
	code = run_into(rig, line, file);
	slurp(file, rig->out);
	return code;
}

__attribute__((format(printf, 2, 0))) static int
mount_with(struct rig *rig, const char *more, va_list arguments)
{
	char options[512], line[1024];
	const char *usual = strstr(more, "--memory") ? "" : "--memory 64M ";
	int code;

	vsnprintf(options, sizeof(options), more, arguments);
	/* An option that is given twice counts the second time. */
	snprintf(line, sizeof(line), "mount --disk %s %s%s%s %s", rig->disk,
		 usual, options, rig->as_user ? " -o allow_other" : "",
		 rig->mount);
	code = run_into(rig, line, rig->log);
	if (code == 0) {
		rig->daemon = (pid_t)rig_stat(rig, "pid");
		daemon_pid = rig->daemon;
	}
	return code;
}

int rig_mount(struct rig *rig, const char *more, ...)
{
	va_list arguments;
	int code;

	va_start(arguments, more);
	code = mount_with(rig, more, arguments);
	va_end(arguments);
	return code;
}

void rig_serve(struct rig *rig, const char *more, ...)
{
	va_list arguments;
	int code;

	va_start(arguments, more);
	code = mount_with(rig, more, arguments);
	va_end(arguments);
	if (code != 0)
		fail_msg("mount: exit code %d: %s", code, rig_log(rig));
}

void rig_umount(struct rig *rig)
{
	int code = rig_run(rig, "umount %s", rig->mount);

	if (code != 0)
		fail_msg("umount: exit code %d: %s", code, rig->out);
	rig->daemon = daemon_pid = 0;
}

void rig_kill(struct rig *rig)
{
	struct timespec pause = {.tv_nsec = 2000000};

	if (rig->daemon <= 0)
		return;
	kill(rig->daemon, SIGKILL);
	/* As process 1 of its namespace the test is its parent by now. */
	while (kill(rig->daemon, 0) == 0) {
		waitpid(rig->daemon, NULL, WNOHANG);
		nanosleep(&pause, NULL);
	}
	rig->daemon = daemon_pid = 0;
}

/* ---- what it says ---- */

const char *rig_log(struct rig *rig)
{
	return slurp(rig->log, rig->out);
}

unsigned rig_log_count(struct rig *rig, const char *text)
{
	unsigned count = 0;

	for (const char *at = rig_log(rig); (at = strstr(at, text)); at++)
		count++;
	return count;
}

void rig_said(struct rig *rig, const char *text)
{
	if (!strstr(rig_log(rig), text))
		fail_msg("\"%s\" is not in:\n%s", text, rig->out);
}

void rig_await_said(struct rig *rig, const char *text)
{
	struct timespec pause = {.tv_nsec = 20000000};

	for (int i = 0; i < 250 && !strstr(rig_log(rig), text); i++)
		nanosleep(&pause, NULL);
	rig_said(rig, text);
}

double rig_stat(struct rig *rig, const char *name)
{
	static char text[RIG_OUTPUT_BYTES];
	char path[160];
	size_t len = strlen(name);
	FILE *file;
	double value = -1;

	snprintf(path, sizeof(path), "%s/.pagefs/stats", rig->mount);
	file = fopen(path, "re");
	while (file && fgets(text, sizeof(text), file)) {
		if (strncmp(text, name, len) == 0 && text[len] == ' ')
			value = strtod(text + len, NULL);
	}
	if (file)
		fclose(file);
	return value;
}

static void await(struct rig *rig, const char *name, double low, double high)
{
	struct timespec pause = {.tv_nsec = 10000000};
	double value = 0;

	for (int i = 0; i < 500; i++) {
		value = rig_stat(rig, name);
		if (value >= low && value <= high)
			return;
		nanosleep(&pause, NULL);
	}
	fail_msg("%s is %g, not in %g to %g", name, value, low, high);
}

void rig_await(struct rig *rig, const char *name, double at_least)
{
	await(rig, name, at_least, 1e300);
}

void rig_await_zero(struct rig *rig, const char *name)
{
	await(rig, name, 0, 0);
}

/* ---- pages ---- */

static unsigned char *make_bytes(unsigned seed, size_t len)
{
	uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
	unsigned char *bytes = malloc(len + 8);

	assert_non_null(bytes);
	for (size_t i = 0; i < len; i += 8) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		memcpy(bytes + i, &state, 8);
	}
	return bytes;
}

int rig_put(struct rig *rig, const char *name, unsigned seed, size_t len)
{
	unsigned char *bytes = make_bytes(seed, len);
	char path[PATH_MAX];
	int fd, error = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", rig->mount, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		error = -errno;
	for (size_t at = 0; !error && at < len; at += (size_t)n) {
		n = write(fd, bytes + at, len - at);
		if (n < 0) {
			error = -errno;
			n = 0;
		}
	}
	if (fd >= 0 && close(fd) != 0 && !error)
		error = -errno;
	free(bytes);
	return error;
}

static bool bytes_are(const unsigned char *have, unsigned seed, size_t len)
{
	unsigned char *want = make_bytes(seed, len);
	bool same = memcmp(have, want, len) == 0;

	free(want);
	return same;
}

int rig_get_one_of(struct rig *rig, const char *name, const unsigned *seeds,
		   unsigned count, size_t len)
{
	char path[PATH_MAX];
	unsigned char *have;
	size_t got = 0;
	ssize_t n = 0;
	bool right = false;
	int fd, error;

	snprintf(path, sizeof(path), "%s/%s", rig->mount, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	have = malloc(len + 1);
	assert_non_null(have);
	while (got < len + 1 && (n = read(fd, have + got, len + 1 - got)) > 0)
		got += (size_t)n;
	error = n < 0 ? -errno : 0;
	close(fd);
	for (unsigned i = 0; i < count && got == len && !right; i++)
		right = bytes_are(have, seeds[i], len);
	free(have);
	if (!error && !right)
		fail_msg("%s: %zu of %zu bytes, or wrong ones", name, got, len);
	return error;
}

int rig_get(struct rig *rig, const char *name, unsigned seed, size_t len)
{
	return rig_get_one_of(rig, name, &seed, 1, len);
}

int rig_stat_page(struct rig *rig, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", rig->mount, name);
	return stat(path, &st) ? -errno : 0;
}

bool rig_listed(struct rig *rig, const char *name)
{
	DIR *dir = opendir(rig->mount);
	struct dirent *entry;
	bool listed = false;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		listed |= strcmp(entry->d_name, name) == 0;
	closedir(dir);
	return listed;
}

const char *rig_name(char name[32], unsigned n)
{
	snprintf(name, 32, "page-%u", n);
	return name;
}

/* ---- damage ---- */

void rig_damage(const char *path, off_t offset, size_t len)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	unsigned char *bytes = malloc(len);

	assert_true(fd >= 0 && bytes);
	assert_int_equal(pread(fd, bytes, len, offset), len);
	for (size_t i = 0; i < len; i++)
		bytes[i] ^= 0x5a;
	assert_int_equal(pwrite(fd, bytes, len, offset), len);
	free(bytes);
	close(fd);
}

off_t rig_length(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

static int find_buckets(struct rig *rig, struct dirent ***ret)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/buckets", rig->disk);
	return scandir(path, ret, NULL, alphasort);
}

/* The wanted one's path, and how many there are. */
static unsigned look_through(struct rig *rig, unsigned wanted, char *ret)
{
	struct dirent **entries;
	int count = find_buckets(rig, &entries);
	unsigned seen = 0;

	assert_true(count >= 0);
	for (int i = 0; i < count; i++) {
		if (strstr(entries[i]->d_name, ".bucket") && seen++ == wanted &&
		    ret)
			snprintf(ret, 192, "%s/buckets/%.80s", rig->disk,
				 entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return seen;
}

void rig_bucket(struct rig *rig, unsigned n, char ret[192])
{
	assert_true(look_through(rig, n, ret) > n);
}

unsigned rig_buckets(struct rig *rig)
{
	return look_through(rig, 0, NULL);
}
