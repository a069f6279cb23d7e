# SPDX-License-Identifier: Apache-2.0
# The card changes hands between the kernel's driver, where there is one, nobody and ours; what is missing is said.
. /run/guest/lib.sh
address=$(card_address)
uri=skd+pci://$address

verified() { $MQBLK bench --verify --rw randrw "$@" >/run/bench.log 2>&1; }

if modprobe -q skd; then
    about "the kernel's own driver, behind the IOMMU"
    data /dev/skd0 16 2m --bsrange=512-64k --blockalign=512
    dd if=/dev/urandom of=/run/kept bs=1M count=2 status=none
    dd if=/run/kept of=/dev/skd0 bs=1M seek=32 oflag=direct conv=fsync status=none
    ends_with "is bound to skd, not to vfio-pci" $MQBLK info $uri
    taken_over=1
else
    ends_with "is bound to no driver, not to vfio-pci" $MQBLK info $uri
fi

about "bound to vfio-pci"
modprobe vfio-pci
modprobe vfio_iommu_type1
hand_to $address vfio-pci
$MQBLK info $uri
$MQBLK info --json $uri >/run/info
grep -q MQBLKGUEST02 /run/info
grep -q $bytes /run/info
if [ ${taken_over:-} ]; then
    $MQBLK read $uri --offset 32M --length 2M -o /run/back
    cmp /run/kept /run/back
fi

for type in 0 1 2; do
    about "isr_type=$type"
    for depth in 1 32; do
        verified "$uri?isr_type=$type" --bs 4k --depth $depth --size 4M
    done
    verified "$uri?isr_type=$type&max_req_per_msg=1" --bs 512 --depth 32 --size 1M
    verified "$uri?isr_type=$type" --bs 1M --depth 4 --size 32M
done
verified $uri --bs 4k --depth 32 --size 4M --poll

many() { [ $(interrupts $1) -gt 100 ]; }
about "killed under load, and opened again"
for type in 0/vfio-intx 1/vfio-msi 2/vfio-msix; do
    $MQBLK bench --verify --rw randrw --bs 4k --depth 32 --time 10m "$uri?isr_type=${type%/*}" >/run/killed.log 2>&1 &
    eventually many ${type#*/}
    ends_with "another process uses the card" $MQBLK info $uri
    kill -9 $!
    wait $! 2>/dev/null || true
    verified $uri --bs 4k --depth 32 --size 1M
done

about "not root"
group=/dev/vfio/$(basename $(readlink /sys/bus/pci/devices/$address/iommu_group))
user() { setpriv --reuid=1000 --regid=1000 --clear-groups --no-new-privs "$@"; }
ends_with "no permission: run \`chown \$USER $group\` as root" user $MQBLK info $uri
chown 1000 $group
(ulimit -l 64 && ends_with "raise \`ulimit -l\`" user $MQBLK info $uri)
(ulimit -l unlimited && user $MQBLK bench --verify --rw randrw --bs 4k --size 1M $uri >/run/bench.log)

about "and back"
$MQBLK write $uri -i /run/guest/lib/mqblk --length 2M --fua
hand_to $address
if [ ${taken_over:-} ]; then
    hand_to $address skd
    disk=/dev/$(cd /sys/block && echo skd*) # skd1: it counts on
    cmp -n 2M $disk /run/guest/lib/mqblk
    data $disk 16 1m --bs=4k
    modprobe -r skd
fi
ends_with "is bound to no driver" $MQBLK info $uri
dmesg | grep -E 'BUG:|WARNING:|Oops|hung|DMAR:.*fault' && fail "the kernel complained"
exit 0
