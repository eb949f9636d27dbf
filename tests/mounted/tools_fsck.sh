#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# pagefs fsck: clean, in use, flipped bits, a lost index.
set -euo pipefail
# shellcheck source=tests/mounted/mount.bash
source tests/mounted/mount.bash
mount_start
for i in 1 2 3; do
	head -c 1000000 /dev/urandom >"$scratch/page$i"
	"$pagefs" put -p "$scratch/page$i" "$mount/a/page$i"
done
expect 1 "$pagefs" fsck "$disk"
says "fsck: $disk is in use by another pagefs, pid $(daemon_pid); unmount it"
mount_end

for mode in "" --verify; do
	expect 0 "$pagefs" fsck $mode "$disk"
	says clean
done
"$pagefs" fsck --verify --json "$disk" | python3 -c '
import json, sys
report = json.load(sys.stdin)
assert report["pages"] == 3 and report["chunks"] >= 3, report
assert report["damaged"] == report["incomplete"] == report["pending"] == 0
'

# What is no store does not become one.
mkdir "$scratch/empty"
for mode in "" --verify --rebuild; do
	expect 1 "$pagefs" fsck $mode "$scratch/empty"
	says "fsck: $scratch/empty: not a pagefs disk directory"
	expect 1 "$pagefs" fsck $mode "$scratch/page1"
	expect 1 "$pagefs" fsck $mode "$scratch/none"
	says "fsck: $scratch/none: No such file or directory"
done
[ -z "$(ls -A "$scratch/empty")" ] || failed "fsck wrote into a directory"
[ ! -e "$scratch/none" ] || failed "fsck made a directory"

# The index is lost: made again, by hand.
rm -rf "$disk/index"
expect 0 "$pagefs" fsck --rebuild "$disk"
mount_start
for i in 1 2 3; do
	cmp "$scratch/page$i" "$mount/a/page$i"
done
mount_end

# A flipped bit in the bytes of page2 is found, and is a miss, not wrong bytes.
python3 - "$disk" "$scratch/page2" <<'END'
import glob, sys
page = open(sys.argv[2], "rb").read()
for path in glob.glob(sys.argv[1] + "/buckets/*"):
    data = open(path, "rb").read()
    at = data.find(page[:4096])
    if at >= 0:
        with open(path, "r+b") as bucket:
            bucket.seek(at + 500000)
            bucket.write(bytes([page[500000] ^ 1]))
        break
else:
    sys.exit("page2 is in no bucket")
END
expect 1 "$pagefs" fsck --verify "$disk"
says "a/page2: 1 of its 1 chunks are lost"
says "INCOMPLETE 1 pages"
mount_start
expect 1 "$pagefs" get "$mount/a/page2"
says "no such page"
cmp "$scratch/page1" "$mount/a/page1"
cmp "$scratch/page3" "$mount/a/page3"
mount_end
