# SPDX-License-Identifier: Apache-2.0
"""Our driver in a guest, behind an IOMMU, drives our model of the S1120 through VFIO."""
COST_S = 35
MIB = 64
SECTORS = 2048  # in a MiB
FAULTS = [f"medium-error,lba={48 * SECTORS},blocks=8", *(f"restart,lba={mib * SECTORS},blocks=8,for=300ms" for mib in (52, 53, 54))]


def run(test):
    faults = [word for fault in FAULTS for word in ("--fault", fault)]
    card = test.emulate("skd", "--serial", "MQBLKGUEST02", *faults, f"ram://?size={MIB}M")
    test.guest(cards=[card], iommu=True, mqblk=True, bytes=MIB << 20).run()
    card.stop()
