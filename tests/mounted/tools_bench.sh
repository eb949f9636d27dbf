#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The short form of pagefs bench offload: nothing missed, nothing wrong, and
# pages did come from disk.
set -euo pipefail
# shellcheck source=tests/mounted/mount.bash
source tests/mounted/mount.bash

"$pagefs" bench offload --directory "$scratch" --clients 4 --rounds 3 \
	--request-rate 0 --page-size 256K --memory 96M --json >"$scratch/json"
python3 - "$scratch/json" <<'END'
import json, sys
evicting, control = json.load(open(sys.argv[1]))["runs"]
assert evicting["name"] == "evicting" and control["name"] == "control"
for run in evicting, control:
    assert run["keys"] == 4 * 3 * 128, run
    assert run["misses"] == run["wrong"] == run["errors"] == 0, run
    assert run["hit_rate"] == 1, run
    assert run["disk_bytes_over_logical"] <= 1.05, run
assert evicting["evicted"] > 0 and evicting["hits_disk"] > 0, evicting
assert control["hits_memory"] > 0, control
END
