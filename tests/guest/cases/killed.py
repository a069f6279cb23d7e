# SPDX-License-Identifier: Apache-2.0
"""Guests vanish in the middle of writes, a hundred times over all kernels: the target is as it was before."""
import random
import time

from harness.saved import SavedGuest
from harness.server import NQN
from harness.test import check, eventually

COST_S = 70
KILLS = 34
FIRST = KILLS // 3  # after these the target has all that it keeps
QUIET_S = 4  # buffers are given back two seconds after their last use
SLACK_KIB = 512


def run(test):
    server = test.serve("--threads", "2", f"disks=file://{test.work}/disk?size=64M")
    descriptors = server.descriptors()
    guest = test.guest(in_file=True, port=server.port, disks=NQN + "disks")
    guest.wait_for("step save", 60, "the guest did not get ready to be saved")
    saved = SavedGuest(guest)
    moments = random.Random(1)
    for number in range(KILLS):
        saved.go_on().say("ok")
        guest.wait_for("step kill", 120, f"guest {number} did not connect and write")
        check(server.connections() == 3, f"guest {number} writes over {server.connections()} connections, not 3")
        time.sleep(moments.uniform(0, 0.3))
        guest.kill()
        eventually(lambda: server.connections() == 0, f"connections are left of guest {number}, which is dead")
        if number == FIRST:
            time.sleep(QUIET_S)
            kept_kib = server.memory_kib()
    # That which the last question came by may be open a little longer.
    eventually(lambda: server.descriptors() <= descriptors, f"{server.descriptors()} descriptors are open, {descriptors} were")
    eventually(lambda: server.memory_kib() <= kept_kib + SLACK_KIB,
               lambda: f"the target keeps {server.memory_kib()} KiB after {KILLS} dead guests, {kept_kib} after {FIRST}", 30)
    print(f"{KILLS} guests killed; the target keeps {server.memory_kib()} KiB, {kept_kib} after the first {FIRST}")
    server.stop()
