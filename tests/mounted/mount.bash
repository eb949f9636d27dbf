# SPDX-License-Identifier: Apache-2.0
# For the scripts of this folder: a mount of their own, gone when they end.
#
#   source tests/mounted/mount.bash
#   mount_start [OPTION...]     mounts on $mount, disk tier in $disk
#   mount_end                   unmounts; at the end of the script, too

if ! [ -w /dev/fuse ]; then
	echo "no /dev/fuse here"
	exit 77
fi
pagefs=${PAGEFS_BIN:-build/pagefs}
scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/pagefs-test.XXXXXX")
mount=$scratch/mount
disk=$scratch/disk
mkdir "$mount"

mount_start() {
	"$pagefs" mount --memory 128M --disk "$disk" "$@" "$mount" \
		2>>"$scratch/log"
}

mount_end() {
	! mountpoint -q "$mount" || "$pagefs" umount "$mount"
}

daemon_pid() {
	"$pagefs" status --json "$mount" | sed -n 's/.*"pid": \([0-9]*\).*/\1/p'
}

cleanup() {
	local status=$?
	"$pagefs" umount --lazy "$mount" 2>/dev/null || true
	[ $status = 0 ] || [ $status = 77 ] || cat "$scratch/log" 2>/dev/null
	rm -rf --one-file-system "$scratch" || true
}
trap cleanup EXIT

failed() {
	echo "$*"
	exit 1
}

# expect STATUS COMMAND...: its output goes to $scratch/out and $scratch/err
expect() {
	local want=$1 status=0
	shift
	"$@" >"$scratch/out" 2>"$scratch/err" || status=$?
	[ "$status" = "$want" ] || {
		cat "$scratch/out" "$scratch/err"
		failed "$*: exit status $status, not $want"
	}
}

# says TEXT: the last command's output has it
says() {
	cat "$scratch/out" "$scratch/err" | grep -qF -- "$1" || {
		cat "$scratch/out" "$scratch/err"
		failed "'$1' was not said"
	}
}
