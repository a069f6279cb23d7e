# SPDX-License-Identifier: Apache-2.0
"""What our model of a MegaRAID controller does wrong, and how the kernel's own driver gets over it. The guest has each
fault given when it is time."""
KERNELS = ["6.12"]
COST_S = 150
MIB = 2048  # in sectors


def run(test):
    card = test.emulate("megaraid", "--jbod", "ram://?size=32M", "--jbod", "ram://?size=32M", "--ld", "6x8=ram://?size=64M")

    def fault(*faults):
        for each in faults:
            card.ctl("fault", each)

    def counter(name):
        return card.ctl("list")["counters"][name]

    def pull(what):
        card.ctl("pull", what)

    test.guest(cards=[card]).run({"fault": fault, "counter": counter, "pull": pull})
    card.stop()
