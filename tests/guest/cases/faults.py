# SPDX-License-Identifier: Apache-2.0
"""Our target killed, stopped and cut off under a stock kernel's load."""
import re
import signal
import time

from harness.server import NQN
from harness.test import check, eventually

COST_S = 70
LATER_S = 5  # a busy machine's


def run(test):
    server = test.serve("--threads", "2", f"disks=file://{test.work}/disk?size=64M")
    guest = test.guest(port=server.port, disks=NQN + "disks")

    def cut():
        guest.link(False)
        silent = time.monotonic()
        eventually(lambda: server.connections() == 0, "the target keeps the connections of a host that is cut off")
        waited = time.monotonic() - silent
        allowed = int(re.findall(r"silent for (\d+) ms", server.log.read_text())[-1]) / 1000
        check(waited < allowed + LATER_S, f"the target noticed a silent host after {waited:.1f} s; announced were {allowed:.1f} s")
        return f"the target let go after {waited:.1f} s; the keep-alive time that the kernel announced is {allowed:.1f} s"

    guest.run({
        "restart": server.restart,
        "stop": lambda: server.signal(signal.SIGSTOP),
        "go-on": lambda: server.signal(signal.SIGCONT),
        "cut": cut,
        "join": lambda: guest.link(True),
        "as-before": lambda: eventually(lambda: server.connections() == 0, "connections are left after the host's disconnect") and None,
    })
    server.stop()
