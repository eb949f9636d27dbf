#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/run counts right, and fails whenever something did not pass.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

program() {
	printf '#!/bin/sh\n%s\n' "$2" >"$dir/$1"
	chmod +x "$dir/$1"
}

# expect STATUS LAST-LINE PROGRAM...: in a run with a limit of one second
expect() {
	local status=0 want_status=$1 want=$2 output
	shift 2
	output=$(tests/run --seconds 1 "${@/#/$dir/}" 2>&1) || status=$?
	if [ "$status" != "$want_status" ] ||
		[ "${output##*$'\n'}" != "$want" ]; then
		printf 'run %s: exit status %s, not %s; wanted "%s"; got:\n%s\n' \
			"$*" "$status" "$want_status" "$want" "$output"
		exit 1
	fi
}

program good 'exit 0'
program bad 'exit 3'
program unfit 'echo "no /dev/fuse here"; exit 77'
program crash 'kill -SEGV $$'
program slow 'sleep 5'
program tap 'echo 1..3; echo "ok 1 - a"; echo "ok 2 # SKIP b"; echo "ok 3 - c"'
program oldskip 'echo 1..2; echo "ok 1 - a"; echo "not ok 2 # SKIP b"'
program tapbad 'echo 1..2; echo "ok 1 - a"; echo "not ok 2 - b"; exit 1'
program hidden 'echo 1..2; echo "ok 1 - a"; echo "not ok 2 - b"'
program short 'echo 1..2; echo "ok 1 - a"; exit 0'
program late 'echo 1..1; echo "ok 1 - a"; exit 1'
program none 'echo 1..0'

expect 0 '1 passed, 0 failed, 0 skipped' good
expect 1 '1 passed, 1 failed, 0 skipped' good bad
expect 0 '1 passed, 0 failed, 1 skipped' good unfit
expect 1 '0 passed, 0 failed, 1 skipped' unfit
expect 1 '0 passed, 0 failed, 0 skipped'
expect 1 '0 passed, 1 failed, 0 skipped' crash
expect 1 '0 passed, 1 failed, 0 skipped' slow
expect 1 '0 passed, 1 failed, 0 skipped' missing
expect 0 '3 passed, 0 failed, 2 skipped' tap oldskip
expect 1 '1 passed, 1 failed, 0 skipped' tapbad
expect 1 '1 passed, 1 failed, 0 skipped' hidden
expect 1 '1 passed, 1 failed, 0 skipped' short
expect 1 '1 passed, 1 failed, 0 skipped' late
expect 1 '0 passed, 1 failed, 0 skipped' none
tests/run "$dir/unfit" | grep -q "unfit: no /dev/fuse here"
tests/run "$dir/tapbad" | grep -q "      | not ok 2 - b"
