# SPDX-License-Identifier: Apache-2.0
"""The program under test as files for a guest: with all its libraries and their loader, so that it runs there unchanged
whatever this machine's distribution is. guest/mqblk starts it."""
import re

from image.failure import need

from .guest import GUEST_SIDE
from .server import PROGRAM

NO_LIBRARIES = f"what {PROGRAM} needs to run in a guest cannot be told"


def program_files():
    """Name in the guest: path here."""
    listed = need(["ldd", PROGRAM], NO_LIBRARIES)
    paths = re.findall(r"(/\S+) \(0x", listed)
    return {"mqblk": GUEST_SIDE / "mqblk", "lib/mqblk": PROGRAM, **{f"lib/{path.rpartition('/')[2]}": path for path in paths}}
