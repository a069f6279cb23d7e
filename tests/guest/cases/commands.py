# SPDX-License-Identifier: Apache-2.0
"""Each command of nvme-cli to our target, by a stock kernel; and the limits that the kernel draws from what we announce."""
import json

from harness.server import NQN, mqblk
from harness.test import check

COST_S = 45

# Linux's limit must be at most ours ("<=") or the same ("=").
LIMITS = {"max_hw_sectors_kb": "<=", "max_sectors_kb": "<=", "logical_block_size": "=",
          "write_zeroes_max_bytes": "<=", "minimum_io_size": "=", "optimal_io_size": "<=", "fua": "=", "rotational": "=",
          "write_cache": "=", "chunk_sectors": "=", "zoned": "="}


def run(test):
    server = test.serve(f"disks=file://{test.work}/disk?size=64M", "disks=ram://?size=64M&block=4096", "disks=ram://?size=1M&ro=1")

    def limits(nsid, *words):
        linux = dict(word.split(":", 1) for word in words)
        ours = json.loads(mqblk("info", "--json", f"nvme+tcp://127.0.0.1:{server.port}/{NQN}disks/{nsid}"))["queue"]
        for name, relation in LIMITS.items():
            theirs, own = linux[name], ours[name]
            own = own.replace(" ", "_") if isinstance(own, str) else str(int(own))
            fits = theirs == own if relation == "=" else int(theirs) <= int(own)
            check(fits, f"{name} of namespace {nsid} is {theirs} on Linux, {own} in mqblk info")

    test.guest(port=server.port, disks=NQN + "disks").run({"limits": limits})
