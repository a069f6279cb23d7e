# SPDX-License-Identifier: Apache-2.0
# The target dies, sleeps, and is cut off, while data are written and verified: nothing is lost, nobody hangs.
. /run/guest/lib.sh

modprobe nvme-tcp
connect $disks --keep-alive-tmo=2 --reconnect-delay=1 --ctrl-loss-tmo=600
disk=$(disk $disks 1)
state=/sys/class/nvme/$(controller $disks)/state

load() {
    until [ -e /run/enough ]; do
        fio --name=load --filename=$disk --direct=1 --ioengine=libaio --rw=randwrite --bsrange=4k-256k --blockalign=4k \
            --size=16m --io_size=16m --iodepth=8 --fsync=16 --verify=crc32c --allow_file_create=0 --minimal >/run/fio.log || return
    done
}

# Live again, and after a read that reached the target.
works() { [ "$(cat $state)" = live ] && dd if=$disk of=/dev/null bs=4k count=1 skip=4096 iflag=direct status=none; }
lost() { [ "$(cat $state)" != live ]; }

load &
loaded=$!
for time in 1 2 3; do
    sleep 2
    about "killed and started again, $time"
    step restart
    eventually works
done

about "stopped for longer than the keep-alive time"
step stop
eventually lost
step go-on
eventually works

about "no network"
step cut
step join
eventually works

touch /run/enough
wait $loaded
about "all that was written is there"

# Acknowledged and flushed, then killed: on the disk.
head -c 4M /dev/urandom >/run/data
dd if=/run/data of=$disk bs=256k seek=80 oflag=direct conv=fsync status=none
step restart
eventually works
echo 3 >/proc/sys/vm/drop_caches
cmp -n 4M -i 20M:0 $disk /run/data
if dmesg | grep -E 'I/O error|BUG:|WARNING:|Oops|hung task'; then fail "the kernel complained"; fi
nvme disconnect-all
step as-before
