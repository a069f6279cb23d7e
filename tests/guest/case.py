#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one guest test with one kernel: case.py NAME KERNEL

A test is cases/NAME.py, the host's side, and cases/NAME.sh, the guest's (by default; it may use others, or several
guests). The host's side is a function run(test), see harness/test.py; it may name the kernels it is for in KERNELS, and
roughly how long it takes in COST_S (the longest begin first).
"""
import importlib
import sys
import tempfile
import time
from pathlib import Path

from harness.test import Test
from image.failure import GuestFailure

HERE = Path(__file__).parent


def main():
    name, kernel = sys.argv[1:]
    started = time.monotonic()
    failure = None
    with tempfile.TemporaryDirectory(prefix="mqblk-guest-") as work:
        test = Test(kernel, Path(work), HERE / "cases" / f"{name}.sh")
        try:
            importlib.import_module(f"cases.{name}").run(test)
        except (GuestFailure, OSError, RuntimeError) as caught:
            failure = caught
        finally:
            test.end()
            test.tell(everything=failure is not None or sys.exc_info()[0] is not None)
    print(f"{name}, Linux {kernel}: {time.monotonic() - started:.0f} s")
    if failure:
        sys.exit(f"mqblk: {name}, Linux {kernel}: {failure}")


main()
