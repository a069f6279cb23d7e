# SPDX-License-Identifier: Apache-2.0
"""The model of a MegaRAID controller is killed under load: the guest's I/O fails and nothing hangs. QEMU does not connect to
a card's socket again, so the guest has seen the last of it; what it had flushed is there for the next."""
from harness.server import mqblk
from harness.test import check

KERNELS = ["6.1", "6.12"]
COST_S = 60


def run(test):
    disk = test.work / "disk"
    card = test.emulate("megaraid", "--jbod", f"file://{disk}?size=32M", "--ld", "6x8=ram://?size=64M")
    test.guest(cards=[card]).run({"kill": card.kill, "restart": card.restart}, timeout_s=600)
    mqblk("read", f"file://{disk}", "--length", "4M", "-o", test.work / "back")
