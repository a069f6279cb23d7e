# SPDX-License-Identifier: Apache-2.0
"""Guests vanish in the middle of writes, a hundred times over all kernels: the target is as it was before."""
import random
import time

from harness.saved import SavedGuest
from harness.server import NQN
from harness.test import check, eventually

COST_S = 70
KILLS = 34
LAST = KILLS // 3  # after these the target's memory must not reach beyond what it was after those before
SLACK_KIB = 1024


def run(test):
    server = test.serve("--threads", "2", f"disks=file://{test.work}/disk?size=64M")
    descriptors = server.descriptors()
    guest = test.guest(in_file=True, port=server.port, disks=NQN + "disks")
    guest.wait_for("step save", 60, "the guest did not get ready to be saved")
    saved = SavedGuest(guest)
    moments = random.Random(1)
    memory_kib = []
    for number in range(KILLS):
        saved.go_on().say("ok")
        guest.wait_for("step kill", 120, f"guest {number} did not connect and write")
        check(server.connections() == 3, f"guest {number} writes over {server.connections()} connections, not 3")
        time.sleep(moments.uniform(0, 0.3))
        guest.kill()
        eventually(lambda: server.connections() == 0, f"connections are left of guest {number}, which is dead")
        memory_kib.append(server.memory_kib())
    # That which the last question came by may be open a little longer.
    eventually(lambda: server.descriptors() <= descriptors, f"{server.descriptors()} descriptors are open, {descriptors} were")
    # Buffers are kept for a while: it goes up and down, but what dead guests left would only go up.
    check(max(memory_kib[-LAST:]) <= max(memory_kib[:-LAST]) + SLACK_KIB, f"the target's memory grows with dead guests, in KiB: {memory_kib}")
    print(f"{KILLS} guests killed; the target's memory afterwards, in KiB: {memory_kib}")
    server.stop()
