// SPDX-License-Identifier: Apache-2.0
//
// INQUIRY: standard data and the vital product data pages 00h, 80h, 83h, B0h, B1h, B2h (SPC-4 6.6, 7.8; SBC-3 6.5).
#include "device/scsi/commands.h"
#include "wire/scsi_data.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace mqblk::device::scsi {

namespace vpd = wire::scsi::vpd;
using namespace std::string_view_literals;

namespace {

constexpr std::uint8_t known_pages[] = {vpd::supported_pages,       vpd::unit_serial_number,
                                        vpd::device_identification, vpd::block_limits,
                                        vpd::block_characteristics, vpd::logical_block_provisioning};

/// A page as it grows.
class Page {
  public:
    template <class T>
    void add(const T& value) noexcept {
        add(&value, sizeof value);
    }
    void add(std::string_view text) noexcept { add(text.data(), text.size()); }
    /// Sets the page length of a VpdHeader at the start.
    std::span<const std::byte> finish_vpd() noexcept {
        wire::scsi::VpdHeader header;
        std::memcpy(&header, bytes_.data(), sizeof header);
        header.bytes = static_cast<std::uint16_t>(size_ - sizeof header);
        std::memcpy(bytes_.data(), &header, sizeof header);
        return std::span(bytes_).first(size_);
    }

  private:
    void add(const void* from, std::size_t bytes) noexcept {
        bytes = std::min(bytes, bytes_.size() - size_);
        std::memcpy(bytes_.data() + size_, from, bytes);
        size_ += bytes;
    }
    std::array<std::byte, 512> bytes_{};
    std::size_t size_ = 0;
};

template <class T>
void complete_structure(Command& command, const T& structure) noexcept {
    complete_page(command, std::as_bytes(std::span(&structure, 1)));
}

void standard_data(Command& command, const LogicalUnit& unit) noexcept {
    wire::scsi::InquiryData data;
    data.additional_bytes = sizeof data - 5;
    data.flags7 = wire::scsi::inquiry_command_queuing;
    wire::scsi::set_text(data.vendor, unit.options().vendor);
    wire::scsi::set_text(data.product, unit.options().product);
    wire::scsi::set_text(data.revision, unit.options().revision);
    data.version_descriptor[0] = wire::scsi::version_sam5;
    data.version_descriptor[1] = wire::scsi::version_spc4;
    data.version_descriptor[2] = wire::scsi::version_sbc3;
    complete_structure(command, data);
}

void serial_page(Command& command, const LogicalUnit& unit) noexcept {
    Page page;
    page.add(wire::scsi::VpdHeader{0, vpd::unit_serial_number, 0});
    page.add(std::string_view(unit.serial()).substr(0, 252));
    complete_page(command, page.finish_vpd());
}

void identification_page(Command& command, const LogicalUnit& unit) noexcept {
    Page page;
    page.add(wire::scsi::VpdHeader{0, vpd::device_identification, 0});
    page.add(wire::scsi::Designator{.code_set = 1, .kind = wire::scsi::designator_naa, .bytes = 8});
    page.add(be64(unit.naa()));
    std::uint8_t vendor[8];
    wire::scsi::set_text(vendor, unit.options().vendor);
    const std::string_view serial = std::string_view(unit.serial()).substr(0, 200);
    page.add(wire::scsi::Designator{.code_set = 2,
                                    .kind = wire::scsi::designator_t10_vendor,
                                    .bytes = static_cast<std::uint8_t>(sizeof vendor + serial.size())});
    page.add(vendor);
    page.add(serial);
    complete_page(command, page.finish_vpd());
}

std::uint32_t blocks_of(const LogicalUnit& unit, std::uint64_t bytes) noexcept {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes >> unit.block_shift(), UINT32_MAX));
}

void limits_page(Command& command, const LogicalUnit& unit) noexcept {
    const QueueLimits limits = unit.device().limits();
    wire::scsi::BlockLimitsPage page;
    page.flags = 1;  // WSNZ
    page.max_compare_and_write_blocks = compare_and_write_blocks(unit);
    page.optimal_granularity_blocks =
        static_cast<std::uint16_t>(std::min<std::uint32_t>(blocks_of(unit, limits.io_min), UINT16_MAX));
    page.max_transfer_blocks = blocks_of(unit, unit.options().max_transfer_bytes);
    page.optimal_transfer_blocks = std::min(blocks_of(unit, limits.io_opt), page.max_transfer_blocks.value());
    if (unit.can_unmap()) {
        page.max_unmap_blocks = LogicalUnit::max_range_blocks;
        page.max_unmap_descriptors = LogicalUnit::max_unmap_descriptors;
        page.optimal_unmap_granularity_blocks = blocks_of(unit, limits.discard_granularity);
        page.unmap_alignment = wire::scsi::unmap_alignment_valid | blocks_of(unit, limits.discard_alignment);
    }
    page.max_write_same_blocks = LogicalUnit::max_range_blocks;
    complete_structure(command, page);
}

void characteristics_page(Command& command, const LogicalUnit& unit) noexcept {
    wire::scsi::BlockCharacteristicsPage page;
    page.rotation_rate = unit.device().limits().rotational ? 7200 : wire::scsi::rotation_none;
    complete_structure(command, page);
}

void provisioning_page(Command& command, const LogicalUnit& unit) noexcept {
    wire::scsi::ProvisioningPage page;
    if (unit.can_unmap()) {
        page.flags = wire::scsi::provisioning_unmap;
        page.provisioning_type = 2;
    }
    if (unit.can_zero()) page.flags |= wire::scsi::provisioning_write_same_16 | wire::scsi::provisioning_write_same_10;
    complete_structure(command, page);
}

}  // namespace

Plan plan_inquiry(Nexus&, Command& command) noexcept {
    if ((command.cdb[1] & 0x02) != 0) return refuse_field(command, 1, 1);  // CMDDT, obsolete
    const bool product_data = (command.cdb[1] & 1) != 0;
    const bool known = std::ranges::find(known_pages, command.cdb[2]) != std::end(known_pages);
    if (product_data ? !known : command.cdb[2] != 0) return refuse_field(command, 2);
    return {.direction = Direction::to_initiator,
            .bytes = static_cast<std::uint32_t>(wire::scsi::cdb_field(command.cdb, 3, 2))};
}

void execute_inquiry(Command& command) noexcept {
    const LogicalUnit& unit = command.nexus->unit();
    if ((command.cdb[1] & 1) == 0) return standard_data(command, unit);
    switch (command.cdb[2]) {
        case vpd::unit_serial_number:
            return serial_page(command, unit);
        case vpd::device_identification:
            return identification_page(command, unit);
        case vpd::block_limits:
            return limits_page(command, unit);
        case vpd::block_characteristics:
            return characteristics_page(command, unit);
        case vpd::logical_block_provisioning:
            return provisioning_page(command, unit);
        default: {
            Page page;
            page.add(wire::scsi::VpdHeader{0, vpd::supported_pages, 0});
            page.add(known_pages);
            return complete_page(command, page.finish_vpd());
        }
    }
}

}  // namespace mqblk::device::scsi
