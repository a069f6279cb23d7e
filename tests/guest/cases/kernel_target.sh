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

subsystem() { # NAME
    mkdir $NVMET/subsystems/$nqn$1
    set_to $NVMET/subsystems/$nqn$1 attr_allow_any_host=1 attr_serial=$1
}

namespace() { # SUBSYSTEM NSID PATH [ATTRIBUTE=VALUE…]
    local folder=$NVMET/subsystems/$nqn$1/namespaces/$2
    mkdir $folder
    set_to $folder device_path=$3 device_uuid=00000000-0000-4000-8000-$(printf '%04x%08x' ${#1} $2) "${@:4}" enable=1
}

serve() { # SUBSYSTEM…
    mkdir $NVMET/ports/1
    set_to $NVMET/ports/1 addr_trtype=tcp addr_adrfam=ipv4 addr_traddr=0.0.0.0 addr_trsvcid=4420
    for name in "$@"; do ln -s $NVMET/subsystems/$nqn$name $NVMET/ports/1/subsystems/; done
}

modprobe brd rd_nr=2 rd_size=32768
modprobe null_blk nr_devices=0
modprobe nvmet-tcp
null_disk nullb0 512
null_disk nullb1 4096
mke2fs -q -t ext4 /dev/ram1 && mount /dev/ram1 /mnt && truncate -s 16M /mnt/disk /tmp/disk
subsystem disks
namespace disks 1 /dev/ram0
namespace disks 2 /dev/nullb0
namespace disks 3 /dev/nullb1
namespace disks 4 /mnt/disk
namespace disks 5 /tmp/disk buffered_io=1
namespace disks 6 /dev/vdb
serve disks
step serving
