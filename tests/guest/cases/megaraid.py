# SPDX-License-Identifier: Apache-2.0
"""Linux's megaraid_sas drives our model of its controller: disks and volumes, data, a file system, disks that come and go
under load, resets of each kind."""
from harness.test import check

KERNELS = ["6.1", "6.12"]
COST_S = 60


def run(test):
    card = test.emulate("megaraid", "--jbod", "ram://?size=64M", "--jbod", "ram://?size=48M&block=4096",
                        "--ld", "6x8=ram://?size=128M", "--ld", "0x4=ram://?size=64M")

    def plug(what):
        return card.ctl("plug", what)["unit"]

    def counter(name):
        return card.ctl("list")["counters"][name]

    def idle():
        listed = card.ctl("list")
        # A driver waits for an event and two maps.
        check(listed["in_flight"] <= 3, f"there are {listed['in_flight']} commands in flight where nothing goes on")
        check(listed["counters"]["dropped"] <= 20, f"resets dropped {listed['counters']['dropped']} commands")

    def pull(what):
        return card.ctl("pull", what)["unit"]

    test.guest(cards=[card]).run({"plug": plug, "pull": pull, "counter": counter, "idle": idle})
    card.stop()
