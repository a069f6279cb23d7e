#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each header compiles alone. The build proves it for every header that some source includes first; the rest are
compiled here, with the flags that the build tree's compile_commands.json has for the library.

Usage: check_headers.py ROOT BUILD
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def library_flags(build):
    """Compiler and flags of one library source, without its input, output and launcher."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if "/mqblk.dir/" not in entry.get("output", entry["command"]):
            continue
        words = shlex.split(entry["command"])
        compiler = next(i for i, word in enumerate(words) if not word.endswith("ccache"))
        flags, skip = [], False
        for word in words[compiler:]:
            if skip or word in ("-o", "-c"):
                skip = word == "-o"
            elif word != entry["file"]:
                flags.append(word)
        return [flag for flag in flags if "cmake_pch" not in flag and flag != "-Winvalid-pch"], entry["directory"]
    sys.exit("compile_commands.json has no source of the library")


def main():
    root, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    tops = (root / "src", root / "include")
    headers = {str(path.relative_to(top)): path for top in tops for path in sorted(top.rglob("*.h"))}
    proven = set()
    for source in (root / "src").rglob("*.cpp"):
        if first := INCLUDE.search(source.read_text()):
            proven.add(first[1])
    rest = sorted(set(headers) - proven)
    flags, directory = library_flags(build)

    def compile_alone(name):
        # Twice: a header without its guard fails too.
        with tempfile.NamedTemporaryFile("w", suffix=".cpp") as file:
            file.write(f'#include "{name}"\n#include "{name}"\n')
            file.flush()
            command = [*flags, "-I", str(root / "src"), "-I", str(root / "include"), "-fsyntax-only", file.name]
            return name, subprocess.run(command, cwd=directory, capture_output=True, text=True)

    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, result in pool.map(compile_alone, rest):
            if result.returncode:
                failed += 1
                print(f"{name} does not compile alone:\n{result.stderr}")
    print(f"{len(headers)} headers: {len(headers) - len(rest)} proven by the build, {len(rest)} compiled, {failed} failed")
    sys.exit(bool(failed) or not headers)


main()
