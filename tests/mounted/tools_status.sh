#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# pagefs status shows what the daemon counts; control files can be read.
set -euo pipefail
# shellcheck source=tests/mounted/mount.bash
source tests/mounted/mount.bash

expect 1 "$pagefs" status "$mount"
says "no pagefs mount there"
mount_start
head -c 1000000 /dev/urandom >"$scratch/page"
"$pagefs" put --sync "$scratch/page" "$mount/page"
cmp "$scratch/page" "$mount/page"
"$pagefs" evict "$mount/page"
cmp "$scratch/page" "$mount/page"

expect 0 "$pagefs" status "$mount"
says "mount     $mount"
says "daemon    $("$pagefs" version), pid "
says "reads     2: 50.0% from memory, 50.0% from disk, 0.0% failed"
says "1 page committed, 0 pending, 1 evicted"
! grep ALARM "$scratch/out" || failed "an alarm on a healthy mount"

# Whatever the tools read is there.
"$pagefs" status --json "$mount" >"$scratch/stats.json"
python3 - "$scratch/stats.json" tools/*.c <<'END'
import json, re, sys
stats = json.load(open(sys.argv[1]))
reads = re.compile(r'\b(?:number|count|word)\(stats,\s*"(\w+)"|'
                   r'add_bytes\(out, stats,\s*"(\w+)"|'
                   r'bench_daemon_counter\([^"()]*"(\w+)"|'
                   r'json_object_get\(stats,\s*"(\w+)"|'
                   r'^\t\{"(\w+)",\n\t "', re.M)
names = set()
for path in sys.argv[2:]:
    for found in reads.findall(open(path).read()):
        names.add("".join(found))
assert {"uptime_seconds", "pid", "disk_alarm", "memory_dirty_bytes",
        "hits_disk_total", "index_disk_bytes"} <= names, names
missing = names - stats.keys()
assert not missing, missing
assert stats["hits_disk_total"] == 1 and stats["hits_memory_total"] == 1
END
sleep 1
[ "$(python3 -c 'import json, sys
print(json.load(sys.stdin)["uptime_seconds"] > 0)' \
	<"$mount/.pagefs/stats.json")" = True ] || failed "it is never up"
timeout 1.5 "$pagefs" status --watch 0.5 "$mount" >"$scratch/out" || true
[ "$(grep -c '^mount ' "$scratch/out")" -ge 2 ] || failed "--watch shows once"

for file in stats metrics config negative; do
	cat "$mount/.pagefs/$file" >"$scratch/$file"
done
grep -qx 'memory = 128M' "$scratch/config" || failed "config lacks memory"
grep -qx "disk = $disk" "$scratch/config" || failed "config lacks the disk"
! grep -E '^(umask|defaults|rw|auto) ' "$scratch/config" ||
	failed "config has options that say nothing"
[ "$(id -u)" != 0 ] || grep -qx 'allow_other = yes' "$scratch/config" ||
	failed "config says that others may not use root's mount"
grep -q '^pagefs_hits_disk_total 1$' "$scratch/metrics" || failed "metrics"
! ls -a "$mount" | grep -q pagefs || failed ".pagefs is listed"

expect 0 "$pagefs" doctor --disk "$disk" --memory 16M
says "fuse device"
