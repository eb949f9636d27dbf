#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The man pages are free of what mandoc complains about.
set -eu
if ! command -v mandoc >/dev/null; then
	echo "mandoc is not installed"
	exit 77
fi
mandoc -Tlint -Wwarning tools/man/*.[158]
