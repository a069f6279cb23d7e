#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over the sources of the library and the program, in parallel: run_tidy.py BUILD [PATH-PREFIX...]

A prefix is relative to the project's root, for instance src/block. Exits non-zero where clang-tidy has something to say.
"""
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

build = Path(sys.argv[1]).resolve()
root = Path(__file__).resolve().parents[2]
prefixes = tuple(sys.argv[2:]) or ("src/",)
files = [
    entry["file"]
    for entry in json.loads((build / "compile_commands.json").read_text())
    if os.path.relpath(entry["file"], root).startswith(prefixes)
]


def tidy(file):
    # GCC's flags that clang does not know are no concern of this check.
    command = ["clang-tidy-19", "--quiet", "-p", str(build), "--extra-arg=-Wno-unknown-warning-option",
               "--extra-arg=-Wno-unused-command-line-argument", file]
    return file, subprocess.run(command, capture_output=True, text=True)


failed = 0
with ThreadPoolExecutor(os.cpu_count()) as pool:
    for done, (file, result) in enumerate(pool.map(tidy, files), 1):
        print(f"[{done}/{len(files)}] {os.path.relpath(file, root)}", flush=True)
        if result.returncode:
            failed += 1
            print(result.stdout or result.stderr, flush=True)
print(f"clang-tidy: {len(files)} files, {failed} with complaints")
sys.exit(bool(failed) or not files)
