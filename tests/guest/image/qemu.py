# SPDX-License-Identifier: Apache-2.0
"""The QEMU of guests whose PCI cards live in other processes (vfio-user-pci, since QEMU 10.1): this machine's own where
it has the device, else Debian's packages, unpacked into a folder and started with their own loader and libraries.
Nothing is installed.
"""
import subprocess

from . import recipe
from .failure import GuestFailure

PROGRAM = "qemu-system-x86_64"
DEVICE = "vfio-user-pci"
REMEDY = "or install a QEMU of version 10.1 or later, which is then used"
LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")
FIRMWARE = ("usr/share/qemu", "usr/share/seabios")


def has_device(command):
    """QEMU's exit code does not tell, its words do."""
    try:
        done = subprocess.run([*command, "-device", f"{DEVICE},help"], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    except FileNotFoundError:
        return False
    return f"{DEVICE} options".encode() in done.stdout


def unpacked(folder):
    """How QEMU is started from where its packages were unpacked."""
    libraries = ":".join(str(folder / path) for path in LIBRARIES)
    firmware = [str(word) for path in FIRMWARE for word in ("-L", folder / path)]
    return [str(folder / "lib64/ld-linux-x86-64.so.2"), "--library-path", libraries, str(folder / "usr/bin" / PROGRAM), *firmware]


def download(mirror):
    """The packages' files. A mirror that lacks the suite or the package is named, with what to do instead."""
    lacking = (f"the package mirror {mirror.address} did not give QEMU from {recipe.QEMU_SUITES[-1]}, for guests with cards; "
               f"see that it carries this suite, {REMEDY}")
    mirror.refresh(lacking)
    return mirror.with_dependencies([recipe.QEMU_PACKAGE], recipe.QEMU_SUITES[-1], recipe.QEMU_WITHOUT, lacking)


def check(folder):
    if not has_device(unpacked(folder)):
        raise GuestFailure(f"the QEMU of {recipe.QEMU_SUITES[-1]} does not start here, or has no {DEVICE}; "
                           f"correct QEMU_SUITES and QEMU_WITHOUT in tests/guest/image/recipe.py, {REMEDY}")
