# SPDX-License-Identifier: Apache-2.0
"""Our driver in a guest, behind an IOMMU, drives the MegaRAID controllers that QEMU models, through VFIO."""
from harness.server import PROGRAM
from harness.test import check

KERNELS = ("6.1", "6.12")
COST_S = 60
MIB = 1 << 20
DISK_MIB = 32
KEPT_AT = 20  # MiB; the guest lays the beginning of the program there
# PCI slot: what it is, its disks' places. Both generations, each kind of list and of interrupt.
CARDS = {
    "10": ("megasas", 3),
    "11": ("megasas,msix=off,msi=off", 1),
    "12": ("megasas-gen2", 2),
    "13": ("megasas-gen2,msix=off,use_jbod=on", 1),
}


def disk(test, slot, number):
    return test.work / f"disk-{slot}-{number}"


def words(test):
    for slot, (kind, disks) in CARDS.items():
        yield from ("-device", f"{kind},id=raid{slot},addr=0x{slot}")
        for number in range(disks):
            with disk(test, slot, number).open("wb") as image:
                image.truncate(DISK_MIB * MIB)
            yield from ("-drive", f"file={disk(test, slot, number)},format=raw,if=none,id=hd{slot}{number}")
            yield from ("-device", f"scsi-hd,bus=raid{slot}.0,scsi-id={number},drive=hd{slot}{number},serial=S{slot}{number}")


def run(test):
    test.guest(iommu=True, devices=list(words(test)), mqblk=True, bytes=DISK_MIB * MIB).run()
    wanted = PROGRAM.open("rb").read(2 * MIB)
    for slot, (_, disks) in CARDS.items():
        for number in range(disks):
            with disk(test, slot, number).open("rb") as image:
                image.seek(KEPT_AT * MIB)
                check(image.read(len(wanted)) == wanted, f"disk {number} of card {slot} does not hold what was written to it")
