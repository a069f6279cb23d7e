# SPDX-License-Identifier: Apache-2.0
# The kernel's driver finds the controller and all behind it, keeps data there, and comes and goes.
. /run/guest/lib.sh

# Writes and reads 24 MiB of a disk in requests of 3 MiB, each from and to 1024 pieces of memory in odd order; compares.
scattered() {
    python3 - $1 <<'END'
import mmap, os, random, sys
chance = random.Random(1)
disk = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
size, pieces = 3 << 20, 1024

def scatter(memory):
    """A request's worth of memory in pieces of 512 bytes to 5.5 KiB, in an order of its own."""
    cuts = sorted(512 * cut for cut in chance.sample(range(1, size // 512), pieces - 1))
    parts = [memory[begin:end] for begin, end in zip([0, *cuts], [*cuts, size])]
    chance.shuffle(parts)
    return parts

out, back = memoryview(mmap.mmap(-1, size)), memoryview(mmap.mmap(-1, size))
for place in range(0, 8 * size, size):
    out[:] = chance.randbytes(size)
    parts = scatter(out)
    written = b"".join(parts)
    assert os.pwritev(disk, parts, place) == size
    assert os.preadv(disk, [back], place) == size
    assert back == written, "written from many pieces"
    back[:] = bytes(size)
    parts = scatter(back)
    assert os.preadv(disk, parts, place) == size
    assert b"".join(parts) == written, "read into many pieces"
END
}

about "start"
megaraid_up
for unit in "pd/0 64" "pd/1 48" "ld/0 128" "ld/1 64"; do
    set -- $unit
    [ $(sectors $1) = $(($2 << 11)) ]
done
[ $(cat $(queue pd/0)/logical_block_size) = 512 ]
[ $(cat $(queue pd/1)/logical_block_size) = 4096 ]
[ $(ls -d /sys/bus/scsi/devices/*:*:*:* | wc -l) = 4 ]
(cd $(queue ld/0) && grep -s . max_sectors_kb max_hw_sectors_kb max_segments nr_requests) | paste -sd ' '
grep megasas /proc/interrupts
quiet
dmesg -n 4

about "data: random sizes, and large requests of many small pieces"
for unit in pd/0 pd/1 ld/0 ld/1; do data $(unit $unit) 32 4m --bsrange=4k-256k --blockalign=4k; done
most=$(cat $(queue ld/0)/max_hw_sectors_kb)
for unit in pd/0 ld/0; do
    echo $most >$(queue $unit)/max_sectors_kb
    scattered $(unit $unit)
    data $(unit $unit) 4 24m --bs=3m
done
before=$(step counter fast_path)
dd if=$(unit ld/1) of=/dev/null bs=64k count=16 iflag=direct status=none
dd if=$(unit ld/0) of=/dev/null bs=64k count=16 iflag=direct status=none
dd if=$(unit pd/0) of=/dev/null bs=64k count=16 iflag=direct status=none
[ $(step counter fast_path) -ge $((before + 48)) ]
quiet

file_system $(unit ld/0) "mkfs.ext4 -q -F" "e2fsck -fn"
umount /mnt
quiet

about "under load: a disk comes, is used, goes; a volume goes and comes"
begin ld/0
new=$(step plug "ram://?size=32M")
eventually there $new
[ $(sectors $new) = $((32 << 11)) ]
data $(unit $new) 16 4m --bs=64k
step pull $new
eventually gone $new
step pull ld/1
eventually gone ld/1
step plug ld/1
eventually there ld/1
data $(unit ld/1) 16 4m --bs=64k
step plug $new
eventually there $new
data $(unit $new) 16 4m --bs=64k --verify_only
end
quiet

about "a disk goes under its own load, which fails; the one beside it does not notice"
begin ld/0
fio --name=lost --filename=$(unit $new) --direct=1 --ioengine=libaio --rw=randrw --bs=4k --iodepth=16 --time_based --runtime=120 \
    >/run/lost.log 2>&1 &
losing=$!
busy() { [ $(mawk '{ print $1 + $5 }' $(unit_folder $new)/stat) -gt 2000 ]; }
eventually busy
step pull $new
eventually gone $new
fails wait $losing
end
sane

about "resets under load: of a device, a target, the host"
begin ld/0
dmesg -c >/dev/null
# The driver has no reset of a device, so the kernel goes on to its target; and to the host where a busy machine has not
# let the driver see all that the reset ended before it looks.
for time in 1 2; do
    for unit in ld/0 pd/0; do
        sg_reset -d $(unit $unit)
        sg_reset -t $(unit $unit)
        sleep 0.3
    done
done
sg_reset -N -H $(unit ld/0)
end
echo "$(dmesg | grep -c 'target reset SUCCESS') of 8 resets of a target did"
dmesg | grep -q 'target reset SUCCESS'
dmesg | grep -q 'OCR is requested'
sane
step idle

about "removed, and loaded again"
dd if=/dev/urandom of=/run/kept bs=1M count=4 status=none
dd if=/run/kept of=$(unit pd/0) bs=1M oflag=direct conv=fsync status=none
for time in 1 2; do
    modprobe -r megaraid_sas
    gone pd/0
    megaraid_up
done
cmp -n 4M $(unit pd/0) /run/kept
data $(unit ld/0) 16 4m --bs=64k
quiet
