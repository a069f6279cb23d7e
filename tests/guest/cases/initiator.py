# SPDX-License-Identifier: Apache-2.0
"""A stock kernel uses our target: finds it, connects in every way, keeps and gets back its data and file systems."""
from harness.server import NQN
from harness.test import eventually

COST_S = 120


def run(test):
    server = test.serve("--threads", "2", f"disks=file://{test.work}/disk?size=384M", "disks=ram://?size=384M&block=4096",
                        "more=ram://?size=64M")
    guest = test.guest(port=server.port, disks=NQN + "disks", more=NQN + "more")
    guest.run({
        "unused": lambda: eventually(lambda: server.connections() == 0, "connections are left after the host's disconnect"),
    })
    server.stop()
