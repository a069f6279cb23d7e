// SPDX-License-Identifier: Apache-2.0
#include "driver/nvme/namespace_facts.h"

#include "driver/nvme/io_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace mqblk::driver::nvme {

using wire::nvme::IdentifyNamespace;

namespace {

constexpr unsigned least_block_shift = 9, most_block_shift = 12;
constexpr std::uint32_t most_blocks = 65536;  ///< NLB is zero-based in 16 bits
/// Of one read or write where MDTS states no limit. The target has memory for each whole command at once: Linux's,
/// which states none over TCP, was driven into a panic by 32 MiB each. About what Linux hosts send it (1280 KiB).
constexpr std::uint64_t unstated_transfer_bytes = 1u << 20;
constexpr std::uint32_t largest_granule = 1u << 20;  ///< a preferred size beyond this is not believed

std::string hex_of(std::span<const std::uint8_t> bytes) {
    if (std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; })) return {};
    std::string text;
    for (const std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
}

std::string uuid_of(std::span<const std::uint8_t> bytes) {
    std::string text = hex_of(bytes);
    if (text.empty()) return text;
    for (const std::size_t at : {20, 16, 12, 8}) text.insert(at, "-");
    return text;
}

Result<NamespaceIds> read_ids(std::uint32_t nsid, const IdentifyNamespace& page,
                              std::span<const std::uint8_t> descriptors) {
    NamespaceIds ids;
    ids.nguid = hex_of(page.nguid);
    ids.eui64 = hex_of(page.eui64);
    std::uint8_t command_set = wire::nvme::csi_nvm;
    const bool sound = wire::nvme::for_each_descriptor(descriptors, [&](std::uint8_t type, auto bytes) {
        switch (type) {
            case wire::nvme::descriptor_type::uuid:
                ids.uuid = uuid_of(bytes);
                break;
            case wire::nvme::descriptor_type::nguid:
                ids.nguid = hex_of(bytes);
                break;
            case wire::nvme::descriptor_type::eui64:
                ids.eui64 = hex_of(bytes);
                break;
            case wire::nvme::descriptor_type::csi:
                command_set = bytes[0];
                break;
        }
    });
    if (!sound) return fail(Errc::protocol, fmt::format("namespace {}: its list of identifiers is malformed", nsid));
    if (command_set != wire::nvme::csi_nvm) {
        return fail(Errc::not_supported,
                    fmt::format("namespace {} has command set {}; only NVM (0) is supported", nsid, command_set));
    }
    return ids;
}

/// A zero-based count of blocks as bytes, if that is a power of two that can be meant.
std::uint32_t granule_bytes(std::uint16_t zero_based, unsigned block_shift, std::uint32_t otherwise) {
    const std::uint64_t bytes = (std::uint64_t{zero_based} + 1) << block_shift;
    return std::has_single_bit(bytes) && bytes <= largest_granule ? static_cast<std::uint32_t>(bytes) : otherwise;
}

std::uint32_t sectors_of(std::uint64_t bytes) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / sector_bytes, QueueLimits::unlimited));
}

void set_sizes(const IdentifyNamespace& page, unsigned block_shift, QueueLimits& limits) {
    const std::uint32_t block = 1u << block_shift;
    limits.logical_block_size = block;
    limits.physical_block_size = block;
    limits.io_min = block;
    if ((page.nsfeat & wire::nvme::nsfeat::optimal_io) != 0) {
        limits.physical_block_size = granule_bytes(page.npwg, block_shift, block);
        limits.io_min = limits.physical_block_size;
        limits.io_opt = granule_bytes(page.nows, block_shift, 0);
        if (limits.io_opt < limits.io_min) limits.io_opt = 0;
    }
    const std::uint64_t boundary = std::uint64_t{page.noiob} << block_shift;
    if (page.noiob != 0 && std::has_single_bit(boundary)) limits.chunk_sectors = sectors_of(boundary);
}

void set_operations(const IdentifyNamespace& page, const ControllerFacts& controller, unsigned block_shift,
                    QueueLimits& limits) {
    const std::uint64_t most_bytes = std::uint64_t{most_blocks} << block_shift;
    const std::uint64_t transfer = controller.max_transfer_bytes;
    limits.max_sectors = sectors_of(std::min(transfer == 0 ? unstated_transfer_bytes : transfer, most_bytes));
    limits.max_segments = IoQueue::max_segments;
    limits.write_cache = controller.write_cache;
    limits.fua = controller.write_cache;
    if (controller.write_zeroes) {
        const std::uint64_t stated = controller.write_zeroes_bytes;
        limits.max_write_zeroes_sectors = sectors_of(stated == 0 ? most_bytes : std::min(stated, most_bytes));
    }
    if (controller.dataset_management) {
        const std::uint64_t in_field = std::numeric_limits<std::uint32_t>::max();
        const std::uint64_t stated = controller.discard_blocks;
        const std::uint64_t blocks = stated == 0 ? in_field : std::min(stated, in_field);
        const std::uint32_t per_block = 1u << (block_shift - 9);
        limits.max_discard_sectors = sectors_of(blocks << block_shift) / per_block * per_block;
        limits.discard_granularity = (page.nsfeat & wire::nvme::nsfeat::optimal_io) != 0
                                         ? granule_bytes(page.npdg, block_shift, 1u << block_shift)
                                         : 1u << block_shift;
    }
}

}  // namespace

Result<NamespaceFacts> read_namespace(std::uint32_t nsid, const IdentifyNamespace& page,
                                      std::span<const std::uint8_t> descriptors, const ControllerFacts& controller) {
    if (page.ncap == 0) return fail(Errc::not_found, fmt::format("namespace {} is not active", nsid));
    const wire::nvme::LbaFormat& format = page.lbaf[page.flbas & 0xf];
    NamespaceFacts facts;
    facts.nsid = nsid;
    facts.block_shift = format.data_shift;
    if (facts.block_shift < least_block_shift || facts.block_shift > most_block_shift) {
        return fail(Errc::not_supported, fmt::format("namespace {} has blocks of 2^{} bytes; 512 to 4096 are supported",
                                                     nsid, facts.block_shift));
    }
    if (format.metadata_bytes != 0) {
        return fail(Errc::not_supported,
                    fmt::format("namespace {} has {} bytes of metadata per block, which is not supported", nsid,
                                format.metadata_bytes.value()));
    }
    const unsigned sector_shift = facts.block_shift - 9u;
    if (page.nsze > std::numeric_limits<std::uint64_t>::max() >> (sector_shift + 9)) {
        return fail(Errc::protocol,
                    fmt::format("namespace {} claims {} blocks, more than can be addressed", nsid, page.nsze.value()));
    }
    facts.sectors = page.nsze << sector_shift;
    facts.read_only = (page.nsattr & wire::nvme::nsattr_write_protected) != 0;
    auto ids = read_ids(nsid, page, descriptors);
    if (!ids) return std::unexpected(std::move(ids.error()));
    facts.ids = std::move(*ids);
    set_sizes(page, facts.block_shift, facts.limits);
    set_operations(page, controller, facts.block_shift, facts.limits);
    const auto valid = facts.limits.validate();
    if (!valid) return std::unexpected(valid.error().in(fmt::format("namespace {}", nsid)));
    return facts;
}

}  // namespace mqblk::driver::nvme
