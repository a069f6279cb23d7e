# SPDX-License-Identifier: Apache-2.0
# Faults of the card under verified load: each harms what it must, and nothing else.
. /run/guest/lib.sh
disk=/dev/skd0

spring() { dd if=$disk of=/dev/null bs=4k count=1 skip=$(($1 / 8)) iflag=direct status=none; }

load() { # from sector $1 on, until /run/enough is there; failed I/O is counted, wrong data end it
    until [ -e /run/enough ]; do
        data $disk 16 8m --offset=$(($1 / 2))k --bsrange=4k-64k --blockalign=4k --continue_on_error=io || return
        mawk -F '[=,]' '/errors *:/ { print $2 }' /run/data.log >>/run/errors
    done
}
begin() {
    rm -f /run/enough
    echo 0 >/run/errors
    load $1 &
    loaded=$!
    sleep 1
}
end() {
    touch /run/enough
    wait $loaded
    errors=$(mawk '{ sum += $1 } END { print sum }' /run/errors)
    echo "$errors I/Os of the load failed"
}
said() { # COUNT PATTERN
    [ $(dmesg | grep -cE "$2") = $1 ]
}
modprobe skd
dd if=/dev/urandom of=/run/kept bs=1M count=4 status=none
dd if=/run/kept of=$disk bs=1M seek=16 oflag=direct conv=fsync status=none
is_kept() { forget && cmp -n 4M -i 16M:0 $disk /run/kept; }

about "a medium error fails its request; what was aborted is tried again"
begin $calm
for time in 1 2 3; do fails spring $broken; done
spring $again
end
[ $errors = 0 ]
said 3 'key/asc/ascq/fruc 03/11/00'
said 1 'key/asc/ascq/fruc 0b/4b/00'
said 3 'I/O error'
sane

about "busy: what is sent meanwhile waits"
begin $calm
spring $busy
eventually said 1 'Driver state BUSY.*=>ONLINE'
end
[ $errors = 0 ]
quiet

about "the firmware restarts twice: what it had fails, all else waits"
begin $rough
eventually said 2 'Driver state RESTARTING.*=>ONLINE'
end
[ $errors -ge 2 ]
said 2 '=>SOFT_RESET'
sane
is_kept

about "firmware fault: all fails at once; a new start heals it"
begin $calm
fails spring $dead
eventually said 1 's1120 state .*=>FAULT'
fails spring 0
end
[ $errors -ge 1 ]
sane
modprobe -r skd
modprobe skd
is_kept
data $disk 16 2m --bs=4k
quiet

about "the card disappears: all fails at once, its driver lets go"
begin $calm
fails spring $gone
eventually said 1 '=>DISAPPEARED'
fails spring 0
end
[ $errors -ge 1 ]
sane
modprobe -r skd
[ ! -e $disk ]
