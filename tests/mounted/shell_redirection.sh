#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A shell's `command >file` opens, duplicates, closes, and writes later: nobody
# reads an empty page meanwhile, and one version is published in all.
set -euo pipefail
# shellcheck source=tests/mounted/mount.bash
source tests/mounted/mount.bash
mount_start

commits() {
	sed -n 's/^commits_total //p' "$mount/.pagefs/stats"
}

echo old >"$mount/page"
[ "$(commits)" = 1 ] || failed "one echo made $(commits) versions"

(sleep 0.4 && echo new) >"$mount/page" &
sleep 0.2
[ "$(cat "$mount/page")" = old ] || failed "an empty page was published"
wait
[ "$(cat "$mount/page")" = new ] || failed "what was written is not there"
[ "$(commits)" = 2 ] || failed "two writers made $(commits) versions"

: >"$mount/empty"
[ -e "$mount/empty" ] || failed "an empty page is not there after its close"
mount_end
