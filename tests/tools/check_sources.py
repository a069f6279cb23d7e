#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every text file of the project keeps: its licence line, a bounded length, and no words that do not belong.

Usage: check_sources.py ROOT. Build trees, fuzzing corpora and the licence itself are left out.
"""
import re
import sys
from pathlib import Path

MAX_LINES = 500
SKIPPED = {".git", ".cache", "build", "corpus", "__pycache__"}
CODE = {".h", ".cpp", ".py", ".sh", ".cmake"}
SPDX = "SPDX-License-Identifier: Apache-2.0"

FORBIDDEN = [
    (re.compile(r"(?<![\w.])/(?:home|root|work)/"), "a path of one machine"),
    (re.compile(r"https?://[^/\s]*(?:debian|ubuntu|npmjs|pypi)\b"), "a package host: the machine's own configuration knows them"),
    (re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b"), "a mark of unfinished work"),
    (re.compile(r"\bDISABLED_|GTEST_SKIP\(\)(?!\s*<<)"), "a test switched off without a reason"),
]


# Words that belong to one place of the sources.
ONE_PLACE = [
    (re.compile(r"\bfmt::print\(|\bstd::(?:cout|cerr)\b|\b(?:fprintf|fputs|puts|printf)\("), {"src/cli/print.cpp"},
     "the program speaks through cli/print.h, which never throws"),
]


def is_code(path, lines):
    return path.suffix in CODE or path.name == "CMakeLists.txt" or (bool(lines) and lines[0].startswith("#!"))


def complaints(path, text, has_header=False):
    """(line number, sentence) for each breach; `path` is relative to the root. A source whose header of the same name
    says what the two own need not say it again."""
    lines = text.splitlines()
    if is_code(path, lines):
        if SPDX not in "\n".join(lines[:2]):
            yield 1, f"the first line, or the second after #!, must be: {SPDX}"
        if len(lines) > MAX_LINES:
            yield MAX_LINES, f"{len(lines)} lines: a file of more than {MAX_LINES} holds a second idea"
    if path.suffix in (".h", ".cpp") and path.parts[0] in ("src", "include"):
        opening = [line for line in lines[1:3] if re.match(r"//\s*\S", line)]
        if not opening and not has_header:
            yield 2, "the licence line must be followed by a comment that says what the file owns"
        if path.suffix == ".h" and "#pragma once" not in lines:
            yield 1, "a header needs #pragma once"
    for number, line in enumerate(lines, 1):
        for pattern, what in FORBIDDEN:
            if pattern.search(line):
                yield number, f"{what}: {line.strip()}"
        for pattern, places, what in ONE_PLACE:
            if path.parts[0] == "src" and path.as_posix() not in places and pattern.search(line):
                yield number, f"{what}: {line.strip()}"
        if line != line.rstrip() and path.suffix != ".md":
            yield number, "white space at the end of the line"


def self_test():
    good = f"// {SPDX}\n//\n// Owns nothing.\n#pragma once\n"
    assert not list(complaints(Path("src/a.h"), good))
    for name, text in [
        ("src/a.h", "#pragma once\n"),
        ("src/a.h", f"// {SPDX}\n#pragma once\n"),
        ("src/a.h", good.replace("#pragma once", "")),
        ("src/a.h", good + "int x;\n" * MAX_LINES),
        ("src/a.h", good + "// TO" "DO: more\n"),
        ("src/a.h", good + "int x; \n"),
        ("src/a.h", good + 'void f() { fmt::print("x"); }\n'),
        ("docs/a.md", "see /ho" "me/me/x\n"),
        ("run", "#!/bin/sh\n"),
    ]:
        assert list(complaints(Path(name), text)), f"not found: {name}: {text[:60]!r}"


def main():
    self_test()
    root = Path(sys.argv[1])
    headers = {path.stem for top in ("src", "include") for path in (root / top).rglob("*.h")}
    found = files = 0
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if SKIPPED & set(inside.parts) or not path.is_file() or inside.name == "LICENSE":
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        files += 1
        for number, sentence in complaints(inside, text, path.suffix == ".cpp" and path.stem in headers):
            print(f"{inside}:{number}: {sentence}")
            found += 1
    print(f"{files} files read, {found} complaints")
    sys.exit(bool(found) or files == 0)


main()
