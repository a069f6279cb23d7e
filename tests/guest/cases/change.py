# SPDX-License-Identifier: Apache-2.0
"""Changes of what is served, under the load of a stock kernel: it sees them, and the target keeps nothing behind."""
from harness.server import NQN
from harness.test import check, eventually

COST_S = 60


def run(test):
    server = test.serve("--nqn", NQN + "disks", "--threads", "2", f"file://{test.work}/disk?size=64M", "more=ram://?size=16M")
    before = server.descriptors()

    def hosts(count):
        controllers = server.ctl("hosts")["controllers"]
        check(len(controllers) == int(count), f"{count} controllers were due, the target has {controllers}")

    def as_before():
        eventually(lambda: server.connections() == 0, "connections are left after the host's disconnect")
        eventually(lambda: server.descriptors() <= before, f"{server.descriptors()} descriptors are open, {before} were")

    test.guest(port=server.port, disks=NQN + "disks", more=NQN + "more").run({
        "ctl": lambda *words: server.ctl(*words) and None,
        "hosts": hosts,
        "as-before": as_before,
    })
    server.stop()
