#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Building the guests' images where it cannot work ends with one sentence, exit code 1 and no half image."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from image import build, qemu, recipe

HERE = Path(__file__).parent
DEAD_PROXY = 'Acquire::http::Proxy "http://127.0.0.1:1"; Acquire::https::Proxy "http://127.0.0.1:1"; Acquire::Retries "0";\n'


def without_qemu(cache):
    """A cache that lacks nothing but QEMU for guests with cards."""
    for name in (f"root-{build.KEY}.ext4", *(f"kernel-{kernel}-{build.KEY}" for kernel in recipe.KERNELS)):
        (cache / "mqblk/guest" / name).mkdir(parents=True)
    return cache


def refused(cache, sentence, **variables):
    before = set(cache.glob("mqblk/guest/*"))
    done = subprocess.run([sys.executable, "-B", HERE / "suite.py", cache / "list", "-N"], capture_output=True, text=True,
                          env={**os.environ, "XDG_CACHE_HOME": str(cache), **variables}, check=False)
    last = done.stderr.strip().splitlines()[-1]
    images = {path for what in ("root", "kernel", "qemu") for path in cache.glob(f"mqblk/guest/{what}-*")} - before
    if done.returncode != 1 or sentence not in last or images:
        sys.exit(f"{variables}: expected exit code 1 and '{sentence}', got {done.returncode} and:\n{done.stderr}\n{images}")
    print(last)


def main():
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        config = work / "dead"
        config.write_text(DEAD_PROXY)
        refused(work / "mirror", "did not give what the guests are built from", APT_CONFIG=str(config))
        if not qemu.has_device([qemu.PROGRAM]):
            refused(without_qemu(work / "cards"), "did not give QEMU from trixie-backports", APT_CONFIG=str(config))
        config.write_text('Dir::Etc::SourceList "-"; Dir::Etc::SourceParts "-";\n')
        refused(work / "none", "names no package mirror", APT_CONFIG=str(config))
        (work / "tools").mkdir()
        for tool in ("apt-get", "apt-cache", "tar"):
            (work / "tools" / tool).symlink_to(f"/usr/bin/{tool}")
        refused(work / "tools", "there is no qemu-system-x86_64", PATH=str(work / "tools"))


main()
