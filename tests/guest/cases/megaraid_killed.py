# SPDX-License-Identifier: Apache-2.0
"""The model of a MegaRAID controller is killed under load: what was flushed is in its disk, the guest's I/O fails, its driver
gives the controller up and can be removed. QEMU does not connect to a card's socket again, so the guest has seen the last
of it. QEMU 11.1 itself now and then ends when a card's process goes (an assertion of its own); then another guest tries.

The firmware says that it must not be reset: Linux otherwise tries that three times for 110 s each before anything fails, as
what is read from a card that is gone is all ones, and so a fault that a reset may heal."""
import hashlib

from harness.test import check
from image.failure import GuestFailure

KERNELS = ["6.1", "6.12"]
COST_S = 30
GUESTS = 4
KEPT = 4 << 20
QEMU_ENDS = "error_setv: Assertion"


def survives(test, disk):
    """Whether QEMU does; all else must be right."""
    card = test.emulate("megaraid", "--no-online-reset", "--jbod", f"file://{disk}?size=32M", "--ld", "6x8=ram://?size=64M")
    guest = test.guest(cards=[card])

    def kill(checksum, _):
        card.kill()
        with disk.open("rb") as file:
            check(hashlib.sha256(file.read(KEPT)).hexdigest() == checksum, "what was flushed is not in the disk")

    try:
        guest.run({"kill": kill})
        return True
    except GuestFailure:
        if QEMU_ENDS not in (guest.work / "qemu").read_text():
            raise
        print("QEMU ended with the card")
        return False


def run(test):
    check(any(survives(test, test.work / f"disk{number}") for number in range(GUESTS)), f"QEMU ended {GUESTS} times with its card")
