#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `./run` shows: three disks served over NVMe/TCP, real data through them, changes under load, and a few figures.

Usage: demo.py MQBLK. Everything it makes lies in one scratch folder and is gone afterwards; it needs no root and uses
loopback only. Each step says what it does; the first that fails ends the demonstration with a non-zero status.
"""
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

NQN = "nqn.2026-01.io.mqblk:demo"
DISK_MIB = 256
SOURCE_MIB = 150  # at most so much of this machine's files goes into the image
SECONDS = 2  # of each measurement
MIB = 1 << 20
# With two CPUs or more the target gets one and whoever measures another.
CPUS = sorted(os.sched_getaffinity(0))
PIN_TARGET = ["--cores", CPUS[0]] if len(CPUS) > 1 else []
PIN_INITIATOR = ["--cores", CPUS[1]] if len(CPUS) > 1 else []


class Failed(Exception):
    """One sentence: what did not work."""


def say(text):
    print(text, flush=True)


class Mqblk:
    """The program, and the target that it serves."""

    def __init__(self, program, scratch):
        self.program, self.scratch = program, scratch
        self.control = scratch / "control"
        self.target = None
        self.address = None

    def run(self, *arguments):
        """Runs a command to its end and returns its standard output."""
        command = [self.program, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise Failed(f"mqblk {arguments[0]} ended with {done.returncode}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def start(self, *arguments):
        return subprocess.Popen([self.program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                stdin=subprocess.DEVNULL, text=True)

    def serve(self, *disks):
        self.target = self.start("serve", "--listen", "127.0.0.1:0", "--nqn", NQN, "--control", self.control,
                                 *PIN_TARGET, *disks)
        for line in self.target.stdout:
            say("  " + line.rstrip())
            if found := re.search(r"nvme\+tcp://([^/]+)/", line):
                self.address = found[1]
            if line.strip() == "ready":
                return
        raise Failed(f"mqblk serve ended with {self.target.wait()}: {self.target.stderr.read().strip()}")

    def namespace(self, nsid):
        return f"nvme+tcp://{self.address}/{NQN}/{nsid}"

    def ctl(self, *arguments):
        return self.run("ctl", "--control", self.control, *arguments)

    def stop(self):
        """Ctrl-C: the target ends in order, and its exit status says so."""
        if self.target is None or self.target.poll() is not None:
            return
        self.target.send_signal(signal.SIGINT)
        try:
            status = self.target.wait(20)
        except subprocess.TimeoutExpired:
            self.target.kill()
            self.target.wait()
            raise Failed("the target did not end within 20 s of Ctrl-C") from None
        if status != 0:
            raise Failed(f"the target ended with {status}: {self.target.stderr.read().strip()}")


def folder_bytes(folder):
    return sum(
        entry.stat(follow_symlinks=False).st_size + 4096
        for top, _, names in os.walk(folder)
        for entry in map(Path(top).joinpath, names)
    )


def make_image(image):
    """A file system (or, without mke2fs, an archive) of this machine's own files. Returns what it is."""
    candidates = map(Path, ("/usr/include", "/usr/share/doc", "/usr/lib/python3", "/etc"))
    folders = [folder for folder in candidates if folder.is_dir()]
    sizes = {folder: folder_bytes(folder) for folder in folders}
    fitting = [folder for folder in folders if sizes[folder] <= SOURCE_MIB * MIB]
    if not fitting:
        raise Failed(f"this machine has no folder of at most {SOURCE_MIB} MiB to make an image of")
    folder = max(fitting, key=sizes.get)
    if mke2fs := shutil.which("mke2fs", path=os.environ["PATH"] + ":/sbin:/usr/sbin"):
        mib = sizes[folder] * 3 // 2 // MIB + 16
        made = subprocess.run([mke2fs, "-q", "-t", "ext4", "-d", folder, image, f"{mib}M"], capture_output=True)
        if made.returncode == 0:
            return f"ext4 file system of {folder}"
        image.unlink(missing_ok=True)
    with tarfile.open(image, "w") as archive:
        archive.add(folder)
    with image.open("ab") as file:
        file.truncate(-(-image.stat().st_size // 4096) * 4096)
    return f"tar archive of {folder}"


def sha256(path):
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(MIB):
            digest.update(piece)
    return digest.hexdigest()


def copy_image(mqblk):
    image, back = mqblk.scratch / "image", mqblk.scratch / "image.back"
    kind = make_image(image)
    size = image.stat().st_size
    say(f"\nThe {kind}, {size / MIB:.0f} MiB, goes onto the file disk and comes back:")
    started = time.monotonic()
    mqblk.run("write", mqblk.namespace(1), "-i", image)
    written = time.monotonic()
    mqblk.run("flush", mqblk.namespace(1))
    flushed = time.monotonic()
    mqblk.run("read", mqblk.namespace(1), "-o", back, "--length", size)
    ended = time.monotonic()
    before, after = sha256(image), sha256(back)
    say(f"  sha256 before  {before}\n  sha256 after   {after}")
    say(f"  written in {written - started:.2f} s, flushed in {flushed - written:.2f} s,"
        f" read in {ended - flushed:.2f} s")
    if before != after:
        raise Failed("what came back is not what was written")
    e2fsck = shutil.which("e2fsck", path=os.environ["PATH"] + ":/sbin:/usr/sbin")
    if kind.startswith("ext4") and e2fsck:
        if subprocess.run([e2fsck, "-fn", back], capture_output=True).returncode:
            raise Failed("e2fsck found the file system that came back damaged")
        say("  e2fsck finds the file system that came back whole")
    image.unlink()
    back.unlink()


def change_under_load(mqblk):
    say("\nA namespace comes and goes while another is written, read and verified:")
    load = mqblk.start("bench", mqblk.namespace(2), "--rw", "randrw", "--bs", "4k", "--depth", 32, "--time", "4s",
                       "--verify", "--json")
    rounds = 0
    try:
        while load.poll() is None:
            mqblk.ctl("add", "--nsid", 4, "ram://?size=16M")
            mqblk.run("zero", mqblk.namespace(4), "--length", "1M")
            mqblk.ctl("remove", 4)
            rounds += 1
        out, errors = load.communicate(timeout=60)
    finally:
        if load.poll() is None:
            load.kill()
            load.wait()
    if load.returncode or not rounds:
        raise Failed(f"the load ended with {load.returncode}: {errors.strip()}")
    job = json.loads(out)["jobs"][0]
    done = job["read"]["total_ios"] + job["write"]["total_ios"]
    say(f"  added, used and removed {rounds} times; meanwhile {done:,} verified reads and writes, none failed")


def measure(mqblk):
    """Rows of the closing table: what, IOPS, MB/s, mean and 99th percentile latency in µs."""
    loop, disks = "nvme+loop:///1?ns=[{}]", {"file": 1, "RAM": 2, "null": 3}
    cases = [
        ("block layer, null", "null://?size=64G", "randread", "4k", 32),
        ("loop, null", loop.format("null://?size=64G"), "randread", "4k", 32),
        ("loop, RAM", loop.format("ram://?size=256M"), "randread", "4k", 32),
        ("TCP, null", mqblk.namespace(disks["null"]), "randread", "4k", 1),
        ("TCP, null", mqblk.namespace(disks["null"]), "randread", "4k", 32),
        ("TCP, RAM", mqblk.namespace(disks["RAM"]), "randread", "4k", 32),
        ("TCP, RAM", mqblk.namespace(disks["RAM"]), "randwrite", "4k", 32),
        ("TCP, RAM", mqblk.namespace(disks["RAM"]), "read", "128k", 32),
        ("TCP, file", mqblk.namespace(disks["file"]), "randread", "4k", 32),
    ]
    say(f"\nShort measurements, {SECONDS} s each, initiator and target on this machine ({os.cpu_count()} CPUs):\n")
    say(f"  {'path':<18} {'pattern':<10} {'block':>6} {'depth':>5} {'IOPS':>11}"
        f" {'MB/s':>8} {'mean µs':>8} {'p99 µs':>8}")
    for what, uri, pattern, block, depth in cases:
        report = mqblk.run("bench", uri, "--rw", pattern, "--bs", block, "--depth", depth, "--time", f"{SECONDS}s",
                           "--json", *PIN_INITIATOR)
        job = json.loads(report)["jobs"][0]
        side = job["write" if "write" in pattern else "read"]
        percentile = side["clat_ns"]["percentile"]["99.000000"]
        say(f"  {what:<18} {pattern:<10} {block:>6} {depth:>5} {side['iops']:>11,.0f} {side['bw_bytes'] / 1e6:>8,.0f}"
            f" {side['lat_ns']['mean'] / 1e3:>8,.1f} {percentile / 1e3:>8,.1f}")


def demonstrate(program):
    with tempfile.TemporaryDirectory(prefix="mqblk-demo-") as folder:
        mqblk = Mqblk(program, Path(folder))
        try:
            say("A file, memory and a null disk, served over TCP:")
            mqblk.serve(f"file://{folder}/disk.img?size={DISK_MIB}M", "ram://?size=256M", "null://?size=64G")
            copy_image(mqblk)
            change_under_load(mqblk)
            measure(mqblk)
        finally:
            mqblk.stop()
    say("\nThe target ended in order, and everything it left is removed. Next: ./run --help, or README.md.")


def main():
    started = time.monotonic()
    try:
        demonstrate(sys.argv[1])
    except Failed as failed:
        sys.exit(f"demonstration: {failed}")
    except KeyboardInterrupt:
        sys.exit(130)
    say(f"It took {time.monotonic() - started:.0f} s.")


main()
