#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what docs/performance.md reports, and prints its tables.

The target is pinned to CPU 0 and the initiator to CPU 1. Every figure over TCP alternates with `bench_raw_tcp`, two
processes that exchange bytes of the same sizes with no protocol at all, so that both see the same machine in the same
state; what is printed are medians, and the ratio of the two. Needs nothing but Python and a release build, no root
(except for --realtime); traffic stays on loopback. A run takes some ten minutes; --only and --time make it shorter.
"""
import argparse
import json
import os
import resource
import select
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NQN = "nqn.2026-01.io.mqblk:bench"
TARGET_CPU, INITIATOR_CPU = "0", "1"
RAMP_SECONDS = 0.3  # runs before each measurement and does not count

# name, what it is, namespace, options of `mqblk bench`, options of bench_raw_tcp
TCP_ROWS = [
    ("tcp-1", "null disk, depth 1", 1, "--depth 1", "--depth 1"),
    ("tcp-32", "null disk, depth 32", 1, "--depth 32", "--depth 32"),
    ("tcp-128", "null disk, depth 128", 1, "--depth 128", "--depth 128"),
    ("tcp-ram-read", "RAM disk, depth 32, read", 2, "--depth 32", "--depth 32"),
    ("tcp-ram-write", "RAM disk, depth 32, write", 2, "--depth 32 --rw randwrite", "--depth 32 --rw write"),
    ("tcp-128k-read", "RAM disk, 128 KiB, depth 32, read", 2, "--depth 32 --bs 128k", "--depth 32 --bs 128k"),
    ("tcp-128k-write", "RAM disk, 128 KiB, depth 32, write", 2, "--depth 32 --bs 128k --rw randwrite",
     "--depth 32 --bs 128k --rw write"),
]
CONNECTIONS_ROW = ("tcp-32-connections", "null disk, 32 connections with one command each")
CONNECTIONS = 32

# Memory that was never written to is one page of zeroes, which reads like no memory does.
NULL, RAM = "null://?size=64G", "ram://?size=256M&populate=1"
LOOP = f"nvme+loop:///1?ns=[{NULL}]"
SKD = f"skd+model://?disk=[{NULL}]"
# name, what it is, URI, options
LOCAL_ROWS = [
    ("null-1", "block layer over null, depth 1", NULL, "--depth 1"),
    ("null-32", "block layer over null, depth 32", NULL, "--depth 32"),
    ("ram-read", "block layer over RAM (256 MiB), depth 32, read", RAM, "--depth 32"),
    ("ram-write", "block layer over RAM (256 MiB), depth 32, write", RAM, "--depth 32 --rw randwrite"),
    ("loop-1", "loop over null, depth 1", LOOP, "--depth 1"),
    ("loop-32", "loop over null, depth 32", LOOP, "--depth 32"),
    ("skd-1", "S1120 driver and model over null, depth 1", SKD, "--depth 1"),
    ("skd-32", "S1120 driver and model over null, depth 32", SKD, "--depth 32"),
]
# The same with the model in another process: name, what it is, what `mqblk emulate` is to be, options.
CARD_ROWS = [
    ("skd-socket-1", "S1120 driver, model in another process, depth 1", ["skd", NULL], "--depth 1"),
    ("skd-socket-32", "S1120 driver, model in another process, depth 32", ["skd", NULL], "--depth 32"),
    ("megaraid-socket-1", "MegaRAID driver, model in another process, depth 1", ["megaraid", "--jbod", NULL],
     "--depth 1"),
    ("megaraid-socket-32", "MegaRAID driver, model in another process, depth 32", ["megaraid", "--jbod", NULL],
     "--depth 32"),
]
# Twelve disks on one controller, whose model has a thread of its own; and the tags that its commands are numbered by.
# Name, benchmark in bench_megaraid, what it counts.
THREAD_ROWS = [("megaraid-threads", "reads", "IOPS, depth 32 for each thread"),
               ("tags-threads", "tags", "tags taken and given back in a second")]
THREADS = [1, 2, 4, 8]
MANY_NAMESPACES, USED_AT_EACH_END = 4096, 16
MANY_CONNECTIONS, KEPT_ALIVE = 1000, 100
PRESENCE_ROWS = ["presence", "namespaces", "connections", "keep-alive"]
ALL = [row[0] for row in TCP_ROWS + [CONNECTIONS_ROW] + LOCAL_ROWS + CARD_ROWS + THREAD_ROWS] + PRESENCE_ROWS


class Failed(Exception):
    """One sentence: what could not be measured."""


def say(text):
    print(text, file=sys.stderr, flush=True)


# --- programs -------------------------------------------------------------------------------------------------------

class Programs:
    def __init__(self, build, realtime, seconds):
        self.mqblk, self.raw = build / "mqblk", build / "bench" / "bench_raw_tcp"
        self.megaraid = build / "bench" / "bench_megaraid"
        for program in (self.mqblk, self.raw, self.megaraid):
            if not program.exists():
                raise Failed(f"{program} does not exist: build it with `cmake --preset release && "
                             "cmake --build --preset release`, or name another build with --build")
        self.prefix = ["chrt", "-r", "20"] if realtime else []
        self.seconds = seconds

    def command(self, program, *arguments):
        return [*self.prefix, str(program), *map(str, arguments)]

    def report(self, program, *arguments):
        """Runs a program to its end and returns the JSON that it printed."""
        done = subprocess.run(self.command(program, *arguments), capture_output=True, text=True,
                              timeout=self.seconds + 120)
        if done.returncode:
            raise Failed(f"{program.name} {' '.join(map(str, arguments))[:200]} ended with {done.returncode}: "
                         f"{(done.stderr or done.stdout).strip()[:500]}")
        return json.loads(done.stdout)

    def bench(self, uris, options):
        """IOPS of one `mqblk bench`."""
        report = self.report(self.mqblk, "bench", *uris, *options.split(), "--cores", INITIATOR_CPU, "--time",
                             f"{int(self.seconds * 1000)}ms", "--ramp", f"{int(RAMP_SECONDS * 1000)}ms", "--json")
        job = report["jobs"][0]
        return job["read"]["iops"] + job["write"]["iops"]

    def bench_raw(self, options):
        return self.report(self.raw, *options.split(), "--time", self.seconds + RAMP_SECONDS, "--json")["iops"]


    def bench_threads(self, benchmark):
        """Of one benchmark in bench_megaraid: items per second by how many threads took part."""
        report = self.report(self.megaraid, f"--benchmark_filter=^{benchmark}/",
                             f"--benchmark_min_time={self.seconds}", "--benchmark_format=json")
        return {run["threads"]: run["items_per_second"] for run in report["benchmarks"]}


class Target:
    """A running `mqblk serve` on CPU 0 and a port that the kernel picks."""

    def __init__(self, programs, *disks, config=None, options=()):
        arguments = [*disks, "--listen", "127.0.0.1:0", "--nqn", NQN, "--cores", TARGET_CPU, "--json", *options]
        if config:
            arguments += ["--config", config]
        command = programs.command(programs.mqblk, "serve", *arguments)
        began = time.monotonic()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        self.launch_ms = (time.monotonic() - began) * 1e3
        if not line:
            raise Failed(f"mqblk serve ended with {self.process.wait()} before it was ready")
        self.uris = [namespace["uris"][0] for namespace in json.loads(line)["namespaces"]]
        self.port = int(self.uris[0].split("/")[2].rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def resident_kib(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise Failed("the target's resident size is not known")

    def cpu_ns(self):
        """Time on a CPU of all its threads so far."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)

    def cpu_percent(self, seconds, meanwhile=time.sleep):
        """Of one core, over a time in which `meanwhile(seconds)` runs."""
        cpu, began = self.cpu_ns(), time.monotonic_ns()
        meanwhile(seconds)
        return 100 * (self.cpu_ns() - cpu) / (time.monotonic_ns() - began)


# --- connections that stay idle -------------------------------------------------------------------------------------

class IdleConnections:
    """Controllers of hosts that connected and then do nothing: ICReq, Connect, enable (NVMe/TCP 1.0, NVMe-oF 1.1)."""

    FABRICS, KEEP_ALIVE = 0x7F, 0x18
    PROPERTY_SET, CONNECT = 0x00, 0x01
    ENABLED = 0x00460001  # CC: enabled, queue entries of 64 and 16 bytes

    def __init__(self, port, count, keep_alive_ms):
        self.sockets, self.next = [], 0
        try:
            for index in range(count):
                self.sockets.append(self.open(port, index, keep_alive_ms))
        except OSError as error:
            self.close()
            raise Failed(f"connection {len(self.sockets) + 1} of {count} to the target: {error}") from error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for each in self.sockets:
            each.close()

    @classmethod
    def open(cls, port, index, keep_alive_ms):
        connection = socket.create_connection(("127.0.0.1", port), timeout=30)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(struct.pack("<BBBBIHBBI112x", 0, 0, 128, 0, 128, 0, 0, 0, 0))
        cls.receive(connection, 128)
        host = f"nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-{index:012d}".encode()
        data = struct.pack("<16sH238x256s256s256x", index.to_bytes(16, "big"), 0xFFFF, NQN.encode(), host)
        body = struct.pack("<HHHBxI12x", 0, 0, 31, 0, keep_alive_ms)
        cls.command(connection, cls.FABRICS, cls.CONNECT, body, data)
        cls.command(connection, cls.FABRICS, cls.PROPERTY_SET, struct.pack("<B3xIQ8x", 0, 0x14, cls.ENABLED))
        return connection

    @staticmethod
    def receive(connection, count):
        got = b""
        while len(got) < count:
            piece = connection.recv(count - len(got))
            if not piece:
                raise ConnectionError("closed by the target")
            got += piece
        return got

    @classmethod
    def command(cls, connection, opcode, fabrics_type, body, data=b""):
        # The data lie in the capsule, or there are none; either is an SGL data block relative to the capsule.
        capsule = struct.pack("<BBHB19xQI3xB24s", opcode, 0x40, 1, fabrics_type, 0, len(data), 0x01, body)
        header = struct.pack("<BBBBI", 4, 0, 72, 72 if data else 0, 72 + len(data))
        connection.sendall(header + capsule + data)
        status = struct.unpack_from("<H", cls.receive(connection, 24), 22)[0] >> 1
        if status:
            raise ConnectionError(f"opcode {opcode:#x} ended with status {status:#x}")

    def keep_alive(self, seconds, every):
        """Each connection says that its host lives, once in `every` seconds, in turn."""
        gap, due = every / len(self.sockets), time.monotonic()
        end = due + seconds
        while due < end:
            self.command(self.sockets[self.next], self.KEEP_ALIVE, 0, b"")
            self.next = (self.next + 1) % len(self.sockets)
            due += gap
            time.sleep(max(0, due - time.monotonic()))

    def all_open(self):
        poll = select.poll()
        for each in self.sockets:
            poll.register(each, select.POLLIN | select.POLLHUP)
        return not poll.poll(0)


# --- measurements ---------------------------------------------------------------------------------------------------

class Measurements:
    def __init__(self, programs, runs, only):
        self.programs, self.runs, self.only = programs, runs, only
        self.results = {}  # name: what was measured, by kind

    def wanted(self, *names):
        return [name for name in names if name in self.only]

    def alternate(self, name, **kinds):
        """Calls each kind's function in turn, so often as there are runs; keeps all figures."""
        figures = {kind: [] for kind in kinds}
        for run in range(self.runs):
            for kind, measure in kinds.items():
                figures[kind].append(measure())
            say(f"{name} {run + 1}/{self.runs}: " + ", ".join(f"{k} {rate(v[-1])}" for k, v in figures.items()))
        self.results[name] = figures

    def tcp(self):
        if not self.wanted(*[row[0] for row in TCP_ROWS], CONNECTIONS_ROW[0]):
            return
        programs = self.programs
        with Target(programs, NULL, RAM) as target:
            for name, _, nsid, options, raw in TCP_ROWS:
                if name in self.only:
                    self.alternate(name, raw=lambda: programs.bench_raw(raw),
                                   mqblk=lambda: programs.bench([target.uris[nsid - 1]], options))
            if CONNECTIONS_ROW[0] in self.only:
                # A host of its own name has a connection of its own.
                hosts = [f"{target.uris[0]}?hostnqn=nqn.2026-01.io.mqblk:host{i}" for i in range(CONNECTIONS)]
                self.alternate(CONNECTIONS_ROW[0],
                               raw=lambda: programs.bench_raw(f"--depth {CONNECTIONS} --connections {CONNECTIONS}"),
                               mqblk=lambda: programs.bench(hosts, f"--depth {CONNECTIONS}"),
                               threads=lambda: programs.bench(target.uris[:1], f"--depth 1 --jobs {CONNECTIONS}"))

    def local(self):
        for name, _, uri, options in LOCAL_ROWS:
            if name in self.only:
                self.alternate(name, mqblk=lambda: self.programs.bench([uri], options))

    def card(self):
        """A card on CPU 0, behind a vfio-user socket."""
        for name, _, emulated, options in CARD_ROWS:
            if name not in self.only:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                kind, *disks = emulated
                command = self.programs.command(self.programs.mqblk, "emulate", kind, "--socket", f"{scratch}/card",
                                                "--json", *disks)
                server = subprocess.Popen(["taskset", "-c", TARGET_CPU, *command], stdout=subprocess.PIPE, text=True)
                try:
                    uri = json.loads(server.stdout.readline() or '{"uri": ""}')["uri"]
                    self.alternate(name, mqblk=lambda: self.programs.bench([uri], options))
                finally:
                    server.terminate()
                    server.wait(timeout=30)

    def threads(self):
        for name, benchmark, _ in THREAD_ROWS:
            if name not in self.only:
                continue
            runs = [self.programs.bench_threads(benchmark) for _ in range(self.runs)]
            self.results[name] = {str(count): [run[count] for run in runs] for count in THREADS}
            say(f"{name}: " + ", ".join(f"{count} {rate(statistics.median(figures))}"
                                        for count, figures in self.results[name].items()))

    def presence(self):
        if "presence" not in self.only:
            return
        launches, resident, idle = [], [], []
        for run in range(self.runs):
            with Target(self.programs, "ram://?size=64M") as target:
                time.sleep(1)
                launches.append(target.launch_ms)
                resident.append(target.resident_kib())
                idle.append(target.cpu_percent(max(5, self.programs.seconds)))
            say(f"presence {run + 1}/{self.runs}: ready after {launches[-1]:.1f} ms, {resident[-1]} KiB, "
                f"CPU {idle[-1]:.3f}%")
        self.results["presence"] = {"launch_ms": launches, "resident_kib": resident, "idle_cpu_percent": idle}

    def namespaces(self):
        if "namespaces" not in self.only:
            return
        programs, ends = self.programs, USED_AT_EACH_END
        disk = "null://?size=1G"
        with tempfile.TemporaryDirectory() as scratch:
            config = Path(scratch) / "many.json"
            namespaces = [{"nsid": nsid, "uri": disk} for nsid in range(1, MANY_NAMESPACES + 1)]
            config.write_text(json.dumps({"version": 1, "subsystems": [
                {"nqn": NQN, "allow_any_host": True, "namespaces": namespaces}]}))
            with Target(programs, disk) as one, Target(programs, *[disk] * 2 * ends) as used, \
                    Target(programs, config=config) as many:
                time.sleep(1)
                resident = {"one_kib": [one.resident_kib()], "many_kib": [many.resident_kib()],
                            "many_launch_ms": [many.launch_ms]}
                say(f"namespaces: {MANY_NAMESPACES} ready after {many.launch_ms:.0f} ms, {many.resident_kib()} KiB")
                self.alternate("namespaces-one", one=lambda: programs.bench(one.uris, "--depth 32"),
                               many=lambda: programs.bench(many.uris[-1:], "--depth 32"))
                self.alternate("namespaces-ends", used=lambda: programs.bench(used.uris, "--depth 32"),
                               many=lambda: programs.bench(many.uris[:ends] + many.uris[-ends:], "--depth 32"))
        loop = f"nvme+loop:///{MANY_NAMESPACES}?" + "&".join([f"ns=[{disk}]"] * MANY_NAMESPACES)
        self.alternate("namespaces-loop",
                       one=lambda: programs.bench([f"nvme+loop:///1?ns=[{disk}]"], "--depth 32"),
                       many=lambda: programs.bench([loop], "--depth 32"))
        self.results["namespaces"] = resident

    def connections(self):
        if "connections" not in self.only:
            return
        programs = self.programs
        # Two targets of the same kind, one with idle connections and one without, in turn.
        with Target(programs, NULL) as alone, Target(programs, NULL) as crowded:
            programs.bench(crowded.uris, "--depth 32")  # what a first user costs is not counted as connections'
            time.sleep(1)
            before = crowded.resident_kib()
            with IdleConnections(crowded.port, MANY_CONNECTIONS, 0) as idle:
                time.sleep(1)
                each = (crowded.resident_kib() - before) / MANY_CONNECTIONS
                say(f"connections: {each:.1f} KiB for each of {MANY_CONNECTIONS}")
                self.alternate("connections-iops", alone=lambda: programs.bench(alone.uris, "--depth 32"),
                               crowded=lambda: programs.bench(crowded.uris, "--depth 32"))
                if not idle.all_open():
                    raise Failed("idle connections were closed during the measurement")
        self.results["connections"] = {"kib_each": [each]}

    def keep_alive(self):
        if "keep-alive" not in self.only:
            return
        with Target(self.programs, NULL) as target, IdleConnections(target.port, KEPT_ALIVE, 5000) as idle:
            every = 2.5  # seconds: half of the time-out, as hosts do
            seconds = max(2 * every, self.programs.seconds)
            cpu = [target.cpu_percent(seconds, lambda s: idle.keep_alive(s, every)) for _ in range(self.runs)]
            if not idle.all_open():
                raise Failed("idle connections were closed during the measurement")
        say(f"keep-alive: CPU {', '.join(f'{c:.3f}%' for c in cpu)}")
        self.results["keep-alive"] = {"cpu_percent": cpu}


# --- tables ---------------------------------------------------------------------------------------------------------

def rate(iops):
    for limit, unit in ((1e6, "M"), (1e3, "K")):
        if iops >= limit:
            value = iops / limit
            return f"{value:.2f}{unit}" if value < 10 else f"{value:.1f}{unit}" if value < 100 else f"{value:.0f}{unit}"
    return f"{iops:.0f}"


class Tables:
    def __init__(self, results):
        self.results = results

    def median(self, name, kind):
        return statistics.median(self.results[name][kind])

    def has(self, name):
        return name in self.results

    def tcp(self):
        names = [(row[0], row[1], "mqblk") for row in TCP_ROWS]
        names += [(*CONNECTIONS_ROW, "mqblk"), (CONNECTIONS_ROW[0], "the same, a thread for each connection", "threads")]
        lines = []
        for name, what, kind in names:
            if self.has(name):
                raw, ours = self.median(name, "raw"), self.median(name, kind)
                lines.append(f"| {what} | {rate(raw)} | {rate(ours)} | {100 * ours / raw:.0f}% |")
        return self.table("what | raw | mqblk | of raw", lines)

    def local(self):
        return self.table("what | IOPS", [f"| {what} | {rate(self.median(name, 'mqblk'))} |"
                                          for name, what, *_ in LOCAL_ROWS + CARD_ROWS if self.has(name)])

    def threads(self):
        return self.table("what | " + " | ".join(f"{count} thread{'s' * (count > 1)}" for count in THREADS),
                          [f"| {what} | " + " | ".join(rate(self.median(name, str(count))) for count in THREADS) + " |"
                           for name, _, what in THREAD_ROWS if self.has(name)])

    def presence(self):
        lines = []
        if self.has("presence"):
            lines += [f"| launch to `ready` | {self.median('presence', 'launch_ms'):.0f} ms |",
                      "| resident memory with an idle 64 MiB disk | "
                      f"{self.median('presence', 'resident_kib') / 1024:.1f} MiB |",
                      f"| CPU of an idle target | {self.median('presence', 'idle_cpu_percent'):.2f}% of a core |"]
        if self.has("keep-alive"):
            lines.append(f"| CPU of an idle target with {KEPT_ALIVE} connections, keep-alive 5 s | "
                         f"{self.median('keep-alive', 'cpu_percent'):.2f}% of a core |")
        if self.has("connections"):
            lines.append(f"| memory of an idle connection with its controller | "
                         f"{self.median('connections', 'kib_each'):.0f} KiB |")
        if self.has("namespaces"):
            lines.append(f"| launch to `ready` with {MANY_NAMESPACES:,} namespaces | "
                         f"{self.median('namespaces', 'many_launch_ms'):.0f} ms |")
            more = self.median("namespaces", "many_kib") - self.median("namespaces", "one_kib")
            lines.append(f"| memory of an unused namespace | {more / (MANY_NAMESPACES - 1):.1f} KiB |")
        return self.table("what | figure", lines)

    def flatness(self):
        many = f"{MANY_NAMESPACES:,} namespaces"
        rows = [
            ("namespaces-one", f"TCP: one namespace in use; 1 and {many}", "one", "many"),
            ("namespaces-ends", f"TCP: the first and last {USED_AT_EACH_END} in use; {2 * USED_AT_EACH_END} and {many}",
             "used", "many"),
            ("namespaces-loop", f"loop: one namespace in use; 1 and {many}", "one", "many"),
            ("connections-iops", f"TCP: one connection in use; none idle and {MANY_CONNECTIONS:,} idle", "alone",
             "crowded"),
        ]
        lines = []
        for name, what, few, many_kind in rows:
            if self.has(name):
                first, second = self.median(name, few), self.median(name, many_kind)
                lines.append(f"| {what} | {rate(first)} | {rate(second)} | {100 * (second / first - 1):+.1f}% |")
        return self.table("what (depth 32) | few | many | change", lines)

    @staticmethod
    def table(head, lines):
        if not lines:
            return []
        return [f"| {head} |", "|" + " --- |" * (head.count("|") + 1), *lines, ""]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--build", type=Path, default=Path(__file__).resolve().parent.parent / "build" / "release",
                        help="build folder [build/release]")
    parser.add_argument("--time", type=float, default=5, metavar="S", help="seconds of each measurement [5]")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of which the median is taken [5]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every single figure there")
    parser.add_argument("--only", nargs="+", choices=ALL, default=ALL, metavar="NAME", help=f"of {', '.join(ALL)}")
    parser.add_argument("--realtime", action="store_true",
                        help="run programs under chrt -r 20: for a machine that has other work to do; needs root")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if len(os.sched_getaffinity(0)) < 2:
        raise Failed("two CPUs are needed: one for the target, one for the initiator")
    measurements = Measurements(Programs(arguments.build, arguments.realtime, arguments.time), arguments.runs,
                                arguments.only)
    for measure in (measurements.tcp, measurements.local, measurements.card, measurements.threads,
                    measurements.presence, measurements.namespaces, measurements.connections, measurements.keep_alive):
        measure()
    if arguments.json:
        arguments.json.write_text(json.dumps(measurements.results, indent=1) + "\n")
    tables = Tables(measurements.results)
    for table in (tables.tcp(), tables.local(), tables.threads(), tables.presence(), tables.flatness()):
        print("\n".join(table), end="\n" if table else "")


if __name__ == "__main__":
    try:
        main()
    except (Failed, OSError) as failed:
        sys.exit(f"measure.py: {failed}")
    except KeyboardInterrupt:
        sys.exit(130)
