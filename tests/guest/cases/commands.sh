# SPDX-License-Identifier: Apache-2.0
# What nvme-cli asks is answered; what the target does not do is refused by its right name, and the connection stays.
. /run/guest/lib.sh

modprobe nvme-tcp
connect $disks --nr-io-queues=1
name=$(controller $disks)
device=/dev/$name
disk=$(disk $disks 1)
connected=$(cat /sys/class/nvme/$name/cntlid)

# says PATTERN COMMAND…: succeeds, and prints a line that fits; also PATTERN: and another one that does
says() {
    local pattern=$1
    shift
    "$@" >/run/said
    also "$pattern"
}
also() { grep -Eq -- "$1" /run/said || fail "no '$1' in: $(cat /run/said)"; }

about "identify"
says '^mn +: mqblk' nvme id-ctrl $device
also '^mdts +: 8'
also '^subnqn +: '$disks
says '^nsze +: 0x20000$' nvme id-ns $disk
also 'lbads:9 .*in use'
says '0x1$' nvme list-ns $device
also '0x3$'
fails grep -q 0x4 /run/said
says '^uuid +: [0-9a-f]{8}-' nvme ns-descs $disk
says 'lbads:12' nvme id-ns $device --namespace-id=2

about "logs"
says '^available_spare' nvme smart-log $device
also '^host_read_commands'
says '^error_count' nvme error-log $device --log-entries=4
nvme changed-ns-list-log $device
says 'frs1' nvme fw-log $device
says 'state.*optimized' nvme ana-log $device
says 'IOCS9 ' nvme effects-log $device --csi=0

about "features"
for feature in 0x01 0x02 0x04 0x05 0x06 0x07 0x0a 0x0b 0x0e 0x0f 0x16; do
    says 'get-feature:' nvme get-feature $device --feature-id=$feature
done
nvme set-feature $device --feature-id=0x06 --value=0
says 'Current value:0+$' nvme get-feature $device --feature-id=0x06
nvme set-feature $device --feature-id=0x06 --value=1

about "I/O commands"
head -c 4096 /dev/urandom >/run/data
nvme write $disk --start-block=16 --block-count=7 --data-size=4096 --data=/run/data --force-unit-access
nvme compare $disk --start-block=16 --block-count=7 --data-size=4096 --data=/run/data
nvme read $disk --start-block=16 --block-count=7 --data-size=4096 --data=/run/back
cmp /run/data /run/back
nvme verify $disk --start-block=16 --block-count=7
nvme write-zeroes $disk --start-block=16 --block-count=3
nvme dsm $disk --ad --slbs=20 --blocks=2
nvme flush $disk
{ head -c 3072 /dev/zero && tail -c 1024 /run/data; } >/run/expected
nvme read $disk --start-block=16 --block-count=7 --data-size=4096 --data=/run/back
cmp /run/expected /run/back
quiet

# refused STATUS COMMAND…
refused() {
    local status=$1
    shift
    if "$@" >/run/said 2>&1; then fail "this should have been refused with $status: $*"; fi
    grep -qi "($status)" /run/said || fail "$* should have been refused with $status: $(cat /run/said)"
}

about "refused: admin commands (DNR | Invalid Command Opcode)"
for opcode in 0x00 0x01 0x04 0x05 0x0d 0x10 0x11 0x14 0x15 0x1c 0x7c 0x80 0x81 0x84 0xc0; do
    refused 0x4001 nvme admin-passthru $device --opcode=$opcode
done

about "refused: I/O commands, out of range, no such thing"
for opcode in 0x04 0x0d 0x0e 0x19 0x79 0x7d 0x80; do
    refused 0x4001 nvme io-passthru $disk --opcode=$opcode --namespace-id=1
done
refused 0x4285 nvme compare $disk --start-block=16 --block-count=7 --data-size=4096 --data=/run/data
refused 0x4080 nvme verify $disk --start-block=0x1ffff --block-count=1
refused 0x4080 nvme dsm $disk --ad --slbs=0x1ffff --blocks=2
refused 0x4109 nvme get-log $device --log-id=0x99 --log-len=512
refused 0x4002 nvme admin-passthru $device --opcode=6 --cdw10=0x77 --data-len=4096 --read
for feature in 0x03 0x08 0x0c 0x0d 0x10 0x13 0x84 0xc0; do
    refused 0x4002 nvme get-feature $device --feature-id=$feature --namespace-id=1
done
refused 0x400b nvme id-ns $device --namespace-id=0x5000
refused 0x4020 nvme write $(disk $disks 3) --start-block=0 --block-count=0 --data-size=512 --data=/run/data
dmesg -c | grep -E 'reset|reconnect|recovery|lost' && fail "the connection suffered"
[ "$(cat /sys/class/nvme/$name/cntlid)" = $connected ]
[ "$(cat /sys/class/nvme/$name/state)" = live ]

about "limits"
for found in $disk $(disk $disks 2); do
    echo "$found, namespace $(cat /sys/block/${found#/dev/}/nsid):"
    (cd /sys/block/${found#/dev/}/queue && grep -s . * || true) | tee /run/limits | paste -sd ' '
    step limits $(cat /sys/block/${found#/dev/}/nsid) $(cat /run/limits | tr ' ' _)
done
[ "$(cat /sys/block/$(basename $(disk $disks 3))/ro)" = 1 ]

nvme disconnect -n $disks
