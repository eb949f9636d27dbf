#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The first five minutes of somebody who is not root: every directory is the
# default one, below a home of his own. Root runs it as nobody, in namespaces
# where /dev/fuse and /dev/shm are as distributions have them.
set -euo pipefail

nobody=65534
if [ "$(id -u)" = 0 ] && [ "${1:-}" != apart ]; then
	unshare --mount --pid --fork --mount-proc --kill-child true 2>/dev/null || {
		echo "no namespaces here"
		exit 77
	}
	exec unshare --mount --pid --fork --mount-proc --kill-child \
		"$0" apart
fi
if [ "${1:-}" = apart ]; then
	mount -t tmpfs -o mode=0755 none /run
	mount -t tmpfs -o mode=1777,size=512m none /dev/shm
	mknod -m 0666 /run/fuse c 10 229
	mount --bind /run/fuse /dev/fuse
	pagefs=$(realpath "${PAGEFS_BIN:-build/pagefs}")
	# It may lie where only root can look.
	install -m 0755 "$pagefs" /run/pagefs-test
	scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/pagefs-user.XXXXXX")
	chown $nobody:$nobody "$scratch"
	install -m 0755 "$0" /run/as_user.sh
	status=0
	cd "$scratch"
	setpriv --reuid $nobody --regid $nobody --clear-groups \
		env PAGEFS_BIN=/run/pagefs-test SCRATCH="$scratch" \
		/run/as_user.sh user || status=$?
	cd /
	rm -rf --one-file-system "$scratch"
	exit $status
fi

if ! [ -w /dev/fuse ] || ! command -v fusermount3 >/dev/null; then
	echo "no /dev/fuse, or no fusermount3, for users here"
	exit 77
fi
pagefs=$(realpath "${PAGEFS_BIN:-build/pagefs}")
scratch=${SCRATCH:-$(mktemp -d "${TMPDIR:-/var/tmp}/pagefs-user.XXXXXX")}
export HOME=$scratch/home
unset XDG_DATA_HOME XDG_RUNTIME_DIR JOURNAL_STREAM
mkdir -p "$HOME"
mount=$HOME/kv

cleanup() {
	local status=$?
	"$pagefs" umount --lazy "$mount" 2>/dev/null || true
	[ $status = 0 ] || cat "$scratch/log" "$scratch/out" 2>/dev/null || true
	[ -n "${SCRATCH:-}" ] || rm -rf --one-file-system "$scratch"
}
trap cleanup EXIT

failed() {
	echo "$*"
	exit 1
}

# run COMMAND...: works, with its output in $scratch/out
run() {
	timeout 20 "$@" >"$scratch/out" 2>&1 || failed "$*: exit status $?"
}

# says TEXT: the last command's output has it
says() {
	grep -qF -- "$1" "$scratch/out" || failed "'$1' was not said"
}

# Mounts with an option or none, and goes through it all. Leaves it mounted.
first_minutes() {
	"$pagefs" mount "$@" "$mount" 2>>"$scratch/log"
	head -c 3670016 /dev/urandom >"$HOME/page"
	run "$pagefs" put --parents "$HOME/page" "$mount/model/0a1b"
	run ls -l "$mount/model"
	says " 3670016 "
	says " 0a1b"
	run "$pagefs" ls -l -R "$mount"
	says "0a1b"
	run stat "$mount/model/0a1b"
	says "Size: 3670016"
	run "$pagefs" stat "$mount/model/0a1b"
	says "memory"
	run "$pagefs" evict "$mount/model/0a1b"
	run "$pagefs" stat "$mount/model/0a1b"
	says "disk"
	run cmp "$HOME/page" "$mount/model/0a1b"
	run bash -c "cat '$HOME/page' >'$mount/by-hand' &&
		cmp '$HOME/page' '$mount/by-hand'"
	run "$pagefs" get "$mount/by-hand" "$HOME/back"
	run cmp "$HOME/page" "$HOME/back"
	run df "$mount"
	run "$pagefs" status "$mount"
	says "2 in 1 directory,"
	! grep ALARM "$scratch/out" || failed "an alarm"
	timeout 20 "$pagefs" doctor >"$scratch/out" 2>&1 || true
	says "memlock"
}

mkdir "$mount"
first_minutes --memory 64M
[ -f "$HOME/.local/share/pagefs/pagefs" ] ||
	failed "the disk tier is not in ~/.local/share"
[ -d "/dev/shm/pagefs-$(id -u)" ] || failed "the memory tier is not in /dev/shm"
run "$pagefs" umount "$mount"
! mountpoint -q "$mount" || failed "still mounted"
[ -z "$(ls -A "/dev/shm/pagefs-$(id -u)")" ] || failed "memory was not freed"

# It is all there the next time.
"$pagefs" mount --memory 64M "$mount" 2>>"$scratch/log"
run cmp "$HOME/page" "$mount/model/0a1b"
run "$pagefs" rm -r "$mount/model"
[ ! -e "$mount/model" ] || failed "rm -r left the directory"
run "$pagefs" umount "$mount"

# With no option at all, too, where a tenth of RAM does not fit into /dev/shm;
# and what was put there is found again after a kill.
if [ "$(id -u)" = $nobody ]; then
	"$pagefs" mount "$mount" 2>>"$scratch/log"
	run "$pagefs" put "$HOME/page" "$mount/page"
	kill -9 "$("$pagefs" status --json "$mount" |
		sed -n 's/.*"pid": \([0-9]*\).*/\1/p')"
	head -c 200M /dev/zero >/dev/shm/others
	"$pagefs" mount "$mount" 2>>"$scratch/log"
	run "$pagefs" stat "$mount/page"
	says "memory"
	run cmp "$HOME/page" "$mount/page"
	run "$pagefs" umount "$mount"
	rm /dev/shm/others
fi

# Where the session says where things belong, they go there.
export XDG_DATA_HOME=$scratch/data XDG_RUNTIME_DIR=$scratch/run
mkdir -m 0700 "$XDG_DATA_HOME" "$XDG_RUNTIME_DIR"
first_minutes --memory 64M
[ -f "$XDG_DATA_HOME/pagefs/pagefs" ] || failed "XDG_DATA_HOME was not used"
[ -d "$XDG_RUNTIME_DIR/pagefs" ] || failed "XDG_RUNTIME_DIR was not used"
run "$pagefs" umount "$mount"
! grep -E "pagefs (error|warning): " "$scratch/log" |
	grep -vE "memlock|took away" || failed "the log has complaints"
