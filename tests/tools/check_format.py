#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every C++ file is as clang-format writes it. Usage: check_format.py ROOT CLANG-FORMAT"""
import subprocess
import sys
from pathlib import Path

root = Path(sys.argv[1])
files = [
    str(path)
    for folder in ("include", "src", "tests", "bench", "experiments")
    for path in sorted((root / folder).rglob("*"))
    if path.suffix in (".h", ".cpp")
]
result = subprocess.run([sys.argv[2], "--dry-run", "--Werror", "--ferror-limit=1", *files])
if result.returncode:
    print(f"run: {Path(sys.argv[2]).name} -i FILE...")
sys.exit(result.returncode or not files)
