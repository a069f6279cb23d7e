# SPDX-License-Identifier: Apache-2.0
# From a saved state on: connects, keeps writes of a megabyte under way, and waits for its end.
. /run/guest/lib.sh

modprobe nvme-tcp
dd if=/dev/urandom of=/run/data bs=1M count=1 status=none
step save
echo "transport=tcp,traddr=$HOST,trsvcid=$port,nqn=$disks" >/dev/nvme-fabrics
eventually has_disk $disks 1
disk=$(disk $disks 1)
for place in 1 2 3; do
    while dd if=/run/data of=$disk bs=1M seek=$place oflag=direct status=none; do :; done &
done
step kill
fail "the host did not kill this guest"
