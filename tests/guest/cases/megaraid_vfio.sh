# SPDX-License-Identifier: Apache-2.0
# Each card: what it says, verified I/O on each of its disks, a kill under load; then what is not there.
. /run/guest/lib.sh

modprobe vfio-pci
modprobe vfio_iommu_type1
ends_with "is bound to no driver, not to vfio-pci" $MQBLK info megaraid+pci://0000:00:10.0/ld/0

verified() { $MQBLK bench --verify --rw randrw --range 16M "$@" >/run/bench.log 2>&1; }

# Disk $1 is to be of generation $2, with interrupts of kind $3.
try_disk() {
    local uri=$1
    $MQBLK info --json $uri >/run/info
    grep -q "\"$bytes\"\|[ :]$bytes\b" /run/info
    grep -q "\"$2\"" /run/info
    grep -q "\"$3\"" /run/info
    verified $uri --bs 4k --depth 32 --size 2M
    verified $uri --bs 512 --depth 4 --size 64k
    verified $uri --bs 1M --depth 4 --size 16M
    $MQBLK write $uri -i /run/guest/lib/mqblk --offset 20M --length 2M
    $MQBLK flush $uri
    $MQBLK read $uri --offset 20M --length 2M -o /run/back
    cmp -n 2M /run/back /run/guest/lib/mqblk
}

many() { [ $(interrupts $1) -gt 20 ]; }

# Card $1 has disks $4 of generation $2, with interrupts of kind $3.
try_card() {
    local card=0000:00:$1.0 disk
    about "$card, $2, $3: $4"
    hand_to $card vfio-pci
    ends_with "there are ${4// /, }" $MQBLK info megaraid+pci://$card/ld/77
    for disk in $4; do try_disk megaraid+pci://$card/$disk $2 $3; done
    disk=megaraid+pci://$card/${4%% *}
    verified $disk --bs 4k --depth 1 --size 256k --poll
    $MQBLK bench --verify --rw randrw --range 16M --bs 4k --depth 32 --time 10m $disk >/run/killed.log 2>&1 &
    eventually many vfio-$3
    kill -9 $!
    wait $! 2>/dev/null || true
    verified $disk --bs 4k --depth 32 --size 1M
}

try_card 10 sas1078 msix "ld/0 ld/1 ld/2"
try_card 11 sas1078 intx "ld/0"
try_card 12 gen2 msix "ld/0 ld/1"
try_card 13 gen2 msi "pd/0"

about "another card is not touched"
other=$(basename $(dirname $(grep -l 0x1af4 /sys/bus/pci/devices/*/vendor | head -n 1)))
ends_with "no MegaRAID controller that this driver knows" $MQBLK info megaraid+pci://$other/ld/0

for card in 10 11 12 13; do hand_to 0000:00:$card.0; done
dmesg | grep -E 'BUG:|WARNING:|Oops|hung|DMAR:.*fault' && fail "the kernel complained"
exit 0
