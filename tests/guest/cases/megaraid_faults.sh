# SPDX-License-Identifier: Apache-2.0
# Faults of the controller under verified load: each harms what it must, and nothing else.
. /run/guest/lib.sh

logged() { dmesg | grep -qE "$1"; }
resets() { [ $(step counter resets) = $1 ]; }
queue_depth() { cat /sys/class/scsi_host/host*/can_queue; }
survived() { # and no I/O failed
    end
    ! logged 'I/O error' || fail "I/O failed"
    sane
}

megaraid_up resetwaittime=5 # instead of 180 s for commands to end by themselves, before a reset of the controller
dmesg -n 4
dmesg -c >/dev/null
dd if=/dev/urandom of=/run/kept bs=1M count=4 status=none
dd if=/run/kept of=$(unit pd/0) bs=1M seek=16 oflag=direct conv=fsync status=none
is_kept() { forget && cmp -n 4M -i 16M:0 $(unit pd/0) /run/kept; }

about "errors of disks and volumes are what they are"
step fault medium-error@0x1,pd=0,lba=$((8 << 11))
fails dd if=$(unit pd/0) of=/dev/null bs=4k skip=2048 count=1 iflag=direct status=none
logged 'critical medium error.*sector 16384'
step fault status@0x1,pd=0,status=8 status@0x1,ld=0,status=0x28 # busy, task set full
dd if=$(unit pd/0) of=/dev/null bs=4k count=1 iflag=direct status=none
dd if=$(unit ld/0) of=/dev/null bs=4k count=1 iflag=direct status=none
dmesg -c >/dev/null

about "the firmware fails at a command, twice; the second time it takes fewer commands afterwards"
before=$(queue_depth)
begin ld/0
step fault firmware-fault
eventually resets 1
eventually logged 'Reset successful'
dmesg -c >/dev/null
step fault fewer-commands,commands=500 firmware-fault
eventually resets 2
eventually logged 'Reset successful'
survived
[ $(queue_depth) -lt 500 ]
[ $before -gt 900 ]
is_kept

about "a DCMD takes 12 s: the disk goes that much later, all else goes on; a slow disk is slow"
begin ld/0
step fault slow-dcmd,opcode=0x02010100,by=12s late@0x4,pd=0,by=2s
asked=$SECONDS
step pull pd/1
dd if=$(unit pd/0) of=/dev/null bs=4k count=4 iflag=direct status=none
[ $((SECONDS - asked)) -ge 7 ]
there pd/1
eventually gone pd/1
[ $((SECONDS - asked)) -ge 11 ]
survived

about "a completion gets lost, one comes after a minute: both commands are aborted and sent again"
begin ld/0
before=$(step counter aborted)
step fault lost,ld=0 late,pd=0,by=60s
dd if=$(unit pd/0) of=/dev/null bs=4k count=1 iflag=direct status=none
survived
[ $(step counter aborted) -ge $((before + 2)) ]

about "an abort is answered and not carried out: what comes next, on a busy machine the controller's reset, ends it"
begin ld/0
step fault lost,pd=0 wrong-abort
dd if=$(unit pd/0) of=/dev/null bs=4k count=1 iflag=direct status=none
survived

about "the reset of the target fails as well: the controller is reset"
before=$(step counter resets)
begin ld/0
step fault lost,pd=0 wrong-abort@0x0,response=5 # for good: on a busy machine other commands may be late, too
dd if=$(unit pd/0) of=/dev/null bs=4k count=1 iflag=direct status=none
eventually logged 'Reset successful'
survived
[ $(step counter resets) -gt $before ]
is_kept

about "the firmware fails for good: all fails, the driver lets go"
begin ld/0
step fault firmware-fault,for-good=1
fails wait $loaded # it goes on until it fails
fails dd if=$(unit pd/0) of=/dev/null bs=4k count=1 iflag=direct status=none
sane
modprobe -r megaraid_sas
gone pd/0
