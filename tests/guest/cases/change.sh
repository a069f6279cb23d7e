# SPDX-License-Identifier: Apache-2.0
# Namespaces come, grow, shrink and go under load; each change is seen once, without a new connection.
. /run/guest/lib.sh

modprobe nvme-tcp
connect $disks
name=$(controller $disks)
connected=$(cat /sys/class/nvme/$name/cntlid)
dmesg -C

load() { # verified writes to a disk until /run/enough is there
    until [ -e /run/enough ]; do
        fio --name=load --filename=$1 --direct=1 --ioengine=libaio --rw=randwrite --bsrange=4k-64k --blockalign=4k \
            --size=8m --iodepth=8 --verify=crc32c --allow_file_create=0 --minimal >/run/fio.log || return
    done
}
load $(disk $disks 1) &
loaded=$!

size_of() { cat /sys/block/${1#/dev/}/size; }
sized() { [ "$(size_of $1)" = $2 ]; }
gone() { ! has_disk $disks $1; }
changes=0
changed() { # STEP… CONDITION…, separated by --
    local said=
    while [ "$1" != -- ]; do said="$said $1" && shift; done
    shift
    step $said
    eventually "$@"
    changes=$((changes + 1))
}

for round in 1 2; do
    about "add, grow, shrink, remove, round $round"
    changed ctl add ram://?size=16M --nsid 7 -- has_disk $disks 7
    disk=$(disk $disks 7)
    dd if=/dev/urandom of=$disk bs=1M count=16 oflag=direct status=none
    changed ctl resize 7 32M -- sized $disk 65536
    dd if=/dev/urandom of=$disk bs=1M count=32 oflag=direct status=none
    changed ctl resize 7 8M --shrink -- sized $disk 16384
    fails dd if=$disk of=/dev/null bs=1M skip=16 count=1 iflag=direct status=none
    changed ctl remove 7 -- gone 7
    changed ctl resize 1 $((64 + round))M -- sized $(disk $disks 1) $(((64 + round) * 2048))
done
touch /run/enough
wait $loaded
sleep 1
[ $(dmesg | grep -c 'rescanning namespaces') = $changes ] || fail "$changes changes, but: $(dmesg | grep rescanning)"
[ "$(cat /sys/class/nvme/$name/cntlid)" = $connected ]
quiet

about "removed under load"
step ctl add ram://?size=16M --nsid 9
eventually has_disk $disks 9
rm /run/enough
load $(disk $disks 9) 2>/run/errors &
loaded=$!
sleep 2
step ctl remove 9
fails wait $loaded
cat /run/errors
eventually gone 9
[ "$(cat /sys/class/nvme/$name/cntlid)" = $connected ]
[ "$(cat /sys/class/nvme/$name/state)" = live ]
dd if=$(disk $disks 1) of=/dev/null bs=1M count=4 iflag=direct status=none
dmesg -c | grep -E 'BUG:|WARNING:|Oops|hung' && fail "the kernel complained"
nvme disconnect -n $disks
step as-before

about "two subsystems, two hosts, one of them not allowed everywhere"
other_nqn=nqn.2026-01.org.example:other other_id=2c9b0f3a-5d6e-4f70-8a91-b2c3d4e5f607
other="--hostnqn=$other_nqn --hostid=$other_id"
connect $disks
connect $more
# nvme-cli takes a second host for the first one.
echo "transport=tcp,traddr=$HOST,trsvcid=$port,nqn=$disks,hostnqn=$other_nqn,hostid=$other_id" >/dev/nvme-fabrics
eventually eval '[ $(grep -lx $disks /sys/class/nvme/nvme*/subsysnqn | wc -l) = 2 ]'
step hosts 3
nvme disconnect-all

step ctl allow-any-host off --nqn $more
step ctl allow-host $other_nqn --nqn $more
fails nvme connect -t tcp -a $HOST -s $port -n $more
dmesg -c | grep 'is not allowed'
nvme discover -t tcp -a $HOST -s $port >/run/found
fails grep $more /run/found
nvme discover -t tcp -a $HOST -s $port $other >/run/found
grep $more /run/found
connect $more $other
nvme disconnect-all
step as-before
