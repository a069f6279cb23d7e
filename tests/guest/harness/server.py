# SPDX-License-Identifier: Apache-2.0
"""A running `mqblk serve` or `mqblk emulate`, and other runs of the program under test."""
import json
import os
import re
import select
import signal
import subprocess
import time
from pathlib import Path

from image.failure import GuestFailure

from . import process

PROGRAM = Path(os.environ.get("MQBLK_PROGRAM") or Path(__file__).parents[3] / "build/release/mqblk")
NQN = "nqn.2026-01.io.mqblk:"
START_S = 60


def mqblk(*words, timeout_s=300):
    """Output of a command that must succeed."""
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=timeout_s, check=False,
                          stdin=subprocess.DEVNULL)
    if done.returncode:
        raise GuestFailure(f"mqblk {' '.join(map(str, words))}: {done.stderr.strip()} (exit code {done.returncode})")
    return done.stdout


class Daemon:
    """A mqblk that runs until it is told to end, in a folder of its own."""

    def __init__(self, work):
        self.work = work
        self.log = work / "log"
        self.process = None

    def launch(self, *words):
        """What it said until it was ready."""
        self.words = words
        command = [PROGRAM, *words]
        with self.log.open("ab") as log:
            self.process = process.start(command, stdout=subprocess.PIPE, stderr=log)
        said = b""
        end = time.monotonic() + START_S
        while b"\nready" not in said:
            readable = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]
            data = os.read(self.process.stdout.fileno(), 65536) if readable else b""
            if not data:
                raise GuestFailure(f"mqblk {' '.join(map(str, words))} did not get ready: {self.log.read_text()[-500:]}")
            said += data
        return said

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        process.end(self.process)

    def stop(self):
        """Ends in order; must exit with 0 by itself."""
        self.signal(signal.SIGTERM)
        if self.process.wait(START_S):
            raise GuestFailure(f"mqblk {self.words[0]} ended with {self.process.returncode}: {self.log.read_text()[-500:]}")

    def ctl(self, *words):
        """The answer to `mqblk ctl WORD…`, as JSON gives it; nothing for a command that only says that it is done."""
        said = mqblk("ctl", "--control", self.work / "ctl", "--json", *words)
        return json.loads(said) if said.strip() else None

    def memory_kib(self, field="RssAnon"):
        return int(re.search(rf"^{field}:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text(), re.MULTILINE)[1])

    def mappings(self):
        return Path(f"/proc/{self.process.pid}/maps").read_text()

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class Emulator(Daemon):
    """A card's model on a socket, for guests one after the other. `words`: the model, options and the disk's URI."""

    def __init__(self, work, words):
        super().__init__(work)
        self.socket = work / "socket"
        self.launch("emulate", "-v", "--socket", self.socket, "--control", work / "ctl", *words)


class Server(Daemon):
    """Serves on 127.0.0.1 and a port that the kernel picks; keeps the port over restarts. `words`: URIs and options."""

    def __init__(self, work, words):
        super().__init__(work)
        self.served, self.port = words, 0
        self.start()

    def start(self):
        said = self.launch("serve", "-v", "--control", self.work / "ctl", "--listen", f"127.0.0.1:{self.port}", *self.served)
        self.port = int(re.search(rb"127\.0\.0\.1:(\d+)/", said)[1])

    def restart(self):
        """Killed without warning and started again at once, on the same port."""
        self.kill()
        self.start()

    def connections(self):
        return self.ctl("list")["connections"]
