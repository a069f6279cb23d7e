# SPDX-License-Identifier: Apache-2.0
"""One virtual machine with a stock kernel, from its boot to its end.

The guest's side is guest/init, guest/main and the test's script, handed over behind the initial RAM disk. Its first
serial port is the console, its second the channel: the guest says "booted", "step NAME WORD…" (answered by "ok TEXT" or
"failed TEXT") and "exit STATUS", a line each.
"""
import json
import re
import select
import socket
import time
from pathlib import Path

from image import build, cpio
from image.failure import GuestFailure

from . import process, tsc
from .qmp import Qmp

GUEST_SIDE = Path(__file__).parent.parent / "guest"
QEMU = "qemu-system-x86_64"
NO_QEMU = f"there is no {QEMU}; install the package qemu-system-x86, or run ./test guest as root, which does"
BOOT_S = 60  # for the first attempt; a boot takes 5 s on an idle machine
BOOTS = 3    # emulated processors now and then do not get past their first second
TEST_S = 900
APPEND = ("console=ttyS0 loglevel=5 panic=-1 oops=panic no_timer_check mitigations=off nokaslr tsc=reliable "
          "random.trust_cpu=on cryptomgr.notests audit=0 net.ifnames=0 rdinit=/init")


class Guest:
    """`work` is a folder of this guest's own; `forward` names ports of the guest that the host wants to reach; `drives` are
    files that the guest has as /dev/vdb, /dev/vdc, … and writes to; `cards` are models that serve it a PCI device each, behind
    an IOMMU where that is wanted; `devices` are further words for QEMU, for cards that it models itself; `files` (name: path)
    are laid into /run/guest. A guest that will be saved (saved.py) keeps its memory in a file."""

    def __init__(self, kernel, work, script, forward=(), drives=(), cards=(), iommu=False, devices=(), memory_mib=640,
                 in_file=False, files=None, settings=None):
        work.mkdir(parents=True, exist_ok=True)
        self.kernel, self.work, self.forward, self.memory_mib = kernel, work, forward, memory_mib
        self.drives = [word for number, path in enumerate(drives)
                      for word in ("-drive", f"file={path},format=raw,if=none,id=disk{number}",
                                   "-device", f"virtio-blk-pci,drive=disk{number}")]
        self.program = build.qemu_for_cards() if cards else [QEMU]
        self.cards = [*self._card_words(cards, iommu), *devices]
        self.console = work / "console"
        self._write_initrd({"test": script, **(files or {})}, settings or {})
        self.qemu = self.channel = self.qmp = None
        append = APPEND + (f" tsc_early_khz={tsc.khz()}" if tsc.khz() else "")
        append += " intel_iommu=on" * iommu
        self._boot(["-initrd", work / "initrd", "-kernel", build.kernel_folder(kernel) / "vmlinux", "-append", append],
                   self.memory_file(share="on") if in_file else self.shared_memory() if cards else [])

    @staticmethod
    def _card_words(cards, iommu):
        words = ["-device", "intel-iommu,intremap=on,caching-mode=on"] if iommu else []
        for card in cards:
            device = {"driver": "vfio-user-pci", "socket": {"type": "unix", "path": str(card.socket)}}
            words += ["-device", json.dumps(device)]
        return words

    def _boot(self, boot, memory):
        for attempt in range(1, BOOTS + 1):
            self.power_on(boot, memory)
            try:
                return self.wait_for("booted", attempt * BOOT_S, f"a guest with Linux {self.kernel} did not boot")
            except GuestFailure as failure:
                self.kill()
                if attempt == BOOTS:
                    raise
                print(f"{failure}; it is started again. Its console ended with:",
                      *self.console.read_text(errors="replace").splitlines()[-10:], sep="\n")

    def _write_initrd(self, files, settings):
        """The kernel's archive and behind it this run's files."""
        regular, folder = 0o100755, 0o040755
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        with (self.work / "initrd").open("wb") as out:
            out.write((build.kernel_folder(self.kernel) / "initrd").read_bytes())
            files = {"main": GUEST_SIDE / "main", "lib.sh": GUEST_SIDE / "lib.sh", **files}
            folders = sorted({name.rpartition("/")[0] for name in files} - {""})
            cpio.write(out, [("init", regular, (GUEST_SIDE / "init").read_bytes()), ("guest", folder, b""),
                             *((f"guest/{name}", folder, b"") for name in folders),
                             *((f"guest/{name}", regular, Path(path).read_bytes()) for name, path in files.items()),
                             ("guest/settings", regular, lines.encode())])

    def memory_file(self, share):
        return ["-machine", "memory-backend=ram",
                "-object", f"memory-backend-file,id=ram,size={self.memory_mib}M,mem-path={self.work}/memory,share={share}"]

    def shared_memory(self):
        """A model that is a card gets the guest's memory as a file."""
        return ["-machine", "memory-backend=ram",
                "-object", f"memory-backend-memfd,id=ram,size={self.memory_mib}M,share=on"]

    def power_on(self, boot, memory):
        """Starts QEMU, with its channel and monitor connected."""
        self.buffer = b""
        forwards = "".join(f",hostfwd=tcp:127.0.0.1:0-:{port}" for port in self.forward)
        command = [
            *self.program, "-accel", "tcg,thread=multi,tb-size=256", "-machine", "q35", "-cpu", "max,-la57", "-smp", "2",
            "-m", str(self.memory_mib), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-serial", f"file:{self.console}",
            "-chardev", f"socket,id=channel,path={self.work}/channel,server=on,wait=off", "-serial", "chardev:channel",
            "-qmp", f"unix:{self.work}/qmp,server=on,wait=off",
            "-drive", f"file={build.root_image()},format=raw,if=none,id=root,readonly=on",
            "-device", "virtio-blk-pci,drive=root", *self.drives,
            "-netdev", f"user,id=net{forwards}", "-device", "virtio-net-pci,netdev=net,romfile=,id=nic",
            "-object", "rng-random,filename=/dev/urandom,id=random", "-device", "virtio-rng-pci,rng=random", *self.cards, *boot, *memory]
        with (self.work / "qemu").open("wb") as log:
            try:
                self.qemu = process.start(command, stdout=log, stderr=log)
            except FileNotFoundError:
                raise GuestFailure(NO_QEMU) from None
        try:
            self.channel = self._connect("channel")
            self.channel.setblocking(False)
            self.qmp = Qmp(self._connect("qmp"))
        except (ConnectionError, ValueError):
            raise self._no_start() from None

    def _connect(self, name):
        end = time.monotonic() + 2 * BOOT_S
        while time.monotonic() < end and self.qemu.poll() is None:
            try:
                sock = socket.socket(socket.AF_UNIX)
                sock.connect(str(self.work / name))
                return sock
            except OSError:
                sock.close()
                time.sleep(0.02)
        raise self._no_start()

    def _no_start(self):
        said = (self.work / "qemu").read_text().strip() or "it said nothing"
        return GuestFailure(f"QEMU did not start: {said}")

    def line(self, timeout_s, otherwise):
        """The next line that the guest sends."""
        end = time.monotonic() + timeout_s
        while b"\n" not in self.buffer:
            if not select.select([self.channel], [], [], max(0, end - time.monotonic()))[0]:
                raise GuestFailure(f"{otherwise} within {timeout_s} s")
            try:
                data = self.channel.recv(4096)
            except ConnectionError:
                data = b""
            if not data:
                raise GuestFailure(f"{otherwise}: it ended by itself")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode(errors="replace").strip()

    def wait_for(self, word, timeout_s, otherwise):
        line = self.line(timeout_s, otherwise)
        if line != word:
            raise GuestFailure(f"{otherwise}: it said '{line}' where '{word}' was due")

    def say(self, line):
        self.channel.sendall(line.encode() + b"\n")

    def run(self, steps=None, timeout_s=TEST_S):
        """Serves the test's steps, functions by name, until it ends. An answer is what a function returns."""
        end = time.monotonic() + timeout_s
        while True:
            what, *words = self.line(max(1, int(end - time.monotonic())), "the test in the guest did not end").split()
            if what == "exit":
                if words != ["0"]:
                    raise GuestFailure("the test in the guest failed; its console says where")
                return
            name, *words = words
            try:
                answer = (steps or {})[name](*words)
            except Exception as error:
                self.say(f"failed {type(error).__name__}: {error}".replace("\n", " "))
                raise
            self.say(f"ok {answer if isinstance(answer, (str, int)) and answer is not True else ''}".replace("\n", " "))

    def forwarded(self, port):
        """The host's port behind which the guest's is."""
        return int(re.search(rf"TCP\[HOST_FORWARD\].*127\.0\.0\.1\s+(\d+)\s+\S+\s+{port}\s", self.qmp.monitor("info usernet"))[1])

    def link(self, up):
        """Pulls the network cable, or puts it back; nobody is told."""
        self.qmp("set_link", name="nic", up=up)

    def reset(self):
        """The reset button: nothing is shut down, memory is lost, disks keep what they have, the peers hear nothing. The
        guest boots again and its test begins anew."""
        self.qmp("set-action", reboot="reset")
        for attempt in range(1, BOOTS + 1):
            self.qmp("system_reset")
            try:
                return self.wait_for("booted", attempt * BOOT_S, f"the guest with Linux {self.kernel} did not boot again")
            except GuestFailure:
                if attempt == BOOTS:
                    raise

    def kill(self):
        """The power goes, and with it the sockets."""
        process.end(self.qemu)
