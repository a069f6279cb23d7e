# SPDX-License-Identifier: Apache-2.0
"""The last kernel that has skd drives our model of the S1120 with it: data, file system, interrupts of each type."""
KERNELS = ["5.10"]
COST_S = 30
MIB = 96


def run(test):
    card = test.emulate("skd", "--serial", "MQBLKGUEST01", f"ram://?size={MIB}M")
    test.guest(cards=[card], mqblk=True, sectors=MIB << 11).run()
    card.stop()
