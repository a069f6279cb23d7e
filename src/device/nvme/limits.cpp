// SPDX-License-Identifier: Apache-2.0
//
// What can be served follows from the options; what is announced follows from what can be served. NVMe 1.4, sections
// 3.1.1 (CAP), 5.15.2.2 (MDTS and the others); NVMe-oF 1.1, section 4.1 (IOCCSZ).
#include "device/nvme/limits.h"

#include "wire/nvme.h"

#include <algorithm>
#include <bit>

namespace mqblk::device::nvme {

AnnouncedLimits announce(const Target::Options& options) noexcept {
    AnnouncedLimits limits{};
    // A log page of the most namespaces must fit one transfer, or Linux turns multipath off: 64 KiB at least.
    const std::uint32_t transfer = std::clamp(options.max_transfer_bytes, 64u << 10, 64u << 20);
    limits.max_transfer_bytes = std::bit_floor(transfer);
    // A multiple of 16 bytes, and whole blocks of the largest size: what does not fit one block serves nobody.
    limits.in_capsule_bytes = std::min(options.in_capsule_bytes, limits.max_transfer_bytes) & ~(page_bytes - 1);
    limits.max_queue_entries = std::max<std::uint16_t>(options.max_queue_entries, admin_queue_depth);
    limits.max_io_queues = std::clamp<std::uint16_t>(options.max_io_queues, 1, 0xfffe);
    const std::uint32_t ana_room = limits.max_transfer_bytes - 16 - 32 * ana_groups;
    limits.max_namespaces = std::min<std::uint32_t>(16384, std::bit_floor(ana_room / 4));
    limits.dsm_ranges = wire::nvme::dsm_max_ranges;
    limits.async_events = 4;
    limits.keep_alive_granularity_ms = 1000;
    return limits;
}

std::uint8_t page_exponent(std::uint32_t bytes) noexcept {
    return static_cast<std::uint8_t>(std::countr_zero(bytes / page_bytes));
}

}  // namespace mqblk::device::nvme
