// SPDX-License-Identifier: Apache-2.0
#include "device/megaraid/target.h"

#include "base/units.h"
#include "wire/megaraid_info.h"

#include <fmt/format.h>

#include <utility>

namespace mqblk::device::megaraid {

namespace {

scsi::UnitOptions unit_options(std::string place, std::string product, std::uint32_t max_transfer_bytes,
                               bool attentions) {
    scsi::UnitOptions options;
    options.place = std::move(place);
    options.vendor = "MQBLK";
    options.product = std::move(product);
    options.max_transfer_bytes = max_transfer_bytes;
    options.attentions = attentions;
    return options;
}

}  // namespace

Result<VolumeSpec> parse_volume_shape(std::string_view text) {
    const std::size_t at = text.find('x');
    const auto level = parse_number("level", text.substr(0, at), 0, 6);
    if (!level) return std::unexpected(level.error());
    VolumeSpec spec;
    spec.level = static_cast<unsigned>(*level);
    spec.disks = spec.level == 6 ? 4 : spec.level == 5 ? 3 : spec.level == 1 ? 2 : 1;
    if (at != std::string_view::npos) {
        const auto disks = parse_number("disks", text.substr(at + 1), 1, wire::megaraid::max_row_size);
        if (!disks) return std::unexpected(disks.error());
        spec.disks = static_cast<unsigned>(*disks);
    }
    if (!wire::megaraid::make_layout(spec.level, spec.disks, spec.strip_shift))
        return fail(
            Errc::invalid_argument,
            fmt::format("volume {}: there are RAID 0 of 1 to 32 disks, 1 of 2, 5 of 3 to 32, and 6 of 4 to 32", text));
    return spec;
}

Result<Target*> Topology::add_disk(std::shared_ptr<Device> device, std::uint32_t max_transfer_bytes) {
    if (device_ids_ == wire::megaraid::max_physical_disks)
        return fail(Errc::no_space, fmt::format("'{}' is one disk too many: there are 256", device->identity().name));
    auto target = std::make_unique<Target>();
    target->id = static_cast<std::uint16_t>(device_ids_);
    target->sectors_told = device->sectors();
    auto unit = scsi::LogicalUnit::create(
        std::move(device),
        unit_options(fmt::format(" {} pd {}", controller_, target->id), "DISK", max_transfer_bytes, true));
    if (!unit) return std::unexpected(unit.error());
    target->unit = std::move(*unit);
    places_[device_ids_++] = {target.get(), 0};
    targets_.push_back(std::move(target));
    return targets_.back().get();
}

Result<Target*> Topology::add_volume(const VolumeSpec& spec, std::uint32_t max_transfer_bytes) {
    const std::string name = spec.device->identity().name;
    const auto layout = wire::megaraid::make_layout(spec.level, spec.disks, spec.strip_shift);
    if (!layout)
        return fail(Errc::invalid_argument,
                    fmt::format("'{}' as RAID {} of {} disks: there is no such volume", name, spec.level, spec.disks));
    if (spec.device->limits().logical_block_size != 512)
        return fail(Errc::invalid_argument,
                    fmt::format("'{}' as a volume: its blocks are {} bytes; use a disk with block=512", name,
                                spec.device->limits().logical_block_size));
    if (volumes_.size() == max_volumes)
        return fail(Errc::no_space, fmt::format("'{}' is one volume too many: there are {}", name, max_volumes));
    if (device_ids_ + spec.disks > wire::megaraid::max_physical_disks)
        return fail(Errc::no_space, fmt::format("the disks of '{}' are too many: there are 256", name));
    auto target = std::make_unique<Target>();
    target->is_volume = true;
    target->id = static_cast<std::uint16_t>(volumes_.size());
    target->sectors_told = spec.device->sectors();
    target->layout = *layout;
    target->first_disk = static_cast<std::uint16_t>(device_ids_);
    // Drivers fail a volume's command that is answered by a unit attention.
    auto unit = scsi::LogicalUnit::create(
        spec.device, unit_options(fmt::format(" {} ld {}", controller_, target->id), fmt::format("RAID {}", spec.level),
                                  max_transfer_bytes, false));
    if (!unit) return std::unexpected(unit.error());
    target->unit = std::move(*unit);
    for (unsigned arm = 0; arm < spec.disks; ++arm) places_[device_ids_++] = {target.get(), arm};
    targets_.push_back(std::move(target));
    volumes_.push_back(targets_.back().get());
    return volumes_.back();
}

}  // namespace mqblk::device::megaraid
