// SPDX-License-Identifier: Apache-2.0
//
// The server's word is checked: sizes that change, capabilities that lie outside of their answer, files that could
// shrink.
#include "pci/vfio_user_regions.h"

#include "pci/client_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mqblk::pci {

namespace vu = wire::vfio_user;

namespace {

// What of this process a server may take up: mappings, and memory when it is gone (see cover()). No device that is
// driven here has more than a page or two of doorbells.
constexpr std::size_t max_areas = 16;                // of a BAR
constexpr std::uint64_t max_area_bytes = 64u << 20;  // of all BARs

}  // namespace

VfioUserRegions::~VfioUserRegions() {
    for (const RemoteBar& bar : bars_) {
        for (const MappedArea& area : bar.areas) ::munmap(area.memory, area.bytes);
    }
}

Result<> VfioUserRegions::query(VfioUserLink& link, const std::string& name) {
    const vu::DeviceInfo request{.argument_size = sizeof request, .flags = 0, .regions = 0, .irqs = 0};
    const auto answer = link.ask(vu::Command::device_get_info, payload_of(request), sizeof request);
    if (!answer) return std::unexpected(answer.error());
    const auto info = front_of<vu::DeviceInfo>(*answer);
    if ((info.flags & vu::device_pci) == 0 || info.regions <= vu::config_region || info.irqs <= vu::msix_irq) {
        return fail(Errc::not_supported, fmt::format("{}: what is served there is no PCI device", name));
    }
    for (unsigned i = 0; i < bar_count; ++i) {
        if (auto known = query_bar(link, name, i); !known) return known;
    }
    const vu::RegionInfo config{.argument_size = sizeof config,
                                .flags = 0,
                                .index = vu::config_region,
                                .capability_offset = 0,
                                .size = 0,
                                .offset = 0};
    const auto region = link.ask(vu::Command::device_get_region_info, payload_of(config), sizeof config);
    if (!region) return std::unexpected(region.error());
    config_bytes_ = std::min<std::uint64_t>(front_of<vu::RegionInfo>(*region).size, extended_config_bytes);
    if (config_bytes_ < pci::config_bytes) {
        return fail(Errc::protocol, fmt::format("{}: its configuration space has {} bytes", name, config_bytes_));
    }
    known_ = true;
    return {};
}

Result<> VfioUserRegions::query_bar(VfioUserLink& link, const std::string& name, unsigned index) {
    vu::RegionInfo request{
        .argument_size = 4096, .flags = 0, .index = index, .capability_offset = 0, .size = 0, .offset = 0};
    auto answer = link.ask(vu::Command::device_get_region_info, payload_of(request), sizeof request);
    if (!answer) return std::unexpected(answer.error());
    const auto region = front_of<vu::RegionInfo>(*answer);
    RemoteBar& bar = bars_[index];
    if (known_ && region.size != bar.bytes) {
        return fail(Errc::protocol,
                    fmt::format("{}: BAR {} has {} bytes now, not {}", name, index, region.size, bar.bytes));
    }
    bar.bytes = region.size;
    if (!map_areas_ || (region.flags & vu::region_mmap) == 0 || answer->fds.size() != 1) return {};
    return map_areas(name, index, *answer, region);
}

Result<> VfioUserRegions::map_areas(const std::string& name, unsigned index, const Message& info,
                                    const vu::RegionInfo& region) {
    std::vector<vu::SparseArea> list{{0, region.size}};
    if ((region.flags & vu::region_capabilities) != 0) {
        const auto payload = std::span(info.payload);
        const std::size_t head = sizeof(vu::CapabilityHeader) + sizeof(vu::SparseMmap);
        vu::CapabilityHeader capability{};
        vu::SparseMmap sparse{};
        if (region.capability_offset > payload.size() || payload.size() - region.capability_offset < head) return {};
        const auto from = payload.subspan(region.capability_offset);
        std::memcpy(&capability, from.data(), sizeof capability);
        std::memcpy(&sparse, from.data() + sizeof capability, sizeof sparse);
        if (capability.id != vu::sparse_mmap_capability ||
            sparse.areas > (from.size() - head) / sizeof(vu::SparseArea)) {
            return {};
        }
        list.resize(sparse.areas);
        if (!list.empty()) std::memcpy(list.data(), from.data() + head, list.size() * sizeof(vu::SparseArea));
    }
    RemoteBar& bar = bars_[index];
    const int fd = info.fds.front().get();
    for (const vu::SparseArea& area : list) {
        const bool fits = area.size != 0 && (area.offset | area.size) % 4096 == 0 && area.offset <= region.size &&
                          area.size <= region.size - area.offset && region.offset <= INT64_MAX - region.size;
        // A file that could shrink would end this process at the next access: that part goes by messages.
        if (!fits || !safe_to_map(fd, region.offset + area.offset + area.size)) continue;
        const auto known = std::ranges::find_if(
            bar.areas, [&](const MappedArea& a) { return a.offset == area.offset && a.bytes == area.size; });
        if (known_ && known == bar.areas.end()) continue;  // Bars that drivers have know nothing of it
        if (known == bar.areas.end() && (bar.areas.size() >= max_areas || area.size > max_area_bytes - mapped_bytes_)) {
            continue;  // that part goes by messages as well
        }
        void* const place = known == bar.areas.end() ? nullptr : known->memory;
        void* const mapped =
            ::mmap(place, area.size, PROT_READ | PROT_WRITE, MAP_SHARED | (place != nullptr ? MAP_FIXED : 0), fd,
                   static_cast<off_t>(region.offset + area.offset));
        if (mapped == MAP_FAILED) {
            return std::unexpected(Error::from_errno(errno, fmt::format("map BAR {} of {}", index, name)));
        }
        if (place != nullptr) continue;
        bar.areas.push_back({area.offset, area.size, static_cast<std::byte*>(mapped)});
        mapped_bytes_ += area.size;
    }
    return {};
}

void VfioUserRegions::cover() noexcept {
    for (const RemoteBar& bar : bars_) {
        for (const MappedArea& area : bar.areas) {
            void* const ones = ::mmap(nullptr, area.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (ones == MAP_FAILED) continue;
            std::memset(ones, 0xff, area.bytes);
            if (::mremap(ones, area.bytes, area.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, area.memory) == MAP_FAILED) {
                ::munmap(ones, area.bytes);
            }
        }
    }
}

}  // namespace mqblk::pci
