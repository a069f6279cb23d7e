#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs one fuzzer for ten seconds (MQBLK_FUZZ_SECONDS for longer) on its corpus; new inputs stay in the build tree.
set -eu
program=$1 name=$2
here=$(dirname "$(readlink -f "$0")")
found=$(dirname "$program")/found-$name
mkdir -p "$found"
corpus=
[ -d "$here/corpus/$name" ] && corpus=$here/corpus/$name
exec "$program" -max_total_time="${MQBLK_FUZZ_SECONDS:-10}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$found/" "$found" $corpus
