# SPDX-License-Identifier: Apache-2.0
"""What a test's host side gets: a kernel's name, a scratch folder, servers, cards and guests that end with it."""
import time

from image.failure import GuestFailure

from .guest import Guest
from .carried import program_files
from .server import Emulator, Server

CONSOLE_LINES = 120
LOG_LINES = 25


def check(condition, sentence):
    if not condition:
        raise GuestFailure(sentence)


def eventually(condition, sentence, timeout_s=60):
    """Waits until `condition` holds; what it last returned. The sentence may be a function, asked when it is too late."""
    end = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise GuestFailure(f"{sentence() if callable(sentence) else sentence} (waited {timeout_s} s)")
        time.sleep(0.1)
    return value


class Test:
    def __init__(self, kernel, work, script):
        self.kernel, self.work, self.script = kernel, work, script
        self.daemons, self.guests = [], []

    def _daemon(self, kind, name, words):
        work = self.work / f"{name}{len(self.daemons)}"
        work.mkdir()
        self.daemons.append(kind(work, words))
        return self.daemons[-1]

    def serve(self, *words):
        return self._daemon(Server, "server", words)

    def emulate(self, *words):
        """A card for a guest: Test.guest(cards=[…])."""
        return self._daemon(Emulator, "emulator", words)

    def guest(self, script=None, forward=(), drives=(), cards=(), iommu=False, devices=(), in_file=False, mqblk=False,
              **settings):
        """A booted guest; `script` stands beside the test's own and is waiting to begin, with `settings` as variables. With
        `mqblk` the program is in the guest, too: $MQBLK."""
        path = self.script.with_name(script) if script else self.script
        self.guests.append(Guest(self.kernel, self.work / f"guest{len(self.guests)}", path, forward, drives, cards, iommu,
                                 devices, in_file=in_file, files=program_files() if mqblk else {}, settings=settings))
        return self.guests[-1]

    def end(self):
        for running in self.guests + self.daemons:
            running.kill()

    def tell(self, everything):
        """Prints the guests' consoles; on failure with the servers' last words."""
        for console in sorted(self.work.glob("guest*/console")):
            lines = console.read_text(errors="replace").splitlines()
            print(f"--- console of {console.parent.name}, Linux {self.kernel}", *lines[-CONSOLE_LINES:], sep="\n")
        for log in sorted([*self.work.glob("*/log"), *self.work.glob("guest*/qemu")]) if everything else []:
            print(f"--- {log.name} of {log.parent.name}", *log.read_text(errors="replace").splitlines()[-LOG_LINES:], sep="\n")
