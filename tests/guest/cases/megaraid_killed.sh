# SPDX-License-Identifier: Apache-2.0
# The controller is gone from one moment to the next, under load.
. /run/guest/lib.sh
megaraid_up
dmesg -n 4
dd if=/dev/urandom of=/run/kept bs=1M count=4 status=none
dd if=/run/kept of=$(unit pd/0) bs=1M oflag=direct conv=fsync status=none
begin ld/0
sleep 1
step kill $(sha256sum </run/kept)

about "all I/O fails, nothing hangs"
fails wait $loaded # it goes on until it fails
fails dd if=$(unit pd/0) of=/dev/null bs=4k count=1 iflag=direct status=none
dmesg | grep 'I/O error' | head -n 3
sane
about "the driver lets go"
modprobe -r megaraid_sas
gone pd/0
sane
