# SPDX-License-Identifier: Apache-2.0
# What the guest before this one flushed is there; this one flushes something, and is killed under load.
. /run/guest/lib.sh
disk=/dev/skd0
sum() { sha256sum | cut -d' ' -f1; }

modprobe skd
[ $kept = nothing ] || [ $kept = $(dd if=$disk bs=1M count=4 iflag=direct status=none | sum) ]
head -c 4M /dev/urandom >/run/kept
dd if=/run/kept of=$disk bs=1M oflag=direct conv=fsync status=none
quiet
while data $disk 32 8m --offset=16m --bsrange=4k-128k --blockalign=4k; do :; done &
sleep 1
step kill $(sum </run/kept)
