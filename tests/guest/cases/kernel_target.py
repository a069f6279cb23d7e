# SPDX-License-Identifier: Apache-2.0
"""Our initiator on a stock kernel's target: every command on every kind of disk it has, all digests, hosts that may not
come in, namespaces that change and a target that reboots, falls silent or goes for good, each under verified load."""
import json
import re
import signal
import subprocess

from harness import process
from harness.server import NQN, PROGRAM, mqblk
from harness.test import check, eventually

COST_S = 70
PORT, SMALL_PORT = 4420, 4421  # the second takes only 4 KiB in a capsule
DISK_MIB = 64
FRIEND = NQN + "friend"
MIB = 1 << 20
DATA_BYTES = 2 * MIB
ENOUGH_S = 120  # for what should take a few seconds, on a busy machine
LOSS_S, KEEP_ALIVE_S = 5, 2
SHOWN = ("logical_block_size", "minimum_io_size", "optimal_io_size", "discard_granularity", "write_zeroes_max_bytes",
         "write_cache", "fua")
STEPS = """facts commands between digests small_capsules strangers begin saw lists use removed is_gone is_back end reboot
    survived silence leave"""
RUN_S = 420
# The guest's script must get a turn: the target's threads run at nice -20, the workers behind a serial port at 0.
GENTLE = ("--depth", 1, "--time", "10m")
MIXED = ("--verify", "--rw", "randrw")


def refused(words, sentence, code=1):
    """The command fails as it should: with this exit code and one sentence."""
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=ENOUGH_S, check=False)
    said = done.stderr.strip()
    check(done.returncode == code and sentence in said and "\n" not in said,
          f"mqblk {' '.join(map(str, words))} was to end with {code} and '{sentence}'; it ended with {done.returncode}: {said}")


class Load:
    """A `mqblk bench --verify -v` that runs beside the test, from its first I/Os on."""

    def __init__(self, log, *words):
        self.words, self.log = words, log
        with log.open("wb") as out:
            self.process = process.start([PROGRAM, "bench", "-v", "--progress", *MIXED, "--bs", "4k", *words],
                                         stdout=subprocess.DEVNULL, stderr=out)
        self.saw("IOPS=[1-9]")

    def running(self):
        return self.process.poll() is None

    def said(self, pattern):
        return re.search(pattern, self.log.read_text())

    def saw(self, pattern):
        """Waits until it has logged this, which a running load must survive."""
        eventually(lambda: self.said(pattern) or not self.running(),
                   lambda: f"the load did not say '{pattern}', but: {self.tail()}", ENOUGH_S)
        check(self.running(), f"the load ended: {self.tail()}")

    def tail(self):
        """Its last words; of the progress only where it stands."""
        return re.sub(r"(\r[^\n\r]*)+(?=\r)", "", self.log.read_text())[-500:]

    def ended(self, code, sentence=""):
        """It ends with this code, and with this sentence or none."""
        words = " ".join(map(str, self.words))
        eventually(lambda: not self.running(), f"bench {words} did not end", ENOUGH_S)
        said = self.log.read_text()
        sentences = re.findall("mqblk: .*", said)
        check(self.process.returncode == code and len(sentences) == bool(sentence) and sentence in "".join(sentences),
              f"bench {words} was to end with {code} '{sentence}'; it ended with {self.process.returncode}: {self.tail()}")

    def second_of(self, pattern):
        """When it logged this, in seconds of the day."""
        found = self.said(rf"(\d+):(\d+):(\d+\.\d+) \w+: .*{pattern}")
        check(found, f"the load did not say '{pattern}': {self.tail()}")
        hour, minute, second = map(float, found.groups())
        return hour * 3600 + minute * 60 + second

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.ended(128 + signal.SIGINT)


class Initiator:
    def __init__(self, test, guest):
        self.test, self.guest = test, guest
        self.target = f"127.0.0.1:{guest.forwarded(PORT)}"
        self.loads = 0
        self.data = self.file("data")
        self.data.write_bytes(bytes(i * i >> 7 & 0xff | 1 for i in range(DATA_BYTES)))
        self.load = None

    def file(self, name):
        return self.test.work / name

    def uri(self, nsid, subsystem="disks", target=None, **options):
        said = "&".join(f"{name}={value}" for name, value in options.items())
        return f"nvme+tcp://{target or self.target}/{NQN}{subsystem}/{nsid}{'?' * bool(said)}{said}"

    def start_load(self, uri, *words):
        self.loads += 1
        return Load(self.file(f"load{self.loads}"), uri, *words)

    def read(self, uri, offset, length):
        mqblk("read", uri, "--offset", offset, "--length", length, "-o", self.file("back"))
        return self.file("back").read_bytes()

    def info(self, uri):
        return json.loads(mqblk("info", "--json", uri))

    def listed(self):
        return {ns["nsid"]: ns for ns in json.loads(mqblk("list", "--json", self.target))["namespaces"]}

    # What the guest's script asks for.

    def facts(self, *disks):
        """What list and discover say, held against what the guest has: NSID:BYTES:BLOCK, …"""
        said = {ns["nsid"]: (ns["bytes"], ns["block"]) for ns in self.listed().values()}
        wanted = {int(nsid): (int(size), int(block)) for nsid, size, block in (disk.split(":") for disk in disks)}
        check(said == wanted, f"list says {said}, the guest {wanted}")
        log = json.loads(mqblk("discover", "--json", self.target))["records"]
        check(NQN + "disks" in [entry["subnqn"] for entry in log], f"the discovery log is {log}")
        for nsid in wanted:
            said = self.info(self.uri(nsid))
            shown = {name: said["queue"][name] for name in SHOWN}
            print(f"namespace {nsid}: {shown}")
        print("controller", said["controller"])
        check(int(said["queue"]["max_hw_sectors_kb"]) <= 1024, "requests without bound for a target that states no MDTS")

    def commands(self, nsid):
        disk, data = self.uri(nsid), self.data.read_bytes()
        mqblk("copy", self.data, disk, "--verify")
        mqblk("verify", self.data, disk, "--length", DATA_BYTES)
        mqblk("write", disk, "-i", self.data, "--offset", DATA_BYTES, "--fua")
        check(self.read(disk, DATA_BYTES, DATA_BYTES) == data, f"namespace {nsid} did not give back what was written")
        mqblk("flush", disk)
        mqblk("zero", disk, "--offset", "64k", "--length", "64k")
        mqblk("zero", disk, "--offset", "192k", "--length", "512k", "--unmap")
        kept = bytearray(data)
        kept[64 << 10:128 << 10] = bytes(64 << 10)
        kept[192 << 10:704 << 10] = bytes(512 << 10)
        check(self.read(disk, 0, DATA_BYTES) == kept, f"namespace {nsid} was not cleared, or elsewhere")
        refused(("verify", self.data, disk, "--length", DATA_BYTES), "byte 65536", code=3)
        mqblk("discard", disk, "--offset", MIB, "--length", MIB)
        check(self.read(disk, 0, MIB) == kept[:MIB], f"namespace {nsid}: discard took more than it was told")
        mqblk("bench", disk, *MIXED, "--bs", "4k", "--depth", 16, "--jobs", 2, "--size", MIB)
        for size in MIB, 4 * MIB:
            mqblk("bench", disk, *MIXED, "--bs", size, "--depth", 2, "--size", 8 * MIB)
        mqblk("latency", disk, "4k", "--time", "200ms")
        for words in (), ("--write",):
            mqblk("iops", disk, *words, "--time", "200ms")

    def between(self, source, destination):
        mqblk("copy", self.uri(source), self.uri(destination), "--length", 4 * MIB, "--verify")

    def digests(self):
        for header in 0, 1:
            for data in 0, 1:
                for nsid in 1, 4:
                    disk = self.uri(nsid, hdgst=header, ddgst=data)
                    mqblk("copy", self.data, disk, "--verify")
                    mqblk("bench", disk, *MIXED, "--bs", "4k", "--depth", 16, "--size", 2 * MIB)
                    mqblk("bench", disk, *MIXED, "--bs", MIB, "--depth", 2, "--size", 6 * MIB)

    def small_capsules(self):
        disk = self.uri(1, target=f"127.0.0.1:{self.guest.forwarded(SMALL_PORT)}")
        check(self.info(disk)["controller"]["in_capsule_bytes"] == 4096, "more data in a capsule than the port takes")
        for size in "4k", "8k":
            mqblk("bench", disk, *MIXED, "--bs", size, "--depth", 16, "--size", 2 * MIB)

    def strangers(self):
        myself = self.info(self.uri(1))["controller"]["host_nqn"]
        refused(("info", self.uri(1, "closed")), f"does not allow host NQN '{myself}'")
        refused(("info", self.uri(1, "nobody")), f"has no subsystem '{NQN}nobody'")
        refused(("info", self.uri(99)), "has no namespace 99; it has 1, 2, 3")
        friendly = json.loads(mqblk("list", "--json", self.target, "--hostnqn", FRIEND))["namespaces"]
        check(NQN + "closed" in [ns["nqn"] for ns in friendly], "the friend does not see what is for friends")
        check(NQN + "closed" not in [ns["nqn"] for ns in self.listed().values()], "a stranger sees what is for friends")
        mqblk("bench", self.uri(1, "closed", hostnqn=FRIEND), *MIXED, "--bs", "4k", "--size", MIB)

    def begin(self):
        self.load = self.start_load(self.uri(1, reconnect_delay="200ms"), *GENTLE)

    def saw(self, *words):
        self.load.saw(f"namespaces:.* {' '.join(words)}")

    def lists(self, nsid, size):
        """What a new connection sees: BYTES, or none."""
        found = self.listed().get(int(nsid), {}).get("bytes", "none")
        check(str(found) == size, f"list gives namespace {nsid} {found} bytes where it has {size}")

    def use(self, nsid):
        self.used = self.start_load(self.uri(nsid), *GENTLE)

    def removed(self):
        self.used.ended(1, "device removed")

    def is_gone(self):
        self.load.saw("reconnecting")
        refused(("info", self.uri(1)), "has no subsystem")

    def is_back(self):
        self.load.saw("connected again")

    def end(self):
        self.load.stop()

    def reboot(self):
        """The answer goes to the next boot's first question."""
        self.load = self.start_load(self.uri(6, reconnect_delay="500ms"), "--depth", 16, "--time", "10s", "--jobs", 2)
        self.guest.reset()
        self.guest.wait_for("step boot", ENOUGH_S, "the guest's test did not begin anew")
        return 2

    def survived(self):
        self.load.ended(0)
        check(self.load.said("connected again"), "the load did not notice the reboot")

    def silence(self):
        self.load = self.start_lost()
        self.guest.link(up=False)
        self.lost()
        self.guest.link(up=True)

    def start_lost(self):
        bounds = {"ctrl_loss_tmo": f"{LOSS_S}s", "keep_alive": f"{KEEP_ALIVE_S}s", "reconnect_delay": "500ms"}
        return self.start_load(self.uri(6, **bounds), "--depth", 8, "--time", "10m")

    def leave(self):
        self.load = self.start_lost()

    def lost(self):
        self.load.ended(1, "path lost")
        took = (self.load.second_of("did not come back in time") - self.load.second_of("reconnecting")) % 86400
        print(f"ctrl_loss_tmo={LOSS_S}s: I/O failed after {took:.1f} s")
        check(LOSS_S * 0.9 < took < LOSS_S + 20, f"with ctrl_loss_tmo={LOSS_S}s I/O failed after {took:.1f} s")


def run(test):
    (test.work / "disk").touch()
    with (test.work / "disk").open("r+b") as disk:
        disk.truncate(DISK_MIB * MIB)
    guest = test.guest(forward=[PORT, SMALL_PORT], drives=[test.work / "disk"], nqn=NQN, friend=FRIEND)
    host = Initiator(test, guest)
    steps = {name: getattr(host, name) for name in STEPS.split()}
    guest.run({"boot": lambda: 1, **steps}, timeout_s=RUN_S)
    host.lost()
    refused(("info", host.uri(1)), "connect to 127.0.0.1")
