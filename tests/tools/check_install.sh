#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs a build tree into a scratch prefix and builds a consumer against it, found by CMake and by pkg-config, after
# moving the tree: check_install.sh ROOT BUILD
set -eu
root=$1 build=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/first" >/dev/null
mv "$scratch/first" "$scratch/prefix"
prefix=$scratch/prefix
"$prefix/bin/mqblk" --version

echo "find_package:"
cmake -S "$root/tests/consumer" -B "$scratch/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/log" 2>&1 &&
    cmake --build "$scratch/consumer" >>"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
"$scratch/consumer/consumer"

echo "pkg-config:"
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name mqblk.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046  # flags are words
${CXX:-g++} $(pkg-config --cflags mqblk) "$root/tests/consumer/main.cpp" -o "$scratch/by-pkg-config" $(pkg-config --libs mqblk)
"$scratch/by-pkg-config"
