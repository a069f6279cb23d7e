# SPDX-License-Identifier: Apache-2.0
# The controller is gone from one moment to the next, under load.
. /run/guest/lib.sh
megaraid_up
dmesg -n 7
begin ld/0
sleep 1
step kill
about killed
timeout 200 dd if=$(unit pd/0) of=/dev/null bs=4k count=1 iflag=direct status=none || echo $?
about read
end || echo ended
about ended
dmesg | tail -40
timeout 100 modprobe -r megaraid_sas || echo no
about end
