#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing of the given sections of packages.txt: install-packages.sh SECTION...
# Says once what it installs, and is silent when nothing is missing. Needs root or sudo only when it has to install.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
log=$here/../build/packages.log

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "mqblk: this system has no apt-get; the packages that $here/packages.txt lists must be there" >&2
    exit 0
fi

missing=
for section in "$@"; do
    for package in $(sed -n "/^\[$section\]/,/^\[/{/^[a-z]/p}" "$here/packages.txt"); do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
    done
done
[ -n "$missing" ] || exit 0

root=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "mqblk: packages are missing; as root, run: apt-get install --no-install-recommends$missing" >&2
        exit 1
    fi
    root="sudo"
fi

echo "mqblk: installing$missing (details in build/packages.log)" >&2
mkdir -p "$(dirname "$log")"
: >"$log"

apt() { $root env DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Use-Pty=0 -qq "$@" >>"$log" 2>&1 </dev/null; }
install() { apt install -y --no-install-recommends $missing; }

# The package lists are fetched only where they are absent or too old to install from.
install || { apt update && install; } || {
    tail -n 20 "$log" >&2
    echo "mqblk: apt-get could not install$missing; the lines above say why" >&2
    exit 1
}
