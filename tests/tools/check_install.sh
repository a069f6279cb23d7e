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

echo "find_package in C alone:"
cmake -S "$root/tests/consumer/c" -B "$scratch/consumer-c" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/log" 2>&1 &&
    cmake --build "$scratch/consumer-c" >>"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
"$scratch/consumer-c/consumer"

echo "pkg-config:"
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name mqblk.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046  # flags are words
case $(pkg-config --cflags mqblk) in *-std=* | *SPDLOG*) echo "flags that are no concern of users"; exit 1 ;; esac
# shellcheck disable=SC2046
${CXX:-g++} -std=c++23 $(pkg-config --cflags mqblk) "$root/tests/consumer/main.cpp" -o "$scratch/by-pkg-config" $(pkg-config --libs mqblk)
"$scratch/by-pkg-config"

echo "pkg-config in C:"
# shellcheck disable=SC2046
${CC:-gcc} $(pkg-config --cflags mqblk) "$root/tests/consumer/c/main.c" -o "$scratch/c-by-pkg-config" $(pkg-config --libs mqblk)
"$scratch/c-by-pkg-config"
