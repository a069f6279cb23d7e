# SPDX-License-Identifier: Apache-2.0
"""Our driver in a guest, behind an IOMMU, drives our model of the S1120 through VFIO."""
COST_S = 30
MIB = 64


def run(test):
    card = test.emulate("skd", "--serial", "MQBLKGUEST02", f"ram://?size={MIB}M")
    test.guest(cards=[card], iommu=True, mqblk=True, bytes=MIB << 20).run()
    card.stop()
