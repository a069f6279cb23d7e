// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/commands.h"

#include <array>

namespace mqblk::cli {

namespace {

constexpr std::array table{
    CommandInfo{
        "serve", "Serve devices as an NVMe/TCP target",
        "Examples:\n"
        "  mqblk serve ram://?size=64M\n"
        "  mqblk serve data=file:///var/tmp/disk.img?size=1G scratch=ram://?size=64M --listen 127.0.0.1:0\n"
        "  mqblk serve --config target.json --control /run/user/1000/mqblk.sock\n"
        "A device without NAME goes to the subsystem nqn.2026-01.io.mqblk:disks (or --nqn), one with NAME to\n"
        "nqn.2026-01.io.mqblk:NAME (or NAME itself, if it is an NQN). Prints what is served and how to reach\n"
        "it, then `ready`. Ends in order, with exit code 0, on Ctrl-C or SIGTERM; at once, with 130 or 143, on\n"
        "a second one, or 3 seconds after the first if `ctl` still waits for what it asked for.",
        make_serve},
    CommandInfo{"ctl", "Change a running target",
                "Examples:\n"
                "  mqblk ctl --control /tmp/mqblk.sock add ram://?size=64M\n"
                "  mqblk ctl --control /tmp/mqblk.sock resize 1 128M\n"
                "  mqblk ctl --control /tmp/mqblk.sock resize 1 64M --shrink\n"
                "  mqblk ctl --control /tmp/mqblk.sock remove 1\n"
                "  mqblk ctl --control /tmp/mqblk.sock save target.json",
                make_ctl},
    CommandInfo{
        "emulate", "Serve the model of a card on a vfio-user socket",
        "Examples:\n"
        "  mqblk emulate skd --socket /tmp/skd.sock ram://?size=64M\n"
        "  mqblk emulate skd --socket /tmp/skd.sock file:///var/tmp/disk.img?size=1G --profile s1120\n"
        "  mqblk emulate skd --socket /tmp/skd.sock ram://?size=64M --fault medium-error,lba=2048,blocks=8\n"
        "  mqblk emulate skd --socket /tmp/skd.sock ram://?size=64M --fault late@1000,by=10s --fault busy@5000,for=2s\n"
        "  mqblk emulate megaraid --socket /tmp/mr.sock --jbod ram://?size=64M --jbod ram://?size=64M\n"
        "  mqblk emulate megaraid --socket /tmp/mr.sock --jbod null://?size=1T --ld "
        "6x8=file:///var/tmp/vol.img?size=8G\n"
        "  mqblk emulate megaraid --socket /tmp/mr.sock --ld ram://?size=64M --fault firmware-fault@500\n"
        "For a virtual machine, or for a driver in another process. Prints how to reach it, then `ready`. Ends\n"
        "in order, with exit code 0, on Ctrl-C or SIGTERM; at once, with 130 or 143, on a second one, or 3\n"
        "seconds after the first if `ctl` still waits for what it asked for.",
        make_emulate},
    CommandInfo{"discover", "What subsystems a target offers", "Example:\n  mqblk discover 127.0.0.1:4420",
                make_discover},
    CommandInfo{
        "list", "What is behind targets and controllers, with the URIs that name it",
        "Examples:\n"
        "  mqblk list 127.0.0.1 127.0.0.1:4421\n"
        "  mqblk list megaraid+vfio-user:///tmp/megaraid.sock\n"
        "  mqblk list megaraid+pci://0000:01:00.0\n"
        "Of an NVMe target its namespaces, of a MegaRAID controller its disks and volumes. An S1120 is one disk.",
        make_list},
    CommandInfo{"info", "What a device is and what it can take",
                "Examples:\n"
                "  mqblk info file:///var/tmp/disk.img\n"
                "  mqblk info --json nvme+tcp://127.0.0.1/nqn.2026-01.io.mqblk:disks/1\n"
                "Queue attributes have the names of /sys/block/*/queue.",
                make_info},
    CommandInfo{"read", "Read from a device to a file or standard output",
                "Examples:\n"
                "  mqblk read ram://?size=1M --length 4k | xxd\n"
                "  mqblk read nvme+tcp://127.0.0.1/nqn.2026-01.io.mqblk:disks/1 --offset 1M --length 64M -o part.img",
                make_read},
    CommandInfo{"write", "Write a file or standard input to a device",
                "Examples:\n"
                "  mqblk write file:///var/tmp/disk.img -i image.ext4\n"
                "  tar c /etc | mqblk write nvme+tcp://127.0.0.1/nqn.2026-01.io.mqblk:disks/1 --pad",
                make_write},
    CommandInfo{"copy", "Copy between devices and plain files",
                "Examples:\n"
                "  mqblk copy image.ext4 nvme+tcp://127.0.0.1/nqn.2026-01.io.mqblk:disks/1 --verify\n"
                "  mqblk copy file:///var/tmp/a.img file:///var/tmp/b.img?size=1G\n"
                "  mqblk copy file:///var/tmp/a.img - | gzip > a.img.gz\n"
                "The copy is flushed before it is reported as done.",
                make_copy},
    CommandInfo{"verify", "Compare two devices or files",
                "Example:\n"
                "  mqblk verify image.ext4 nvme+tcp://127.0.0.1/nqn.2026-01.io.mqblk:disks/1 --length 64M\n"
                "Exit code 3 and the first byte that differs, if there is one.",
                make_verify},
    CommandInfo{"flush", "Bring what was written to stable media", "Example:\n  mqblk flush file:///var/tmp/disk.img",
                make_flush},
    CommandInfo{"discard", "Tell a device that data are no longer needed",
                "Example:\n  mqblk discard file:///var/tmp/disk.img --offset 1M --length 64M", make_discard},
    CommandInfo{"zero", "Fill a device or a part of it with zeroes",
                "Example:\n  mqblk zero file:///var/tmp/disk.img --length 1M", make_zero},
    CommandInfo{
        "raid", "Make RAID arrays and look after them",
        "Examples, with M standing for member=[file:///d0]&member=[file:///d1]&… and so on to d4:\n"
        "  mqblk raid create 'raid6://?chunk=128k&member=[file:///d0?size=1G]&…'\n"
        "  mqblk raid status 'raid6://?M'\n"
        "  mqblk raid replace 'raid6://?member=[file:///new?size=1G]&member=[file:///d1]&…' 0\n"
        "  mqblk raid rebuild 'raid6://?M'\n"
        "  mqblk raid scrub 'raid6://?M'\n"
        "A member that is not there is written member=missing; the order does not matter. status opens the array,\n"
        "which notes who is missing. scrub ends with exit code 3 where damage is beyond repair.",
        make_raid},
    CommandInfo{"bench", "Measure devices under a workload, or verify their data",
                "Examples:\n"
                "  mqblk bench null:// --depth 32 --time 5\n"
                "  mqblk bench nvme+tcp://127.0.0.1/nqn.2026-01.io.mqblk:disks/1 --rw randrw --rwmixread 70 --jobs 2\n"
                "  mqblk bench file:///var/tmp/disk.img --rw randwrite --verify --size 64M\n"
                "Workloads that write do so at once and destroy what is on the device.\n"
                "The JSON has fio's names: jobs[0].read.iops, bw_bytes, lat_ns.mean, clat_ns.percentile.\n"
                "Latency runs from submission to completion and is given as lat and clat; slat is zero.\n"
                "A job ends at its first failed I/O unless --continue-on-error; failed I/O never counts as done.",
                make_bench},
    CommandInfo{"latency", "Latency of single random reads and writes",
                "Examples:\n"
                "  mqblk latency ram://?size=64M\n"
                "  mqblk latency file:///var/tmp/disk.img 512 --read-only\n"
                "One I/O at a time: random reads, then random writes. The writes destroy what is on the device;\n"
                "--read-only leaves them out.",
                make_latency},
    CommandInfo{"iops", "Random reads or writes per second, on one line",
                "Examples:\n"
                "  mqblk iops null:// -b 512 -j 2\n"
                "  mqblk iops ram://?size=64M -w -b 4k -t 5\n"
                "-w destroys what is on the device.",
                make_iops},
    CommandInfo{"help", "What URIs name, and what exit codes mean",
                "Examples:\n"
                "  mqblk help uris\n"
                "  mqblk help uris --markdown > table.md\n"
                "  mqblk help exit",
                make_help},
    CommandInfo{"completion", "A completion script for a shell",
                "Examples:\n"
                "  . <(mqblk completion bash)\n"
                "  mqblk completion zsh > ~/.zfunc/_mqblk\n"
                "  mqblk completion fish > ~/.config/fish/completions/mqblk.fish",
                make_completion},
    CommandInfo{"version", "The version of mqblk and of what it was built with", "", make_version},
};

}  // namespace

std::span<const CommandInfo> commands() noexcept {
    return table;
}

}  // namespace mqblk::cli
