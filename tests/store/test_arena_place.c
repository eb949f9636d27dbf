/* SPDX-License-Identifier: Apache-2.0 */
#include "store/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "arena_fixture.h"

#define SOMEBODY 65534
#define SKIPPED 77
#define WANTED (64ull << 20)

/* Each case runs in a child with mounts of its own (an empty /run and
 * /dev/shm): nothing is left behind on the host, and it may give up rights. */
#define CHECK(condition)                                                       \
	do {                                                                   \
		if (!(condition)) {                                            \
			fprintf(stderr, "line %d: %s\n", __LINE__,             \
				#condition);                                   \
			_exit(1);                                              \
		}                                                              \
	} while (0)

static void own_mounts(void)
{
	if (unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/run", "tmpfs", 0, "mode=0755,size=1m") ||
	    mount("none", "/dev/shm", "tmpfs", 0, "mode=1777,size=256m"))
		_exit(SKIPPED);
	unsetenv("XDG_RUNTIME_DIR");
}

static void run_apart(void (*body)(void))
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		own_mounts();
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void give_up_mounting(void)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	CHECK(!syscall(SYS_capget, &header, data));
	data[0].effective &= ~(1u << CAP_SYS_ADMIN);
	CHECK(!syscall(SYS_capset, &header, data));
}

static uint64_t size_of(const char *path)
{
	struct statfs fs;

	CHECK(!statfs(path, &fs));
	return (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
}

static void touch(const char *path, const char *name)
{
	char full[512];
	int fd;

	snprintf(full, sizeof(full), "%s/%s", path, name);
	fd = open(full, O_CREAT | O_WRONLY, 0600);
	CHECK(fd >= 0);
	close(fd);
}

static bool is_there(const char *path, const char *name)
{
	char full[512];

	snprintf(full, sizeof(full), "%s/%s", path, name);
	return !access(full, F_OK);
}

/* To the last slot, with huge pages or without. */
static void filled_to_the_brim(void)
{
	static const uint32_t sizes[] = {KIB(448), KIB(3584), KIB(20), MIB(2)};
	uint64_t room;
	char path[256];

	CHECK(!arena_place("one", WANTED, path, sizeof(path), &room));
	for (unsigned i = 0; i < 4; i++) {
		struct arena_config config = {
			.bytes = WANTED, .dir = path, .slot_files = true};
		struct slot_class class = {sizes[i], 0, 0, 0600};
		struct arena *arena;
		struct statfs fs;
		slot_t slot;
		int rc;

		CHECK(arena_open(&config, &arena) == ARENA_FRESH);
		while (!(rc = arena_alloc(arena, &class, &slot)))
			memset(arena_data(arena, slot), 1, sizes[i]);
		CHECK(rc == ARENA_FULL);
		CHECK(!statfs(path, &fs));
		CHECK((uint64_t)(fs.f_blocks - fs.f_bfree) *
			      (uint64_t)fs.f_bsize <=
		      WANTED);
		arena_close(arena, false);
	}
	CHECK(!arena_unplace(path));
}

static void as_root(void)
{
	char path[256];
	struct stat st;
	uint64_t room = 0, size;

	CHECK(!arena_place("one", WANTED, path, sizeof(path), &room));
	CHECK(!strcmp(path, "/run/pagefs/one"));
	CHECK(!stat(path, &st) && (st.st_mode & 07777) == 0700);
	size = size_of(path);
	CHECK(size >= WANTED + WANTED / 50 + MIB(64));
	CHECK(size <= WANTED + WANTED / 50 + MIB(65));
	touch(path, "kept");
	/* Again: the same; then larger; both with what is there. */
	CHECK(!arena_place("one", WANTED, path, sizeof(path), &room));
	CHECK(is_there(path, "kept") && size_of(path) == size);
	CHECK(!arena_place("one", 2 * WANTED, path, sizeof(path), &room));
	CHECK(is_there(path, "kept") && size_of(path) > size);
	/* Another instance is another place. */
	CHECK(!arena_place("two", WANTED, path, sizeof(path), &room));
	CHECK(!is_there(path, "kept"));
	CHECK(!arena_unplace("/run/pagefs/one"));
	CHECK(access("/run/pagefs/one", F_OK) && !access(path, F_OK));
	CHECK(!arena_unplace(path));
	CHECK(!arena_unplace(path)); /* gone already */
}

static void too_large(void)
{
	char path[256] = "as it was";
	uint64_t room = 0;

	CHECK(arena_place("one", 1ull << 50, path, sizeof(path), &room) ==
	      -ENOSPC);
	CHECK(room > 0 && room < 1ull << 50);
	CHECK(!strcmp(path, "as it was"));
	CHECK(!seteuid(SOMEBODY));
	CHECK(arena_place("one", 1ull << 30, path, sizeof(path), &room) ==
	      -ENOSPC);
	CHECK(room > MIB(180) && room < MIB(256));
	CHECK(arena_place("one", room + MIB(1), path, sizeof(path), &room) ==
	      -ENOSPC);
	CHECK(!arena_place("one", room, path, sizeof(path), &room));
}

static void root_in_a_container(void)
{
	char path[256];
	uint64_t room;

	give_up_mounting();
	CHECK(!arena_place("one", WANTED, path, sizeof(path), &room));
	CHECK(!strcmp(path, "/dev/shm/pagefs-0/one"));
	CHECK(!arena_unplace(path));
}

static void as_somebody(void)
{
	char path[256];
	struct stat st;
	uint64_t room;

	CHECK(!mkdir("/run/user", 0755));
	CHECK(!chown("/run/user", SOMEBODY, SOMEBODY));
	setenv("XDG_RUNTIME_DIR", "/run/user", 1);
	CHECK(!seteuid(SOMEBODY));
	/* 1 MiB is there: too little. */
	CHECK(!arena_place("one", WANTED, path, sizeof(path), &room));
	CHECK(!strcmp(path, "/dev/shm/pagefs-65534/one"));
	CHECK(!stat(path, &st) && (st.st_mode & 07777) == 0700);
	touch(path, "file");
	CHECK(!arena_unplace(path));
	CHECK(access(path, F_OK));
	CHECK(!seteuid(0));
	CHECK(!mount(NULL, "/run", NULL, MS_REMOUNT, "size=512m"));
	CHECK(!seteuid(SOMEBODY));
	CHECK(!arena_place("one", WANTED, path, sizeof(path), &room));
	CHECK(!strcmp(path, "/run/user/pagefs/one"));
}

static void somebody_else_was_there_first(void)
{
	char path[256];
	uint64_t room;

	CHECK(!mkdir("/dev/shm/pagefs-65534", 0777));
	CHECK(!seteuid(SOMEBODY));
	CHECK(arena_place("one", WANTED, path, sizeof(path), &room) == -EPERM);
	CHECK(!seteuid(0) && !rmdir("/dev/shm/pagefs-65534"));
	CHECK(!symlink("/tmp", "/dev/shm/pagefs-65534"));
	CHECK(!seteuid(SOMEBODY));
	CHECK(arena_place("one", WANTED, path, sizeof(path), &room) == -EPERM);
}

static void the_place_is_full_of_what_it_held_before(void)
{
	char path[256], full[512];
	uint64_t room;
	int fd;

	CHECK(!seteuid(SOMEBODY));
	CHECK(!arena_place("one", MIB(150), path, sizeof(path), &room));
	snprintf(full, sizeof(full), "%s/r0000", path);
	fd = open(full, O_CREAT | O_RDWR, 0600);
	CHECK(fd >= 0 && !posix_fallocate(fd, 0, MIB(150)));
	close(fd);
	CHECK(!arena_place("one", MIB(150), path, sizeof(path), &room));
	CHECK(arena_place("two", MIB(150), path, sizeof(path), &room) ==
	      -ENOSPC);
}

static void strange_names(void)
{
	char path[256];
	uint64_t room;

	CHECK(arena_place("", WANTED, path, sizeof(path), &room) == -EINVAL);
	CHECK(arena_place("..", WANTED, path, sizeof(path), &room) == -EINVAL);
	CHECK(arena_place("a/b", WANTED, path, sizeof(path), &room) == -EINVAL);
	CHECK(arena_place("one", WANTED, path, 10, &room) == -ENAMETOOLONG);
	CHECK(arena_unplace("/etc") == -EINVAL);
	CHECK(arena_unplace("/run/pagefs/../../etc") == -EINVAL);
}

#define CASE(name, body)                                                       \
	static void name(void **state)                                         \
	{                                                                      \
		(void)state;                                                   \
		run_apart(body);                                               \
	}

CASE(root_gets_a_tmpfs_that_is_found_again, as_root)
CASE(a_full_arena_takes_no_more_than_its_size_of_the_tmpfs, filled_to_the_brim)
CASE(an_arena_larger_than_what_is_there_is_refused_with_the_room, too_large)
CASE(root_that_cannot_mount_is_placed_like_a_user, root_in_a_container)
CASE(a_user_gets_a_directory_where_there_is_room, as_somebody)
CASE(a_directory_of_somebody_else_is_not_used, somebody_else_was_there_first)
CASE(what_an_arena_holds_counts_as_its_room,
     the_place_is_full_of_what_it_held_before)
CASE(names_that_would_lead_elsewhere_are_refused, strange_names)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(root_gets_a_tmpfs_that_is_found_again),
		cmocka_unit_test(
			a_full_arena_takes_no_more_than_its_size_of_the_tmpfs),
		cmocka_unit_test(
			an_arena_larger_than_what_is_there_is_refused_with_the_room),
		cmocka_unit_test(root_that_cannot_mount_is_placed_like_a_user),
		cmocka_unit_test(a_user_gets_a_directory_where_there_is_room),
		cmocka_unit_test(a_directory_of_somebody_else_is_not_used),
		cmocka_unit_test(what_an_arena_holds_counts_as_its_room),
		cmocka_unit_test(names_that_would_lead_elsewhere_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
