# SPDX-License-Identifier: Apache-2.0
"""Guests lose power while they write to our model of the S1120: it lets go of their memory, keeps what they flushed, and
serves the next."""
import random
import time

from harness.test import check, eventually

KERNELS = ["5.10"]
COST_S = 25
KILLS = 2
LOAD_S = 120


def run(test):
    card = test.emulate("skd", "--profile", "s1120", "ram://?size=64M")
    descriptors = card.descriptors()
    moments = random.Random(1)
    kept = "nothing"
    for number in range(KILLS):
        guest = test.guest(cards=[card], kept=kept)
        said = guest.line(LOAD_S, f"guest {number} did not write").split()
        check(said[:2] == ["step", "kill"], f"guest {number} said '{' '.join(said)}' where 'step kill' was due")
        kept = said[2]
        check("memfd" in card.mappings(), "the model does not work on the guest's own memory")
        time.sleep(moments.uniform(0, 0.3))
        guest.kill()
        eventually(lambda: card.descriptors() <= descriptors, f"the model has {card.descriptors()} descriptors open, {descriptors} before")
        eventually(lambda: "memfd" not in card.mappings(), f"the model still maps memory of guest {number}, which is dead")
    card.stop()
