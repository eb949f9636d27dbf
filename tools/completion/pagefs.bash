# SPDX-License-Identifier: Apache-2.0
# bash completion for pagefs(1) and pagefs(8).
# Commands and options are those that the program's own help names, so this
# file knows none of them.

_pagefs_commands() { # PROGRAM help, or PROGRAM bench --help
	"$@" 2>/dev/null | sed -n 's/^  \([a-z]*\) .*/\1/p'
}

_pagefs_options() { # PROGRAM COMMAND...
	"$@" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u
}

_pagefs_mounts() {
	findmnt -rno TARGET -t fuse.pagefs 2>/dev/null
}

_pagefs() {
	local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]}
	local previous=${COMP_WORDS[COMP_CWORD - 1]}
	local command=${COMP_WORDS[1]} words=

	compopt +o default 2>/dev/null || true
	if [ "$COMP_CWORD" = 1 ]; then
		words=$(_pagefs_commands "$program" help)
	elif [ "$command" = help ]; then
		[ "$COMP_CWORD" != 2 ] ||
			words=$(_pagefs_commands "$program" help)
	elif [ "$command" = bench ] && [ "$COMP_CWORD" = 2 ]; then
		words=$(_pagefs_commands "$program" bench --help)
	elif [ "$previous" = --io-uring ]; then
		words="auto off"
	elif [[ $word == -* ]]; then
		if [ "$command" = bench ]; then
			words=$(_pagefs_options "$program" bench \
				"${COMP_WORDS[2]}")
		else
			words=$(_pagefs_options "$program" "$command")
		fi
	else
		case $command in
		umount | status | clear) words=$(_pagefs_mounts) ;;
		*) compopt -o default 2>/dev/null || true ;;
		esac
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _pagefs pagefs
