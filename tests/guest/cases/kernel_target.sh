# SPDX-License-Identifier: Apache-2.0
# Linux's own target over a RAM disk, up until the host says that it is done with it.
. /run/guest/lib.sh
NVMET=/sys/kernel/config/nvmet

modprobe brd rd_nr=1 rd_size=65536
modprobe nvmet-tcp
subsystem=$NVMET/subsystems/nqn.2026-01.org.example:kernel
mkdir $subsystem $subsystem/namespaces/1 $NVMET/ports/1
echo 1 >$subsystem/attr_allow_any_host
echo -n /dev/ram0 >$subsystem/namespaces/1/device_path
echo 1 >$subsystem/namespaces/1/enable
cd $NVMET/ports/1
echo tcp >addr_trtype
echo ipv4 >addr_adrfam
echo 0.0.0.0 >addr_traddr
echo 4420 >addr_trsvcid
ln -s $subsystem subsystems/

about serving; step serving
