# SPDX-License-Identifier: Apache-2.0
"""A stock kernel's initiator on our target."""
from harness.server import NQN

def run(test):
    server = test.serve("disks=ram://?size=256M")
    test.guest(port=server.port, nqn=NQN + "disks").run({"hello": lambda *words: print(words)})
