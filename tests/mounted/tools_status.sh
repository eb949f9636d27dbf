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
says "1 pages committed, 0 pending, 1 evicted"
! grep ALARM "$scratch/out" || failed "an alarm on a healthy mount"

"$pagefs" status --json "$mount" | python3 -c '
import json, sys
stats = json.load(sys.stdin)
for name in ("version", "pid", "uptime_seconds", "pages", "directories",
             "logical_bytes", "memory_used_bytes", "memory_capacity_bytes",
             "memory_pinned_bytes", "memory_dirty_bytes",
             "memory_quarantined_bytes", "disk_cap_bytes", "disk_file_bytes",
             "disk_buckets", "pending_pages", "pending_bytes",
             "hits_memory_total", "hits_disk_total", "hits_empty_total",
             "misses_total", "failures_total", "busy_total", "commits_total",
             "evicted_pages_total", "negative_entries", "negative_hits_total",
             "io_engine", "io_why", "disk_alarm", "checksum_errors_total",
             "disk_errors_total", "timeouts_total", "lost_pages_total",
             "no_space_total", "unseen_processes_total"):
    assert name in stats, name
assert stats["hits_disk_total"] == 1 and stats["hits_memory_total"] == 1
assert 0 <= stats["uptime_seconds"] < 600
'
timeout 1.5 "$pagefs" status --watch 0.5 "$mount" >"$scratch/out" || true
[ "$(grep -c '^mount ' "$scratch/out")" -ge 2 ] || failed "--watch shows once"

for file in stats metrics config negative; do
	cat "$mount/.pagefs/$file" >"$scratch/$file"
done
grep -qx 'memory = 128M' "$scratch/config" || failed "config lacks memory"
grep -q '^pagefs_hits_disk_total 1$' "$scratch/metrics" || failed "metrics"
! ls -a "$mount" | grep -q pagefs || failed ".pagefs is listed"

expect 0 "$pagefs" doctor --disk "$disk" --memory 16M
says "fuse device"
