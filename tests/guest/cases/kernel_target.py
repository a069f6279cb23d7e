# SPDX-License-Identifier: Apache-2.0
"""Our initiator on a stock kernel's target."""
from harness.server import mqblk

COST_S = 20


def run(test):
    guest = test.guest(forward=[4420])

    def serving():
        disk = f"nvme+tcp://127.0.0.1:{guest.forwarded(4420)}/nqn.2026-01.org.example:kernel/1"
        print(mqblk("info", disk), mqblk("bench", disk, "--rw", "randrw", "--bs", "4k", "--depth", 8, "--time", 2, "--verify"))

    guest.run({"serving": serving})
