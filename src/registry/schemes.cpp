// SPDX-License-Identifier: Apache-2.0
#include "registry/schemes.h"

#include "registry/queue_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <vector>

namespace mqblk::registry {

namespace {

constexpr OptionInfo size_option{"size", "SIZE", "", "size of the disk, a multiple of its block"};
constexpr OptionInfo block_option{"block", "512|4096", "512", "logical block in bytes"};
constexpr OptionInfo queues_option{"queues", "N", "1 for each CPU", "hardware queues"};
constexpr OptionInfo depth_option{"depth", "N", "128", "requests in flight for each queue"};
constexpr OptionInfo ro_option{"ro", "0|1", "0", "write-protected"};

constexpr std::array null_options{
    OptionInfo{"size", "SIZE", "1G", "size of the disk, a multiple of its block"},
    block_option,
    queues_option,
    depth_option,
    OptionInfo{"latency", "TIME", "0", "each request takes at least this long"},
    OptionInfo{"threaded", "0|1", "0", "complete on a thread of each queue's own"},
    OptionInfo{"zero", "0|1", "0", "reads fill the memory with zeroes, which takes its time"},
    ro_option,
};
constexpr std::array ram_options{
    size_option,   block_option,
    queues_option, depth_option,
    ro_option,     OptionInfo{"populate", "0|1", "0", "take all memory when opened, not when first written"},
};
constexpr std::array file_options{
    OptionInfo{"size", "SIZE", "", "create the file with this size, or grow it to that; never shrinks it"},
    block_option,
    queues_option,
    depth_option,
    OptionInfo{"direct", "0|1", "1", "bypass the page cache (O_DIRECT) where the file system can"},
    ro_option,
};

constexpr OptionInfo host_queues{"queues", "N", "1 for each thread", "most I/O queues to ask for"};
constexpr OptionInfo hostnqn_option{"hostnqn", "NQN", "stable, of this machine and user", "how this host names itself"};
constexpr OptionInfo timeout_option{"timeout", "TIME", "30s", "longest time for one request before it is aborted"};
constexpr OptionInfo keep_alive_option{"keep_alive", "TIME", "5s", "keep-alive time-out to ask for; 0 for none"};
constexpr OptionInfo loss_option{"ctrl_loss_tmo", "TIME", "600s; 30s for commands other than serve",
                                 "without a connection for so long, I/O fails"};

constexpr std::array tcp_options{
    host_queues,
    depth_option,
    OptionInfo{"hdgst", "0|1", "0", "header digests"},
    OptionInfo{"ddgst", "0|1", "0", "data digests"},
    keep_alive_option,
    loss_option,
    OptionInfo{"reconnect_delay", "TIME", "2s", "first wait before connecting again; doubles up to ten times that"},
    OptionInfo{"connect_timeout", "TIME", "10s", "longest time for connecting, up to a controller that is ready"},
    timeout_option,
    hostnqn_option,
};
constexpr std::array loop_options{
    OptionInfo{"ns", "[URI]", "", "a namespace of a target made for this device; may be repeated: 1, 2, …", true},
    host_queues,
    depth_option,
    keep_alive_option,
    timeout_option,
    hostnqn_option,
};

// Of the S1120, by the names of Linux's parameters.
constexpr OptionInfo queue_depth_option{"max_queue_depth", "N", "200", "commands in flight, 1 to 200"};
constexpr OptionInfo req_per_msg_option{"max_req_per_msg", "N", "14", "requests that share a FIT message, 1 to 14"};
constexpr OptionInfo sgs_option{"sgs_per_request", "N", "256", "scatter-gather descriptors per request, 1 to 4096"};
constexpr OptionInfo isr_type_option{"isr_type", "0|1|2", "2", "interrupts: legacy, MSI or MSI-X"};
constexpr OptionInfo skd_timeout_option{
    "timeout", "TIME", "8s", "longest time for one request before the card is reset; one that says it is busy has 20m"};
constexpr std::array skd_options{queue_depth_option, req_per_msg_option, sgs_option, isr_type_option,
                                 skd_timeout_option};
constexpr std::array skd_model_options{
    OptionInfo{"disk", "[URI]", "", "the device that is the card's flash, with blocks of 512 bytes"},
    OptionInfo{"profile", "none|s1120", "none",
               "timing: as fast as it goes, or the published figures (512 B: read 88us, write 26us)"},
    OptionInfo{"serial", "TEXT", "the disk's own", "serial number, 1 to 12 printable ASCII characters"},
    OptionInfo{"fault", "FAULT", "",
               "what goes wrong, as `mqblk emulate skd --help` and docs/uris.md say; may be repeated", true},
    queue_depth_option,
    req_per_msg_option,
    sgs_option,
    isr_type_option,
    skd_timeout_option,
};

constexpr OptionInfo megaraid_queues{"queues", "N", "1 for each CPU", "hardware queues; the firmware may have fewer"};
constexpr OptionInfo megaraid_timeout{"timeout", "TIME", "30s", "longest time for one request before it is aborted"};
constexpr std::array megaraid_options{megaraid_queues, megaraid_timeout};
constexpr std::array megaraid_model_options{
    OptionInfo{"jbod", "[URI]", "", "a device as a disk of its own; may be repeated: pd/0, pd/1, …", true},
    OptionInfo{"ld", "[URI]", "", "a device as a volume; may be repeated: ld/0, ld/1, …", true},
    OptionInfo{"raid", "LEVEL[xDISKS]", "0x1",
               "what a volume is told as: RAID 0, 1, 5 or 6 of so many disks; may be repeated, for the next ones",
               true},
    OptionInfo{"generation", "thunderbolt|invader", "invader", "which controller: 1000:005b or 1000:005d"},
    OptionInfo{"commands", "N", "1008", "commands that the firmware takes, 32 to 1008"},
    OptionInfo{"fast_path", "0|1", "1", "the driver may go to disks by the RAID map"},
    OptionInfo{"fault", "FAULT", "", "what goes wrong, as `mqblk emulate megaraid --help` says; may be repeated", true},
    megaraid_queues,
    megaraid_timeout,
};

// Of the SRP initiator, by the names of Linux's parameters.
constexpr std::array srp_loop_options{
    OptionInfo{"lun", "[URI]", "", "a disk of a target made for this device; may be repeated: LUN 0, 1, …", true},
    OptionInfo{"cmd_sg_entries", "N", "12", "memory descriptors in a command, 1 to 255"},
    OptionInfo{"indirect_sg_entries", "N", "2048", "memory pieces of one request, 1 to 2048"},
    OptionInfo{"allow_ext_sg", "0|1", "0", "the target fetches descriptor tables that do not fit a command"},
    OptionInfo{"max_sect", "N", "16384", "sectors of one request, 8 to 16384"},
    OptionInfo{"queue_size", "N", "62", "commands in flight on each channel, 1 to 4096"},
    OptionInfo{"ch_count", "N", "1 for each CPU", "channels; the target may allow fewer"},
    OptionInfo{"use_imm_data", "0|1", "1", "small writes carry their data in the command"},
    OptionInfo{"prefer_fr", "0|1", "1", "fast registration of memory before pools"},
    OptionInfo{"reconnect_delay", "TIME", "10s", "between attempts to connect again"},
    OptionInfo{"fast_io_fail_tmo", "TIME", "15s", "without a connection for so long, I/O fails"},
    OptionInfo{"dev_loss_tmo", "TIME", "600s", "without a connection for so long, the target is given up"},
    timeout_option,
};

constexpr std::array table{
    SchemeInfo{
        "null", "null://",
        "Keeps nothing: writes vanish, and a read leaves the caller's memory as it is; a target serves it as zeroes.",
        "null://?size=1G", null_options, open_null},
    SchemeInfo{"ram", "ram://", "Memory of this process, gone with it; pages are taken when first written.",
               "ram://?size=64M", ram_options, open_ram},
    SchemeInfo{"file", "file:///PATH", "A regular file or a block device.", "file:///var/tmp/disk.img?size=1G",
               file_options, open_file},
    SchemeInfo{"nvme+tcp", "nvme+tcp://HOST[:PORT]/NQN/NSID",
               "A namespace of an NVMe/TCP target; port 4420 unless given.",
               "nvme+tcp://127.0.0.1:4420/nqn.2026-01.io.mqblk:disks/1", tcp_options, open_nvme_tcp},
    SchemeInfo{"nvme+loop", "nvme+loop:///[NQN/]NSID",
               "A namespace of an NVMe target in this process, without a socket; with ns= the target is made first.",
               "nvme+loop:///1?ns=[ram://?size=64M]", loop_options, open_nvme_loop},
    SchemeInfo{"skd+model", "skd+model://", "An sTec S1120 SSD modelled in this process, with any device as its flash.",
               "skd+model://?disk=[ram://?size=64M]", skd_model_options, open_skd_model},
    SchemeInfo{"skd+vfio-user", "skd+vfio-user:///SOCKET",
               "An sTec S1120 SSD modelled by another process (`mqblk emulate skd`), by its vfio-user socket.",
               "skd+vfio-user:///tmp/skd.sock", skd_options, open_skd_vfio_user},
    SchemeInfo{"skd+pci", "skd+pci://DOMAIN:BUS:DEVICE.FUNCTION",
               "An sTec S1120 SSD in this machine, bound to vfio-pci, by its address.", "skd+pci://0000:01:00.0",
               skd_options, open_skd_pci},
    SchemeInfo{"megaraid+model", "megaraid+model:///pd/ID or ///ld/ID",
               "A disk or volume of a MegaRAID SAS controller modelled in this process, with any devices as its disks.",
               "megaraid+model:///pd/0?jbod=[ram://?size=64M]", megaraid_model_options, open_megaraid_model},
    SchemeInfo{"megaraid+vfio-user", "megaraid+vfio-user:///SOCKET/pd/ID or …/ld/ID",
               "The same of a controller modelled by another process (`mqblk emulate megaraid`), by its vfio-user "
               "socket.",
               "megaraid+vfio-user:///tmp/megaraid.sock/ld/0", megaraid_options, open_megaraid_vfio_user},
    SchemeInfo{"megaraid+pci", "megaraid+pci://DOMAIN:BUS:DEVICE.FUNCTION/pd/ID or …/ld/ID",
               "The same of a MegaRAID SAS controller of the Fusion generation in this machine, bound to vfio-pci, by "
               "its address.",
               "megaraid+pci://0000:01:00.0/ld/0", megaraid_options, open_megaraid_pci},
    SchemeInfo{"srp+loop", "srp+loop:///lun/LUN",
               "A LUN of an SRP target in this process, by RDMA without a device; the target is made first.",
               "srp+loop:///lun/0?lun=[ram://?size=64M]", srp_loop_options, open_srp_loop},
};

}  // namespace

std::span<const SchemeInfo> schemes() noexcept {
    return table;
}

Result<const SchemeInfo*> find_scheme(std::string_view name) {
    std::vector<std::string_view> names;
    for (const auto& scheme : table) {
        if (scheme.name == name) return &scheme;
        names.push_back(scheme.name);
    }
    const auto meant = closest(name, names);
    return fail(Errc::invalid_argument, fmt::format("no kind of device is called \"{}\"{}; there are {}", name,
                                                    meant.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", meant),
                                                    fmt::join(names, ", ")));
}

namespace {

constexpr std::string_view table_head = "| option | value | default | |\n| --- | --- | --- | --- |\n";

std::string describe(const OptionInfo& option, bool markdown) {
    if (!markdown) {
        const auto left = fmt::format("{}={}", option.name, option.form);
        return fmt::format("    {:<24} {}{}\n", left, option.help,
                           option.standard.empty() ? "" : fmt::format(" (default {})", option.standard));
    }
    std::string form;  // a table's cell must not hold a bare "|"
    for (const char c : option.form) form += c == '|' ? std::string("\\|") : std::string(1, c);
    return fmt::format("| `{}` | {} | {} | {} |\n", option.name, form, option.standard, option.help);
}

}  // namespace

std::string describe_schemes(bool markdown) {
    std::string text;
    for (const auto& scheme : table) {
        text += markdown ? fmt::format("### `{}`\n\n{}\n\n`{}`\n\n{}", scheme.form, scheme.summary, scheme.example,
                                       table_head)
                         : fmt::format("{}\n  {}\n  e.g. {}\n", scheme.form, scheme.summary, scheme.example);
        for (const auto& option : scheme.options) text += describe(option, markdown);
        text += '\n';
    }
    constexpr std::string_view what =
        "The queue's attributes, under the names and in the units of Linux's /sys/block/X/queue.";
    text += markdown ? fmt::format("### Every scheme\n\n{}\n\n`null://?scheduler=mq-deadline&read_expire=100`\n\n{}",
                                   what, table_head)
                     : fmt::format("every scheme\n  {}\n  e.g. null://?scheduler=mq-deadline&read_expire=100\n", what);
    for (const auto& option : queue_options()) text += describe(option, markdown);
    text += '\n';
    return text;
}

}  // namespace mqblk::registry
