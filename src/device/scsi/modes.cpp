// SPDX-License-Identifier: Apache-2.0
//
// MODE SENSE and MODE SELECT (SPC-4 6.9 to 6.12): the caching page, whose WCE can be changed where the device has a
// volatile cache, the control page with D_SENSE, and two pages that only say what they must. Nothing is saved.
#include "device/scsi/commands.h"
#include "wire/scsi_data.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace mqblk::device::scsi {

namespace opcode = wire::scsi::opcode;
namespace asc = wire::scsi::asc;
namespace mode_page = wire::scsi::mode_page;
using wire::scsi::BlockDescriptor;
using wire::scsi::CachingPage;
using wire::scsi::ControlPage;
using wire::scsi::PageControl;
using wire::scsi::SenseKey;

namespace {

struct ErrorRecoveryPage {
    std::uint8_t page = mode_page::error_recovery;
    std::uint8_t bytes = 10;
    std::uint8_t fields[10] = {};
};
struct ExceptionsPage {
    std::uint8_t page = mode_page::exceptions;
    std::uint8_t bytes = 10;
    std::uint8_t fields[10] = {};
};
static_assert(sizeof(ErrorRecoveryPage) == 12 && sizeof(ExceptionsPage) == 12);

CachingPage caching_page(const LogicalUnit& unit, PageControl which) noexcept {
    CachingPage page;
    const bool on = which == PageControl::current ? unit.write_cache() : unit.has_write_cache();
    if (on) page.flags = wire::scsi::caching_wce;
    return page;
}

ControlPage control_page(const LogicalUnit& unit, PageControl which) noexcept {
    ControlPage page;
    if (which == PageControl::changeable) page.flags3 = 0;
    const bool on = which == PageControl::current ? unit.descriptor_sense() : which == PageControl::changeable;
    if (on) page.flags2 = wire::scsi::control_descriptor_sense;
    return page;
}

/// Header, block descriptor and pages as they are put together.
class ModeData {
  public:
    template <class T>
    void add(const T& value) noexcept {
        static_assert(sizeof value <= 32);
        std::memcpy(bytes_.data() + size_, &value, sizeof value);
        size_ += sizeof value;
    }
    template <class T>
    void put(std::size_t offset, const T& value) noexcept {
        std::memcpy(bytes_.data() + offset, &value, sizeof value);
    }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return std::span(bytes_).first(size_); }

  private:
    std::array<std::byte, 160> bytes_{};
    std::size_t size_ = 0;
};

bool known_page(std::uint8_t page) noexcept {
    return page == mode_page::error_recovery || page == mode_page::caching || page == mode_page::control ||
           page == mode_page::exceptions || page == mode_page::all;
}

void add_pages(ModeData& data, const LogicalUnit& unit, std::uint8_t wanted, PageControl which) noexcept {
    const auto is = [wanted](std::uint8_t page) { return wanted == page || wanted == mode_page::all; };
    if (is(mode_page::error_recovery)) data.add(ErrorRecoveryPage{});
    if (is(mode_page::caching)) data.add(caching_page(unit, which));
    if (is(mode_page::control)) data.add(control_page(unit, which));
    if (is(mode_page::exceptions)) data.add(ExceptionsPage{});
}

bool is_short(const Command& command) noexcept {
    return command.cdb[0] == opcode::mode_sense_6 || command.cdb[0] == opcode::mode_select_6;
}

std::uint32_t list_bytes(const Command& command) noexcept {
    return is_short(command) ? command.cdb[4] : static_cast<std::uint32_t>(wire::scsi::cdb_field(command.cdb, 7, 2));
}

}  // namespace

Plan plan_mode_sense(Nexus&, Command& command) noexcept {
    if (!known_page(command.cdb[2] & 0x3f)) return refuse_field(command, 2, 5);
    if (command.cdb[3] != 0 && command.cdb[3] != 0xff) return refuse_field(command, 3);
    if (static_cast<PageControl>(command.cdb[2] >> 6) == PageControl::saved)
        return refuse(command, SenseKey::illegal_request, asc::saving_parameters_not_supported);
    return {.direction = Direction::to_initiator, .bytes = list_bytes(command)};
}

void execute_mode_sense(Command& command) noexcept {
    const LogicalUnit& unit = command.nexus->unit();
    const bool descriptor = (command.cdb[1] & 0x08) == 0;  // DBD
    std::uint8_t flags = wire::scsi::mode_dpo_fua;
    if (unit.device().read_only()) flags |= wire::scsi::mode_write_protected;
    const std::size_t descriptor_bytes = descriptor ? sizeof(BlockDescriptor) : 0;
    ModeData data;
    if (is_short(command)) {
        data.add(wire::scsi::ModeHeader6{.device_specific = flags,
                                         .block_descriptor_bytes = static_cast<std::uint8_t>(descriptor_bytes)});
    } else {
        data.add(wire::scsi::ModeHeader10{.device_specific = flags,
                                          .block_descriptor_bytes = static_cast<std::uint16_t>(descriptor_bytes)});
    }
    if (descriptor) {
        data.add(
            BlockDescriptor{.blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(unit.blocks(), UINT32_MAX)),
                            .block_bytes = unit.block_bytes()});
    }
    add_pages(data, unit, command.cdb[2] & 0x3f, static_cast<PageControl>(command.cdb[2] >> 6));
    if (is_short(command)) {
        data.put(0, static_cast<std::uint8_t>(data.size() - 1));
    } else {
        data.put(0, be16(static_cast<std::uint16_t>(data.size() - 2)));
    }
    complete_page(command, data.bytes());
}

Plan plan_mode_select(Nexus&, Command& command) noexcept {
    if ((command.cdb[1] & 0x10) == 0) return refuse_field(command, 1, 4);  // PF
    if ((command.cdb[1] & 0x01) != 0) return refuse_field(command, 1, 0);  // SP
    const std::uint32_t bytes = list_bytes(command);
    return {.direction = bytes == 0 ? Direction::none : Direction::from_initiator, .bytes = bytes};
}

namespace {

/// What MODE SELECT asks for.
struct Modes {
    bool write_cache, descriptor_sense;
};

template <class T>
bool same_but(T wanted, T current, std::uint8_t T::* field, std::uint8_t changeable) noexcept {
    wanted.page &= 0x3f;
    wanted.*field = static_cast<std::uint8_t>((wanted.*field & ~changeable) | (current.*field & changeable));
    return std::memcmp(&wanted, &current, sizeof wanted) == 0;
}

/// Reads one page at `offset` into `modes`; bytes it has, or 0: the command was refused.
std::size_t take_page(Command& command, std::size_t offset, Modes& modes) noexcept {
    const LogicalUnit& unit = command.nexus->unit();
    const auto at = static_cast<std::uint16_t>(offset);
    std::array<std::uint8_t, 2> header;
    if (!copy_parameter(command, offset, header)) {
        refuse_parameter(command, at, asc::parameter_list_length_error);
        return 0;
    }
    if ((header[0] & 0x3f) == mode_page::caching) {
        CachingPage page;
        const bool whole = header[1] == sizeof page - 2 && copy_parameter(command, offset, page);
        const std::uint8_t changeable = unit.has_write_cache() ? wire::scsi::caching_wce : 0;
        if (whole && same_but(page, caching_page(unit, PageControl::current), &CachingPage::flags, changeable)) {
            modes.write_cache = (page.flags & wire::scsi::caching_wce) != 0;
            return sizeof page;
        }
    } else if ((header[0] & 0x3f) == mode_page::control) {
        ControlPage page;
        const bool whole = header[1] == sizeof page - 2 && copy_parameter(command, offset, page);
        if (whole && same_but(page, control_page(unit, PageControl::current), &ControlPage::flags2,
                              wire::scsi::control_descriptor_sense)) {
            modes.descriptor_sense = (page.flags2 & wire::scsi::control_descriptor_sense) != 0;
            return sizeof page;
        }
    }
    refuse_parameter(command, at, asc::invalid_field_in_parameter_list);
    return 0;
}

/// Where the pages begin, or nothing: the command was refused.
std::optional<std::size_t> skip_header(Command& command) noexcept {
    const LogicalUnit& unit = command.nexus->unit();
    std::size_t offset = 0;
    std::size_t descriptors = 0;
    bool whole = false;
    if (is_short(command)) {
        wire::scsi::ModeHeader6 header;
        whole = copy_parameter(command, 0, header);
        offset = sizeof header;
        descriptors = header.block_descriptor_bytes;
    } else {
        wire::scsi::ModeHeader10 header;
        whole = copy_parameter(command, 0, header);
        offset = sizeof header;
        descriptors = header.block_descriptor_bytes;
    }
    if (!whole) {
        refuse_parameter(command, 0, asc::parameter_list_length_error);
        return std::nullopt;
    }
    if (descriptors == 0) return offset;
    BlockDescriptor block;
    if (descriptors != sizeof block || !copy_parameter(command, offset, block) ||
        block.block_bytes != unit.block_bytes()) {
        refuse_parameter(command, static_cast<std::uint16_t>(offset), asc::invalid_field_in_parameter_list);
        return std::nullopt;
    }
    return offset + sizeof block;
}

}  // namespace

void execute_mode_select(Command& command) noexcept {
    if (command.bytes == 0) return complete_good(command);
    Nexus& nexus = *command.nexus;
    LogicalUnit& unit = nexus.unit();
    Modes modes{unit.write_cache(), unit.descriptor_sense()};
    const auto pages = skip_header(command);
    if (!pages) return nexus.complete(command);
    for (std::size_t offset = *pages; offset < command.bytes;) {
        const std::size_t taken = take_page(command, offset, modes);
        if (taken == 0) return nexus.complete(command);
        offset += taken;
    }
    unit.set_modes(modes.write_cache, modes.descriptor_sense);
    nexus.saw_modes();
    complete_good(command, command.bytes);
}

}  // namespace mqblk::device::scsi
