// SPDX-License-Identifier: Apache-2.0
//
// The commands of a session. Each first checks its payload's length, then every field, and only then does anything.
#include "pci/vfio_user_session.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

namespace mqblk::pci {

namespace vu = wire::vfio_user;

namespace {

using Bytes = std::span<const std::byte>;

template <class T>
std::optional<T> take(Bytes payload) noexcept {
    if (payload.size() < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, payload.data(), sizeof value);
    return value;
}

template <class T>
void append(Reply& reply, const T& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    reply.payload.insert(reply.payload.end(), bytes.begin(), bytes.end());
}

}  // namespace

int VfioUserSession::dma_map(Message& message) {
    const auto request = take<vu::DmaMap>(message.payload);
    if (!request || message.payload.size() != sizeof *request || request->argument_size < sizeof *request ||
        message.fds.size() > 1) {
        return EINVAL;
    }
    const int error = client_memory_.map(*request, message.fds.empty() ? OwnedFd() : std::move(message.fds.front()));
    if (error == 0) core_.model().memory_changed();
    return error;
}

int VfioUserSession::dma_unmap(Payload payload, Reply& reply) {
    auto request = take<vu::DmaUnmap>(payload);
    if (!request || request->argument_size < sizeof *request) return EINVAL;
    if ((request->flags & vu::unmap_dirty_bitmap) != 0) return ENOTSUP;
    if (payload.size() != sizeof *request || (request->flags & ~vu::unmap_all) != 0) return EINVAL;
    if ((request->flags & vu::unmap_all) != 0) {
        if (request->address != 0 || request->size != 0) return EINVAL;
        client_memory_.unmap_all();
    } else if (const int error = client_memory_.unmap(request->address, request->size); error != 0) {
        return error;
    }
    core_.model().memory_changed();
    waiting_memory_ = true;
    request->argument_size = sizeof *request;
    append(reply, *request);
    return 0;
}

int VfioUserSession::device_info(Payload payload, Reply& reply) const {
    const auto request = take<vu::DeviceInfo>(payload);
    if (!request || request->argument_size < sizeof *request) return EINVAL;
    append(reply,
           vu::DeviceInfo{sizeof(vu::DeviceInfo), vu::device_reset | vu::device_pci, vu::pci_regions, vu::pci_irqs});
    return 0;
}

std::uint64_t VfioUserSession::region_bytes(std::uint32_t region) const noexcept {
    if (region < bar_count) return core_.spec().bars[region].bytes;
    return region == vu::config_region ? core_.config_size() : 0;
}

int VfioUserSession::region_info(Payload payload, Reply& reply) const {
    const auto request = take<vu::RegionInfo>(payload);
    if (!request || request->argument_size < sizeof *request || request->index >= vu::pci_regions) return EINVAL;
    vu::RegionInfo info{sizeof info, 0, request->index, 0, region_bytes(request->index), 0};
    if (info.size != 0) info.flags = vu::region_read | vu::region_write;
    const memory::Buffer* const areas = options_.map_areas ? core_.areas_of(request->index) : nullptr;
    if (areas == nullptr) {
        append(reply, info);
        return 0;
    }
    std::vector<vu::SparseArea> list;
    for (const auto& area : core_.spec().areas) {
        if (area.bar == request->index) list.push_back({area.offset, area.bytes});
    }
    const std::size_t all =
        sizeof info + sizeof(vu::CapabilityHeader) + sizeof(vu::SparseMmap) + list.size() * sizeof(vu::SparseArea);
    info.argument_size = static_cast<std::uint32_t>(all);
    info.flags |= vu::region_mmap | vu::region_capabilities;
    info.capability_offset = sizeof info;  // also where there is no room for them: QEMU insists
    append(reply, info);
    if (request->argument_size < all) return 0;  // the client asks again with more room
    append(reply, vu::CapabilityHeader{vu::sparse_mmap_capability, 1, 0});
    append(reply, vu::SparseMmap{static_cast<std::uint32_t>(list.size()), 0});
    for (const auto& area : list) append(reply, area);
    reply.fds.push_back(areas->fd());
    core_.set_areas_mapped(true);
    return 0;
}

int VfioUserSession::irq_info(Payload payload, Reply& reply) const {
    const auto request = take<vu::IrqInfo>(payload);
    if (!request || request->argument_size < sizeof *request || request->index >= vu::pci_irqs) return EINVAL;
    append(reply, interrupts_.info(request->index));
    return 0;
}

int VfioUserSession::set_irqs(Message& message) {
    const auto request = take<vu::IrqSet>(message.payload);
    if (!request || request->argument_size < sizeof *request) return EINVAL;
    return interrupts_.set(core_, *request, Payload(message.payload).subspan(sizeof *request), std::move(message.fds));
}

bool VfioUserSession::within(std::uint64_t offset, std::uint32_t region, std::uint64_t count) const noexcept {
    const std::uint64_t bytes = region < vu::pci_regions ? region_bytes(region) : 0;
    return bytes != 0 && count <= vu::default_max_transfer_bytes && offset <= bytes && count <= bytes - offset;
}

int VfioUserSession::region_read(Payload payload, Reply& reply) {
    const auto request = take<vu::RegionAccess>(payload);
    if (!request || payload.size() != sizeof *request || !within(request->offset, request->region, request->count)) {
        return EINVAL;
    }
    append(reply, *request);
    reply.payload.resize(sizeof *request + request->count);
    const auto data = std::span(reply.payload).subspan(sizeof *request);
    if (request->region == vu::config_region) {
        core_.config_read(request->offset, data);
        return 0;
    }
    return core_.read(request->region, request->offset, data) ? 0 : EINVAL;
}

void VfioUserSession::write_region(std::uint32_t region, std::uint64_t offset, Payload data) {
    if (region != vu::config_region) {
        static_cast<void>(core_.write(region, offset, data));
    } else if (core_.config_write(offset, data)) {
        core_.reset();
        waiting_reset_ = true;
    }
}

int VfioUserSession::region_write(Payload payload, Reply& reply) {
    const auto request = take<vu::RegionAccess>(payload);
    if (!request || !within(request->offset, request->region, request->count) ||
        payload.size() - sizeof *request != request->count) {
        return EINVAL;
    }
    write_region(request->region, request->offset, payload.subspan(sizeof *request));
    append(reply, *request);
    return 0;
}

bool VfioUserSession::carry_out_posted() noexcept {
    vu::PostedWrite write;
    if (!posted_.take(write)) return false;
    // The core looks at the rest. Configuration space is for messages: a reset has to be waited for.
    const bool width = write.bytes == 8 || write.bytes == 4 || write.bytes == 2 || write.bytes == 1;
    if (width && write.region < bar_count) core_.bar_write(write.region, write.offset, write.bytes, write.value);
    return true;
}

int VfioUserSession::region_write_multi(Payload payload, Reply& reply) {
    const auto count = take<std::uint64_t>(payload);
    if (!count) return EINVAL;
    const Payload entries = payload.subspan(sizeof *count);
    if (*count > vu::default_max_transfer_bytes || entries.size() != *count * sizeof(vu::SmallWrite)) return EINVAL;
    const auto entry = [&entries](std::size_t i) {
        return *take<vu::SmallWrite>(entries.subspan(i * sizeof(vu::SmallWrite)));
    };
    for (std::size_t i = 0; i < *count; ++i) {
        const vu::SmallWrite write = entry(i);
        if (write.count > sizeof write.data || !within(write.offset, write.region, write.count)) return EINVAL;
    }
    for (std::size_t i = 0; i < *count; ++i) {
        const vu::SmallWrite write = entry(i);
        write_region(write.region, write.offset, std::as_bytes(std::span(write.data)).first(write.count));
    }
    append(reply, *count);
    return 0;
}

}  // namespace mqblk::pci
