#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-layers and check-headers refuse what they are there to refuse.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir"/{tools/lib,store,meta,transport,cache,fs/ops,tests/store}
cp tools/check-layers tools/check-headers "$dir/tools/"
git -C "$dir" init -q
spdx='/* SPDX-License-Identifier: Apache-2.0 */'

put() { # FILE LINE: a source with that line
	printf '%s\n%s\n' "$spdx" "$2" >"$dir/$1"
}
passes() {
	"$dir/tools/$1" >"$dir/out" 2>&1 || {
		echo "$1 refused $2:" && cat "$dir/out" && exit 1
	}
}
refuses() {
	if "$dir/tools/$1" >"$dir/out" 2>&1; then
		echo "$1 did not refuse: $2"
		exit 1
	fi
	grep -q "$2" "$dir/out" || {
		echo "$1 does not name $2:" && cat "$dir/out" && exit 1
	}
}

allowed=(
	"store/a.c tools/lib/x.h" "cache/a.c store/x.h" "cache/a.c meta/x.h"
	"fs/ops/a.c cache/x.h" "fs/main.c store/x.h" "fs/mount.c transport/x.h"
	"tools/a.c store/x.h" "tests/store/a.c fs/x.h" "tools/lib/a.c tools/lib/x.h"
)
forbidden=(
	"store/a.c meta/x.h" "meta/a.c store/x.h" "transport/a.c store/x.h"
	"store/a.c cache/x.h" "cache/a.c fs/x.h" "fs/ops/a.c store/x.h"
	"fs/inode.h transport/x.h" "tools/lib/a.c store/x.h"
	"tools/lib/a.c tools/x.h" "store/a.c a.h" "meta/a.c tools/x.h"
)
for row in "${allowed[@]}"; do
	read -r file header <<<"$row"
	put "$file" "#include \"$header\""
	passes check-layers "$row"
	rm "$dir/$file"
done
for row in "${forbidden[@]}"; do
	read -r file header <<<"$row"
	put "$file" "  #  include \"$header\" // late"
	refuses check-layers "$file:2: may not include \"$header\""
	rm "$dir/$file"
done

put store/good.h 'struct good { int x; };'
passes check-headers store/good.h
put store/lonely.h 'size_t lonely(void);'
refuses check-headers 'store/lonely.h: does not compile alone'
rm "$dir/store/lonely.h"
echo 'int x;' >"$dir/store/nameless.c"
refuses check-headers 'store/nameless.c: its first line must be'
