# SPDX-License-Identifier: Apache-2.0
# The kernel's driver finds the card, keeps data, file systems and their order on it, and comes and goes.
. /run/guest/lib.sh
disk=/dev/skd0
queue=/sys/block/skd0/queue

about "start"
modprobe skd
dmesg | grep 's1120 ONLINE'
[ $(cat /sys/block/skd0/size) = $sectors ]
(cd $queue && grep -s . * || true) | paste -sd ' '
[ $(cat $queue/max_hw_sectors_kb) = 1024 ]
[ "$(cat $queue/write_cache)" = "write back" ]
[ $(cat $queue/fua) = 1 ]

for depth in 1 8 64; do
    about "data, depth $depth"
    data $disk $depth 4m --bsrange=512-128k --blockalign=512 --rw=randrw
done
data $disk 16 16m --bs=1m

about "flush and FUA"
data $disk 4 2m --bs=4k --fsync=8
data $disk 4 1m --bs=4k --sync=1

file_system $disk "mkfs.ext4 -q -F" "e2fsck -fn"
umount /mnt
quiet

# Removed, and loaded again with each type of interrupts; their lines in /proc/interrupts.
lines() { grep -c skd /proc/interrupts; }
for type in "0 1 IO-APIC" "1 1 PCI-MSI" "2 13 PCI-MSI"; do
    set -- $type
    about "skd_isr_type=$1, 14 requests in a message"
    modprobe -r skd
    [ ! -e $disk ]
    modprobe skd skd_isr_type=$1 skd_max_queue_depth=200 skd_max_req_per_msg=14
    [ -b $disk ]
    grep skd /proc/interrupts
    [ $(lines) = $2 ]
    [ $(grep skd /proc/interrupts | grep -c $3) = $2 ]
    before=$(interrupts skd)
    data $disk 64 4m --bs=4k
    data $disk 1 512k --bs=4k
    [ $(interrupts skd) -gt $((before + 100)) ]
done
modprobe -r skd
quiet

about "our driver, without an IOMMU"
address=$(card_address)
ends_with "PCI card $address is behind no IOMMU" $MQBLK info skd+pci://$address
ends_with "no PCI card at 0000:00:1e.7" $MQBLK info skd+pci://0000:00:1e.7
