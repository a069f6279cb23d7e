# SPDX-License-Identifier: Apache-2.0
"""The kernel proper out of a compressed one, so that no emulated processor has to unpack it.

The boot header says where its payload lies (Linux, Documentation/x86/boot: setup_sects, payload_offset, payload_length).
QEMU starts an ELF file by its PVH note.
"""
import lzma
import struct
import subprocess
import zlib

from .failure import GuestFailure


def extract(image):
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = image[start:start + length]
    if payload.startswith(b"\xfd7zXZ\0"):
        kernel = lzma.LZMADecompressor().decompress(payload)
    elif payload.startswith(b"\x1f\x8b"):
        kernel = zlib.decompressobj(31).decompress(payload)
    elif payload.startswith(b"\x28\xb5\x2f\xfd"):  # followed by its size, which zstd complains about
        kernel = subprocess.run(["zstd", "-dcq"], input=payload, capture_output=True, check=False).stdout
    else:
        raise GuestFailure(f"the kernel is packed in a way that tests/guest/image/vmlinux.py does not know ({payload[:6].hex()})")
    if not kernel.startswith(b"\x7fELF"):
        raise GuestFailure("what the kernel package holds unpacks to something that is no kernel; remove the guests' cache")
    return kernel
