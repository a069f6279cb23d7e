#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the guests' images where they are missing and runs all guest tests through ctest, two at a time:
suite.py FOLDER [CTEST-ARGUMENT...]. The folder gets nothing but ctest's list and logs.
"""
import importlib
import os
import shutil
import sys
from pathlib import Path

from harness.guest import NO_QEMU, QEMU
from image import build, recipe
from image.failure import GuestFailure, one_sentence

HERE = Path(__file__).parent
LIMIT_S = 1200


def tests():
    """(name, kernel, cost) of each."""
    for path in sorted((HERE / "cases").glob("*.py")):
        module = importlib.import_module(f"cases.{path.stem}")
        for kernel in getattr(module, "KERNELS", recipe.KERNELS):
            yield path.stem, kernel, getattr(module, "COST_S", 30)


def entry(test, cost, *words):
    command = " ".join(f'"{word}"' for word in (sys.executable, "-B", *words))
    return (f'add_test("{test}" {command})\n'
            f'set_tests_properties("{test}" PROPERTIES LABELS guest TIMEOUT {LIMIT_S} COST {cost})\n')


def write_list(folder):
    lines = []
    for name, kernel, cost in tests():
        test = f"guest.{name}.{kernel}"
        lines.append(entry(test, cost, HERE / "case.py", name, kernel))
    lines.append(entry("guest.errors", 5, HERE / "errors.py"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "CTestTestfile.cmake").write_text("".join(lines))


def main():
    folder = Path(sys.argv[1])
    with one_sentence():
        if not shutil.which(QEMU):
            raise GuestFailure(NO_QEMU)
        build.ensure()
    write_list(folder)
    os.execvp("ctest", ["ctest", "--test-dir", str(folder), "-j2", "--output-on-failure", "--no-tests=error", *sys.argv[2:]])


main()
