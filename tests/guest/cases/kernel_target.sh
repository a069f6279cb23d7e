# SPDX-License-Identifier: Apache-2.0
# Linux's own target over memory, null_blk and files; what becomes of it while the host uses it.
. /run/guest/lib.sh
NVMET=/sys/kernel/config/nvmet
NULLB=/sys/kernel/config/nullb

set_to() { for pair in "${@:2}"; do echo -n "${pair#*=}" >"$1/${pair%%=*}"; done; }

null_disk() { # NAME BLOCK
    mkdir $NULLB/$1
    set_to $NULLB/$1 size=32 blocksize=$2 memory_backed=1 discard=1 queue_mode=2 power=1
}

subsystem() { # NAME ALLOW_ANY_HOST
    mkdir $NVMET/subsystems/$nqn$1
    set_to $NVMET/subsystems/$nqn$1 attr_allow_any_host=$2 attr_serial=5e71a1
}

namespace() { # SUBSYSTEM NSID PATH [ATTRIBUTE=VALUE…]
    local folder=$NVMET/subsystems/$nqn$1/namespaces/$2
    mkdir $folder
    set_to $folder device_path=$3 device_uuid=00000000-0000-4000-8000-$(printf '%04x%08x' ${#1} $2) "${@:4}" enable=1
}

serve() { # NUMBER SERVICE IN_CAPSULE_BYTES SUBSYSTEM…
    mkdir $NVMET/ports/$1
    set_to $NVMET/ports/$1 addr_trtype=tcp addr_adrfam=ipv4 addr_traddr=0.0.0.0 addr_trsvcid=$2 param_inline_data_size=$3
    for name in "${@:4}"; do ln -s $NVMET/subsystems/$nqn$name $NVMET/ports/$1/subsystems/; done
}

enable() { echo $2 >$NVMET/subsystems/${nqn}disks/namespaces/$1/enable; }

boot=$(step boot)
modprobe brd rd_nr=2 rd_size=32768
modprobe null_blk nr_devices=0
modprobe nvmet-tcp
null_disk nullb0 512
null_disk nullb1 4096
mke2fs -q -t ext4 /dev/ram1
mount /dev/ram1 /mnt
truncate -s 16M /mnt/disk /tmp/disk
subsystem disks 1
namespace disks 1 /dev/ram0
namespace disks 2 /dev/nullb0
namespace disks 3 /dev/nullb1
namespace disks 4 /mnt/disk
namespace disks 5 /tmp/disk buffered_io=1
namespace disks 6 /dev/vdb
subsystem closed 0
namespace closed 1 /tmp/disk buffered_io=1
mkdir $NVMET/hosts/$friend
ln -s $NVMET/hosts/$friend $NVMET/subsystems/${nqn}closed/allowed_hosts/
serve 1 4420 16384 disks closed
serve 2 4421 4096 disks

if [ $boot = 1 ]; then
    about all commands on all kinds of disks
    M=$((1 << 20))
    step facts 1:$((32 * M)):512 2:$((32 * M)):512 3:$((32 * M)):4096 4:$((16 * M)):1024 5:$((16 * M)):4096 6:$((64 * M)):512
    for nsid in 1 2 3 4 5 6; do step commands $nsid; done
    step between 1 3
    about digests; step digests
    about small capsules; step small_capsules
    about hosts that may not come in; step strangers

    about namespaces that change under load
    step begin
    enable 2 0; step saw 2 is gone; step lists 2 none
    enable 2 1; step saw 2 is new; step lists 2 $((32 * M))
    step use 2; enable 2 0; step removed; enable 2 1
    step use 2
    enable 2 0; rmdir $NVMET/subsystems/${nqn}disks/namespaces/2
    namespace disks 2 /dev/nullb0 device_uuid=00000000-0000-4000-8000-000200000002
    step removed
    truncate -s 20M /mnt/disk
    if [ -e $NVMET/subsystems/${nqn}disks/namespaces/4/revalidate_size ]; then
        echo 1 >$NVMET/subsystems/${nqn}disks/namespaces/4/revalidate_size
    fi
    step lists 4 $((20 * M)); step saw 4 has $((20 * M)) bytes now
    rm $NVMET/ports/1/subsystems/${nqn}disks
    step is_gone; ln -s $NVMET/subsystems/${nqn}disks $NVMET/ports/1/subsystems/
    step is_back
    step end

    about a reboot under load
    step reboot
fi
step survived
about a target that falls silent; step silence
about a target that does not come back; step leave
