# SPDX-License-Identifier: Apache-2.0
# What every guest-side script begins with: . /run/guest/lib.sh
#
#   about WHAT...          says what the following lines check
#   step NAME [WORD…]      lets the host act; prints its answer, fails when the host fails
#   eventually COMMAND…    tries again for a minute until the command succeeds
#   fails COMMAND…         succeeds when the command does not
#   ends_with SENTENCE COMMAND…  the command fails, with exit code 1 and one line that has this in it
#   fail WHY...            ends the test
#   quiet                  no I/O error and no complaint in the kernel's log since the last call
#   sane                   no complaint; I/O errors and resets are what is being tested
#   data DISK DEPTH SIZE [OPTION…]  fio writes at random places, reads back, verifies
#   file_system DISK MAKE CHECK  keeps this machine's programs, over unmount and check; is left mounted on /mnt
#   forget                 nothing of what was written is in this machine's memory when it is read again
#   interrupts LINE        how many came on the lines of /proc/interrupts that have this in it
#   card_address           of the S1120, for instance 0000:00:04.0
#   hand_to ADDRESS [DRIVER]  unbinds the PCI device, and binds it to the driver
#   megaraid_up            loads megaraid_sas; the disks of its controller are there
#   unit NAME              the disk pd/N or volume ld/N behind it, for instance /dev/sda; also: there, gone, sectors, queue
#   begin UNIT, end        a verified load on it meanwhile, which must lose nothing
#   $MQBLK                 our program, where the host's side brings it (mqblk=True)
# For NVMe/TCP: connect, has_disk, controller, disk.
#
# A command that fails ends the test and is named; the host shows the last lines of each /run/*.log.
set -eEuo pipefail
shopt -s inherit_errexit
HOST=10.0.2.2
MQBLK=/run/guest/mqblk
. /run/guest/settings
trap 'echo "FAILED in line $LINENO: $BASH_COMMAND" >&2' ERR

about() { echo "[$(cut -d' ' -f1 /proc/uptime)] $*"; }
fail() { echo "FAILED: $*" && exit 1; }
quiet() { if dmesg -c | grep -vF 'FW provided TM' | grep -E 'I/O error|BUG:|WARNING:|Oops|hung|timeout'; then fail "the kernel complained"; fi; }
sane() { if dmesg -c | grep -E 'BUG:|WARNING:|Oops|hung'; then fail "the kernel complained"; fi; }
fails() { if "$@"; then fail "this should not have succeeded: $*"; fi; }

ends_with() {
    local status=0
    "${@:2}" >/run/said 2>&1 || status=$?
    cat /run/said
    if [ $status != 1 ] || [ $(wc -l </run/said) != 1 ] || ! grep -qF -- "$1" /run/said; then
        fail "exit code $status where 1 was due, with: $1"
    fi
}

step() {
    local answer
    echo "step $*" >&3
    IFS= read -r answer <&3
    [ "${answer%% *}" = ok ] || fail "the host could not do '$*': ${answer#* }"
    echo "${answer#ok }"
}

eventually() {
    local end=$((SECONDS + 60))
    until "$@"; do
        [ $SECONDS -lt $end ] || fail "within a minute this did not come true: $*"
        sleep 0.1
    done
}

data() {
    fio --name=data --filename=$1 --direct=1 --ioengine=libaio --rw=randwrite --verify=crc32c --iodepth=$2 --size=$3 \
        --allow_file_create=0 "${@:4}" >/run/data.log
}

forget() { sync; echo 3 >/proc/sys/vm/drop_caches; }

file_system() {
    local disk=$1 make=$2 check=$3
    about "$make on $disk with this machine's programs"
    $make $disk
    mount $disk /mnt
    cp -a /usr/sbin /usr/bin/b* /usr/bin/n* /usr/bin/s* /usr/lib/python3* /mnt/ 2>/run/skipped || true
    (cd /mnt && find . -type f -exec sha256sum {} +) >/run/sums
    umount /mnt
    $check $disk
    forget
    mount $disk /mnt
    (cd /mnt && sha256sum --quiet -c /run/sums)
    echo "$(wc -l </run/sums) files, $(du -sm /mnt | cut -f1) MiB came back"
}

interrupts() { mawk -v line="$1" 'index($0, line) { sum += $2 + $3 } END { print sum + 0 }' /proc/interrupts; }

card_address() {
    local found=$(grep -lx 0x1b39 /sys/bus/pci/devices/*/vendor)
    basename ${found%/vendor}
}

hand_to() {
    local device=/sys/bus/pci/devices/$1
    [ ! -e $device/driver ] || echo $1 >$device/driver/unbind
    echo "${2:-}" >$device/driver_override
    [ -z "${2:-}" ] || echo $1 >/sys/bus/pci/drivers_probe
}

megaraid_up() {
    modprobe sd_mod
    modprobe megaraid_sas scmd_timeout=10 "$@"
    eventually there pd/0
}

# Channels 0 and 1 have the disks, 2 and 3 the volumes.
unit_folder() {
    local channel=0
    [ ${1%/*} = pd ] || channel=2
    echo /sys/bus/scsi/devices/*:$channel:${1#*/}:0/block/sd*
}
unit() { echo "/dev/$(basename "$(unit_folder $1)")"; }
there() { test -b "$(unit $1)"; }
gone() { ! there $1; }
sectors() { cat $(unit_folder $1)/size; }
queue() { echo $(unit_folder $1)/queue; }

begin() {
    rm -f /run/enough
    (until [ -e /run/enough ]; do data $(unit $1) 16 4m --bsrange=4k-64k --blockalign=4k; done) &
    loaded=$!
}
end() { touch /run/enough && wait $loaded; }

# Connects to the subsystem $1 with further options of `nvme connect`; waits until its first namespace is there.
connect() {
    local nqn=$1
    shift
    nvme connect -t tcp -a $HOST -s "$port" -n "$nqn" "$@"
    eventually has_disk "$nqn" 1
}

has_disk() { test -b "$(disk "$@" 2>/dev/null)"; }

# The controller of a subsystem, for instance nvme0.
controller() { grep -lsx "$1" /sys/class/nvme/nvme*/subsysnqn | head -n 1 | cut -d/ -f5; }

# The block device of namespace $2 of a subsystem. Its name has a number of the kernel's own: newer ones look at
# namespaces at the same time, and the first to be found is n1.
disk() {
    local found
    for found in /sys/block/nvme*n*; do
        [[ $found != *nvme*c*n* ]] || continue
        if grep -qsx "$1" "$found/device/subsysnqn" && grep -qsx "$2" "$found/nsid"; then
            echo "/dev/${found##*/}"
        fi
    done
}
