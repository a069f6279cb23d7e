#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Arrows point downwards only: which part of src/ may include which. RULES is the one place that says so.

A part may include itself, what its row names, and the public headers. `driver/x` and `device/x` are parts of their own:
they share wire/ and see neither each other nor their siblings; but a card's or target's model may put device/scsi, the
SCSI disk, behind itself. include/mqblk includes nothing but itself.
"""
import re
import sys
from pathlib import Path

BASE = {"base"}
LOW = BASE | {"reactor", "memory", "wire"}
BLOCK = BASE | {"reactor", "memory", "block"}
MIDDLE = LOW | BLOCK | {"pci", "fabric"}
RULES = {
    "public": set(),
    "base": set(),
    "reactor": BASE,
    "memory": BASE | {"reactor"},  # pools give memory back by timer
    "wire": BASE,
    "block": BLOCK,
    "pci": LOW,
    "fabric": LOW,
    "driver": MIDDLE,
    "device": MIDDLE,
    "attach": MIDDLE,
    "registry": MIDDLE | {"attach", "driver", "device"},
    "cli": MIDDLE | {"attach", "driver", "device", "registry"},
}
SCSI_DISK = "device/scsi"
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<(mqblk/[^>]+)>)')


def layer(part):
    return part.split("/")[0]


def part_of(path):
    """The part that a path below src/ or include/ belongs to: driver/nvme/host.h is of driver/nvme."""
    pieces = path.split("/")
    if pieces[0] == "mqblk":
        return "public"
    return "/".join(pieces[:2]) if pieces[0] in ("driver", "device") and len(pieces) > 2 else pieces[0]


def complaint(path, target):
    """Why `path` may not include `target` (both as written below src/ or include/), or None."""
    source, part = part_of(path), part_of(target)
    if layer(source) not in RULES:
        return f"{layer(source)}/ is no part that tests/tools/check_includes.py knows"
    if layer(part) not in RULES:
        return f'"{target}" is not given from the top of src/'
    if part == source or (part == "public" and source != "public"):
        return None
    if layer(source) == "device" and part == SCSI_DISK:
        return None
    siblings = {layer(source), layer(part)} <= {"driver", "device"}
    if siblings or layer(part) not in RULES[layer(source)]:
        return f"{source} may not include {part}"
    return None


def check(files):
    """files: (path as below src/ or include/, text). Yields sentences."""
    for path, text in files:
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if match and (why := complaint(path, match[1] or match[2])):
                yield f"{path}:{number}: {why}: {line.strip()}"


def self_test():
    """Each wrong include must be found, and each right one let through."""
    wrong = [
        ("base/log.cpp", '#include "block/queue.h"'),
        ("memory/buffer.cpp", '#include "block/queue.h"'),
        ("block/queue.cpp", '#include "driver/null/null.h"'),
        ("block/queue.cpp", '#include "fabric/connection.h"'),
        ("block/queue.cpp", '#include "wire/nvme.h"'),
        ("driver/nvme/host.cpp", '#include "device/nvme/target.h"'),
        ("device/nvme/target.cpp", '  #  include "driver/nvme/host.h"'),
        ("driver/nvme/host.cpp", '#include "driver/ram/ram.h"'),
        ("driver/skd/queue.cpp", '#include "device/scsi/nexus.h"'),
        ("device/scsi/nexus.cpp", '#include "device/skd/card.h"'),
        ("reactor/uring.cpp", '#include "memory/pool.h"'),
        ("fabric/tcp.cpp", '#include "block/queue.h"'),
        ("registry/uri.cpp", '#include "cli/report.h"'),
        ("block/queue.cpp", '#include "tag_set.h"'),
        ("oddments/a.cpp", '#include "base/clock.h"'),
        ("mqblk/device.h", '#include "base/clock.h"'),
        ("mqblk/device.h", '#include "../../src/base/clock.h"'),
    ]
    right = [
        ("driver/nvme/host.cpp", '#include "driver/nvme/host.h"'),
        ("driver/nvme/host.cpp", "#include <mqblk/bio.h>\n#include <vector>"),
        ("device/nvme/target.cpp", '#include "block/queue.h"'),
        ("device/skd/card.cpp", '#include "device/scsi/nexus.h"'),
        ("cli/main.cpp", '#include "registry/uri.h"\n#include "device/nvme/target.h"'),
        ("mqblk/device.h", "#include <mqblk/bio.h>"),
    ]
    for file in wrong:
        assert list(check([file])), f"not found: {file}"
    for file in right:
        assert not list(check([file])), f"wrongly found: {list(check([file]))}"


def main():
    self_test()
    root = Path(sys.argv[1])
    files = [
        (str(path.relative_to(top)), path.read_text())
        for top in (root / "src", root / "include")
        for path in sorted(top.rglob("*"))
        if path.suffix in (".h", ".cpp")
    ]
    found = list(check(files))
    print("\n".join(found) or f"{len(files)} files include downwards only")
    sys.exit(bool(found) or not files)


main()
