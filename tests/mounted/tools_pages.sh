#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# pagefs put, get, ls, stat, rm, evict, clear on a mount.
set -euo pipefail
# shellcheck source=tests/mounted/mount.bash
source tests/mounted/mount.bash
mount_start
head -c 3670016 /dev/urandom >"$scratch/page"

# put and get
expect 1 "$pagefs" put "$scratch/page" "$mount/a/b/page"
says --parents
expect 0 "$pagefs" put -p "$scratch/page" "$mount/a/b/page"
cmp "$scratch/page" "$mount/a/b/page"
expect 0 "$pagefs" put "$scratch/page" "$mount/a/"
expect 0 "$pagefs" put "$scratch/page" "$mount"
cmp "$scratch/page" "$mount/a/page"
expect 0 "$pagefs" get "$mount/page" "$scratch/copy"
cmp "$scratch/page" "$scratch/copy"
"$pagefs" get "$mount/page" | cmp - "$scratch/page"
head -c 100 "$scratch/page" | "$pagefs" put - "$mount/page"
[ "$(stat -c %s "$mount/page")" = 100 ] || failed "put did not replace"
expect 1 "$pagefs" get "$mount/nothing"
says "no such page"
expect 1 "$pagefs" get "$mount/page" /dev/full
says "/dev/full: No space left on device"
expect 1 "$pagefs" put "$scratch/missing" "$mount/x"
says "$scratch/missing: No such file"
! ls -A "$mount" | grep -q '^\.put' || failed "put left a temporary name"
! ls -A "$scratch" | grep -q '^\.put' || failed "put left a file elsewhere"

# ls
expect 0 "$pagefs" ls "$mount"
[ "$(cat "$scratch/out")" = $'a\npage' ] || failed "ls: $(cat "$scratch/out")"
expect 0 "$pagefs" ls -lR "$mount"
says "3670016"
says "$mount/a/b:"
odd=$'odd \xff\n"name'
touch "$mount/$odd"
"$pagefs" ls -R --json "$mount" | python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
assert len(rows) == 6, rows
odd = [row for row in rows if "path_hex" in row]
assert len(odd) == 1 and odd[0]["path_hex"].endswith(
    b"odd \xff\n\"name".hex()), odd
assert {row["type"] for row in rows} == {"page", "directory"}, rows
'
expect 1 "$pagefs" ls "$mount/missing"
expect 1 "$pagefs" evict "$mount/$odd"
says "newline"
rm "$mount/$odd"

# deep: 1,500 directories, one in the other
deep=$mount/deep
python3 - "$deep" <<'END'
import os, sys
os.mkdir(sys.argv[1])
fd = os.open(sys.argv[1], os.O_RDONLY)
for _ in range(1500):
    os.mkdir("d", dir_fd=fd)
    below = os.open("d", os.O_RDONLY, dir_fd=fd)
    os.close(fd)
    fd = below
os.close(os.open("page", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
END
[ "$("$pagefs" ls -R "$deep" | wc -l)" = $((1501 * 3 - 1)) ] ||
	failed "ls -R does not reach the bottom"
expect 0 "$pagefs" rm -r "$deep"
[ ! -e "$deep" ] || failed "rm -r left something"

# stat, evict
sync_page=$mount/a/page
expect 0 "$pagefs" put --sync "$scratch/page" "$sync_page"
"$pagefs" stat --json "$sync_page" | python3 -c '
import json, sys
page = json.load(sys.stdin)
assert page["key"] == "a/page" and page["type"] == "page", page
assert page["size"] == 3670016 and page["stored"] >= 3670016, page
assert page["tier"] == "memory,disk" and page["checksum"], page
'
expect 0 "$pagefs" evict "$sync_page"
expect 0 "$pagefs" stat "$sync_page"
says "tier      disk"
cmp "$scratch/page" "$sync_page"
expect 0 "$pagefs" evict --all "$mount"
expect 0 "$pagefs" ls -l "$mount"
! grep -q memory "$scratch/out" || failed "evict --all left pages in memory"
expect 1 "$pagefs" evict "$mount/missing"
says "no such page"
expect 2 "$pagefs" evict "$mount"
expect 1 "$pagefs" stat "$mount/missing"

# names that control files could take for something else
touch "$mount/*" "$mount/-r a" "$mount/keep"
expect 0 "$pagefs" rm "$mount/-r a"
[ -d "$mount/a" ] || failed "rm '-r a' removed a"
expect 0 "$pagefs" evict "$mount/*"
expect 0 "$pagefs" rm "$mount/*"
[ -e "$mount/keep" ] || failed "rm '*' removed another page"

# rm
expect 1 "$pagefs" rm "$mount/missing"
says "no such page"
expect 0 "$pagefs" rm -f "$mount/missing"
expect 1 "$pagefs" rm "$mount/a"
says "-r removes it, too"
expect 0 "$pagefs" rm "$mount/a/page" "$mount/keep"
expect 0 "$pagefs" rm -r "$mount/a"
expect 2 "$pagefs" rm -r "$mount"
expect 2 "$pagefs" rm -r --all "$mount/page"
expect 0 "$pagefs" rm -r --all "$mount"
[ -z "$(ls -A "$mount")" ] || failed "rm -r --all left something"

expect 0 "$pagefs" clear "$mount"
# A relative path, and a link from elsewhere.
(cd "$mount" && "$pagefs" put "$scratch/page" here && "$pagefs" rm here)
ln -s "$mount" "$scratch/door"
expect 0 "$pagefs" ls "$scratch/door"
