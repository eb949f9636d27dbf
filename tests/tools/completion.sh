#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The bash completion completes commands, options and values.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# A pagefs whose help names what the completion must find.
cat >"$dir/pagefs" <<'END'
#!/bin/sh
case "$1 $2" in
"help ") printf 'Commands:\n  mount    mount it\n  umount   stop\n  rm       x\n' ;;
"rm --help") printf 'Options:\n  -r, --recursive  all\n      --all  every\n' ;;
"bench --help") printf '  io       x\n  offload  y\n\nNAME --help\n' ;;
"bench io") printf '      --runs N  runs\n' ;;
esac
END
chmod +x "$dir/pagefs"
# shellcheck source=/dev/null
source tools/completion/pagefs.bash

# completes "WORDS" WORD...: what the last of WORDS becomes
completes() {
	local line=$1 want
	shift
	want=$(printf '%s\n' "$@")
	read -ra COMP_WORDS <<<"$line"
	[ "${line: -1}" != " " ] || COMP_WORDS+=("")
	COMP_WORDS[0]=$dir/pagefs
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	COMPREPLY=()
	_pagefs
	if [ "$(printf '%s\n' "${COMPREPLY[@]}")" != "$want" ]; then
		echo "'$line' gave '${COMPREPLY[*]}', not '$*'"
		exit 1
	fi
}

completes "pagefs " mount umount rm
completes "pagefs u" umount
completes "pagefs help r" rm
completes "pagefs rm --" --all --recursive
completes "pagefs rm --r" --recursive
completes "pagefs bench " io offload
completes "pagefs bench io --" --runs
completes "pagefs mount --io-uring o" off
bash -n tools/completion/pagefs.bash
! command -v zsh >/dev/null || zsh -n tools/completion/_pagefs
