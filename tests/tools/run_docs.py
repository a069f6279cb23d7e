#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what the documentation shows: every ```console block of one Markdown file, in order, in one bash and one scratch
folder, with the freshly built `mqblk` in the PATH. Usage: run_docs.py FILE.md FOLDER-OF-MQBLK

The convention, which reads as a plain terminal session:
  $ COMMAND          must exit with 0 (a line that ends in \\ goes on in the next one)
  $ COMMAND &        a server: it is ready when it has printed the last line shown below it; at the end it gets SIGINT,
                     and must then exit with 0 by itself
  other lines        output as it once looked; not compared, figures differ from machine to machine
  ```console exit=N  the block's last command must exit with N
The ports 4420 to 4429 are replaced by free ones. Relative links to files must lead somewhere.
Blocks marked otherwise (sh, text, ...) are not run: installing, building, or what needs another machine.
"""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BLOCK = re.compile(r"^```console(?: exit=(\d+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
READY_S = 60
STOP_S = 60


def steps(text):
    """(command, expected exit status, lines shown below it, line number) of each command in the document."""
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start()) + 2
        found, going_on = [], False
        for number, content in enumerate(block[2].splitlines(), line):
            if going_on or content.startswith("$ "):
                if going_on:
                    found[-1][0] += "\n" + content
                else:
                    found.append([content[2:], 0, [], number])
                going_on = content.endswith("\\")
            elif found:
                found[-1][2].append(content)
            else:
                raise ValueError(f"line {number}: a console block must begin with a command")
        if found:
            found[-1][1] = int(block[1] or 0)
        yield from found


def free_ports(text):
    """The document's fixed ports, each with a free one in its place."""
    held = {}
    for port in sorted(set(re.findall(r"\b442\d\b", text))):
        held[port] = socket.socket()
        held[port].bind(("127.0.0.1", 0))
    ports = {port: str(sock.getsockname()[1]) for port, sock in held.items()}
    for sock in held.values():
        sock.close()
    return ports


class Servers:
    """What was started with & and runs until the end of the document."""

    def __init__(self, scratch, environment):
        self.scratch, self.environment, self.running = scratch, environment, []

    def start(self, command, shown):
        log = self.scratch / f".server-{len(self.running)}.log"
        with log.open("w") as output:
            process = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=self.scratch, env=self.environment,
                                       stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        self.running.append((process, command, log))
        ready = next((line.strip() for line in reversed(shown) if line.strip()), "")
        until = time.monotonic() + READY_S
        while ready not in [line.strip() for line in log.read_text().splitlines()] and ready:
            if process.poll() is not None or time.monotonic() > until:
                return f"never printed {ready!r}; it printed:\n{log.read_text()}"
            time.sleep(0.02)
        return None

    def stop(self):
        for process, command, log in reversed(self.running):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            try:
                status = process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                status = "none: it had to be killed"
            if status != 0:
                yield f"$ {command} &\n  ended with {status} instead of 0; it printed:\n{log.read_text()}"


def run(document, program):
    text = document.read_text()
    problems = [
        f"{document.name}: the link to {target} leads nowhere"
        for target in LINK.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
        if not (document.parent / target).exists()
    ]
    ports = free_ports(text)
    with tempfile.TemporaryDirectory(prefix="mqblk-docs-") as folder:
        scratch = Path(folder)
        environment = os.environ | {"PATH": f"{program}:{os.environ['PATH']}", "HOME": folder, "TMPDIR": folder}
        servers = Servers(scratch, environment)
        count = 0
        for command, expected, shown, number in steps(text):
            count += 1
            command = re.sub(r"\b442\d\b", lambda match: ports[match[0]], command)
            shown = [re.sub(r"\b442\d\b", lambda match: ports[match[0]], line) for line in shown]
            where = f"{document.name}:{number}: $ {command}"
            print(where, flush=True)
            if command.rstrip().endswith("&"):
                why = servers.start(command.rstrip()[:-1], shown)
            else:
                done = subprocess.run(["bash", "-c", command], cwd=scratch, env=environment, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
                why = done.returncode != expected and f"exit status {done.returncode}, not {expected}:\n{done.stdout}"
            if why:
                problems.append(f"{where}\n  {why}")
                break
        problems += servers.stop()
    return count, problems


def self_test():
    """The runner must notice a failing command, a wrong link, a server that never is ready or ends badly."""
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder) / "page.md"
        for content, right in [
            ("```console\n$ true\n```\n", True),
            ("```console\n$ echo a \\\n  b | grep -q 'a b'\na b\n```\n", True),
            ("```console exit=3\n$ true\n$ exit 3\n```\n", True),
            ("```console\n$ bash -c 'trap \"exit 0\" INT; echo up; while :; do sleep 0.05; done' &\nup\n$ true\n```\n", True),
            ("[page](page.md#top) and [outside](https://example.org/x)\n", True),
            ("```console\n$ false\n```\n", False),
            ("```console exit=3\n$ true\n```\n", False),
            ("[gone](gone.md)\n", False),
            ("```console\n$ echo down &\nup\n```\n", False),
            ("```console\n$ bash -c 'trap \"exit 7\" INT; echo up; while :; do sleep 0.05; done' &\nup\n```\n", False),
        ]:
            document.write_text(content)
            problems = run(document, Path(folder))[1]
            assert (not problems) == right, f"{content!r}: {problems}"


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    count, problems = run(Path(sys.argv[1]), Path(sys.argv[2]).resolve())
    print("\n".join(problems) or f"{count} commands run")
    return bool(problems)


sys.exit(main())
