# SPDX-License-Identifier: Apache-2.0
# Discovery, connections of every kind, verified data, file systems.
. /run/guest/lib.sh

modprobe nvme-tcp

about "discovery finds both subsystems"
nvme discover -t tcp -a $HOST -s $port -o json >/run/found
for nqn in $disks $more; do grep -q "\"subnqn\":\"$nqn\"" /run/found; done
fails grep -q unrecognized /run/found

about "connect-all, to the address that discovery gave"
socat TCP-LISTEN:$port,bind=127.0.0.1,fork,reuseaddr TCP:$HOST:$port &
forwarder=$!
eventually eval "ss -ltn | grep -q 127.0.0.1:$port"
nvme connect-all -t tcp -a $HOST -s $port
for nqn in $disks $more; do eventually has_disk $nqn 1; done
nvme list
nvme disconnect-all
kill $forwarder

for digests in "" "--hdr-digest" "--data-digest" "--hdr-digest --data-digest"; do
    about "two I/O queues, digests: ${digests:-none}"
    connect $disks --nr-io-queues=2 $digests
    [ $(cat /sys/class/nvme/$(controller $disks)/queue_count) = 3 ]
    file=$(disk $disks 1)
    # Writes up to 16 KiB travel in their capsules, larger ones are asked for.
    fio --name=verify --filename=$file:$(disk $disks 2) --direct=1 --ioengine=libaio --rw=randwrite \
        --bsrange=4k-1m --blockalign=4k --size=24m --io_size=12m --iodepth=64 --verify=crc32c --minimal >/run/fio.log
    fio --name=small --filename=$file --direct=1 --ioengine=libaio --rw=randwrite --bsrange=512-16k \
        --blockalign=512 --size=2m --iodepth=1 --verify=crc32c --minimal >/run/fio.log
    nvme disconnect -n $disks
done

connect $disks
file=$(disk $disks 1) ram=$(disk $disks 2)

trimmed() {
    fstrim -v /mnt
    umount /mnt
    quiet
}
file_system $file "mkfs.ext4 -q -F" "e2fsck -fn"
trimmed
modprobe xfs
file_system $ram "mkfs.xfs -q -f" "xfs_repair -n"
trimmed

about "zeroes and discards"
for disk in $file $ram; do
    head -c 4M /dev/urandom >/run/data
    dd if=/run/data of=$disk bs=1M oflag=direct status=none
    blkdiscard -z -o 1M -l 1M $disk
    blkdiscard -o 2M -l 1M $disk
    forget
    cmp -n 1M $disk /run/data
    cmp -n 2M -i 1M:0 $disk /dev/zero # a discarded block may hold anything; of a RAM disk or a file it is zeroes
    cmp -n 1M -i 3M $disk /run/data
done
fio --name=trim --filename=$file --direct=1 --ioengine=libaio --rw=randtrimwrite --bs=64k --size=16m --io_size=8m --minimal >/run/fio.log

about "FUA and flush"
[ $(cat /sys/block/${file#/dev/}/queue/fua) = 1 ]
[ "$(cat /sys/block/${file#/dev/}/queue/write_cache)" = "write back" ]
fio --name=synced --filename=$file --direct=1 --sync=1 --ioengine=psync --rw=randwrite --bs=4k --size=4m --io_size=128k --minimal >/run/fio.log
fio --name=flushed --filename=$file --direct=1 --fsync=1 --ioengine=psync --rw=randwrite --bs=4k --size=4m --io_size=128k --minimal >/run/fio.log

nvme disconnect-all
quiet
step unused
