# SPDX-License-Identifier: Apache-2.0
"""A folder, or single files, as a cpio archive in the "newc" format that the kernel takes as its initial RAM disk.

Archives can be concatenated; each one's files are laid over the ones before. Everything belongs to root.
"""
import os
import stat


def _entry(out, number, name, mode, data):
    encoded = name.encode() + b"\0"
    fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0]
    out.write(b"070701" + b"".join(b"%08x" % field for field in fields) + encoded)
    out.write(b"\0" * (-(110 + len(encoded)) % 4) + data + b"\0" * (-len(data) % 4))


def write(out, entries):
    """entries: (path within the archive, mode with its type, content); a folder comes before what it holds."""
    for number, (name, mode, data) in enumerate(entries, 1):
        _entry(out, number, name, mode, data)
    _entry(out, 0, "TRAILER!!!", 0, b"")


def of_folder(top):
    for folder, folders, files in os.walk(top):
        for name in sorted(folders + files):
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            data = b""
            if stat.S_ISLNK(mode):
                data = os.readlink(path).encode()
            elif stat.S_ISREG(mode):
                with open(path, "rb") as file:
                    data = file.read()
            yield os.path.relpath(path, top), mode, data
