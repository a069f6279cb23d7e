#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Configures a preset if it never was and builds it: build.sh PRESET [TARGET...]. Silent when all is up to date; what it
# has to say goes to standard error, so that the output of a program run afterwards stays clean.
set -eu
cd "$(dirname "$0")/.."
preset=$1
shift
tree=build/$preset

if [ ! -f "$tree/build.ninja" ]; then
    mkdir -p "$tree"
    cmake --preset "$preset" >"$tree/configure.log" 2>&1 || {
        cat "$tree/configure.log" >&2
        echo "mqblk: preset $preset could not be configured; the lines above say why" >&2
        exit 1
    }
fi

ninja -C "$tree" -n "$@" 2>/dev/null | grep -q 'no work to do' && exit 0
echo "mqblk: building $tree" >&2
exec ninja -C "$tree" -j"$(nproc)" "$@" >&2
