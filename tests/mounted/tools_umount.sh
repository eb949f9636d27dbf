#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# pagefs umount: busy, lazy, dead, with and without memory.
set -euo pipefail
# shellcheck source=tests/mounted/mount.bash
source tests/mounted/mount.bash

alive() { # PID; what has ended and waits for its parent is not
	readlink "/proc/$1/exe" >/dev/null
}
gone() { # PID: has ended, within some seconds
	for _ in $(seq 100); do
		alive "$1" || return 0
		sleep 0.1
	done
	failed "the daemon did not end"
}
tier_of() {
	getfattr --absolute-names --only-values -n user.pagefs.tier "$1"
}

# What was pending is on disk, memory is freed, the daemon is gone at return.
mount_start
head -c 1000000 /dev/urandom >"$scratch/page"
"$pagefs" put "$scratch/page" "$mount/page"
pid=$(daemon_pid)
expect 0 "$pagefs" umount "$mount"
! alive "$pid" || failed "umount returned before the daemon ended"
expect 1 "$pagefs" umount "$mount"
says "no pagefs mount there"
mount_start
[ "$(tier_of "$mount/page")" = disk ] || failed "memory was not freed"
cmp "$scratch/page" "$mount/page"

# Read-only: it can't be told what to do with its memory, and frees its own.
mount_end
mount_start --ro
cmp "$scratch/page" "$mount/page"
expect 0 "$pagefs" umount "$mount"
[ ! -s "$scratch/err" ] || failed "umount of a read-only mount complains"
mount_start --ro
[ "$(tier_of "$mount/page")" = disk ] || failed "memory was not freed"
mount_end
mount_start

# Kept for the next mount.
"$pagefs" put --sync "$scratch/page" "$mount/page"
expect 0 "$pagefs" umount --keep-memory "$mount"
mount_start
[ "$(tier_of "$mount/page")" = memory,disk ] || failed "memory was not kept"
cmp "$scratch/page" "$mount/page"

# Busy: who holds it is named, and it goes on.
expect 1 "$pagefs" umount "$mount/page"
says "is a path in the mount"
sleep 100 <"$mount/page" &
holder=$!
expect 1 "$pagefs" umount "$mount"
says "$holder sleep: open file $mount/page"
says "--lazy"
cmp "$scratch/page" "$mount/page"

# Lazy: the holder goes on reading, the daemon ends after it.
pid=$(daemon_pid)
expect 0 "$pagefs" umount --lazy "$mount"
says "when the last file is closed"
! mountpoint -q "$mount" || failed "still mounted"
cmp "$scratch/page" "/proc/$holder/fd/0"
kill "$holder"
wait "$holder" || true
gone "$pid"

# Dead: taken away, and the pages are found by the next mount.
mount_start
"$pagefs" put "$scratch/page" "$mount/young"
pid=$(daemon_pid)
kill -9 "$pid"
gone "$pid"
expect 1 "$pagefs" status "$mount"
says "the daemon of this mount is gone"
expect 1 "$pagefs" put "$scratch/page" "$mount"
[ ! -e "$scratch/.put"* ] || failed "put left a file beside a dead mount"
expect 0 "$pagefs" umount "$mount"
says "the daemon was gone already"
! mountpoint -q "$mount" || failed "still mounted"
mount_start
cmp "$scratch/page" "$mount/young"
mount_end
