#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the commands of the README's transcript in a home of their own: each
# must work and print what the README shows, line by line (the first word of
# each counts: times and versions differ). With --write it puts what they
# print into the README.
set -euo pipefail
# shellcheck source=tests/mounted/mount.bash
source tests/mounted/mount.bash
readme=$PWD/README.md

grep -qxF 'mkdir -p ~/kv && build/pagefs mount ~/kv' "$readme" ||
	failed "the README's second command is another one"
export HOME=$scratch/home
mkdir -p "$HOME/kv"
mount=$HOME/kv
mount_start
PATH=$(dirname "$(realpath "$pagefs")"):$PATH

# What stands between the fences.
transcript() {
	sed -n '/^```console$/,/^```$/{/^```/!p}' "$readme"
}

run_all() {
	local line
	cd "$HOME"
	transcript | grep '^\$ ' | while read -r line; do
		printf '%s\n' "$line"
		bash -euo pipefail -c "${line#\$ }" </dev/null 2>&1 ||
			echo "FAILED: ${line#\$ }"
	done | sed "s|$HOME|/home/me|g"
}

run_all >"$scratch/now"
cd - >/dev/null
if [ "${1:-}" = --write ]; then
	sed -i -e '/^```console$/,/^```$/{/^```/!d}' \
		-e "/^\`\`\`console\$/r $scratch/now" "$readme"
	exit
fi
! grep '^FAILED' "$scratch/now" || exit 1
diff <(transcript | awk '{print $1}') <(awk '{print $1}' "$scratch/now") || {
	cat "$scratch/now"
	failed "the README shows something else: readme_transcript.sh --write"
}
