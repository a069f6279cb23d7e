#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Configures a preset if it never was and builds it: build.sh [--quiet] PRESET [TARGET...]. What it has to say goes to
# standard error, so that the output of a program run afterwards stays clean; --quiet says nothing unless it fails.
set -eu
cd "$(dirname "$0")/.."
quiet=
if [ "$1" = --quiet ]; then
    quiet=--quiet
    shift
fi
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
[ -n "$quiet" ] || echo "mqblk: building $tree" >&2
cd "$tree"
if [ -n "$quiet" ]; then
    # ninja has "no work to do" even then: only what goes wrong is news.
    ninja --quiet -j"$(nproc)" "$@" >build.log 2>&1 || { cat build.log >&2; exit 1; }
else
    exec ninja -j"$(nproc)" "$@" >&2
fi
