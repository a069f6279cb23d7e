// SPDX-License-Identifier: Apache-2.0
//
// REPORT SUPPORTED OPERATION CODES (SPC-4 6.35), out of the command table.
#include "device/scsi/command_table.h"
#include "device/scsi/commands.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace mqblk::device::scsi {

namespace {

enum Reporting : std::uint8_t { report_all = 0, report_operation = 1, report_action = 2, report_either = 3 };

constexpr std::uint8_t timeouts_wanted = 0x80;  // RCTD
constexpr std::uint8_t has_action = 0x01, has_timeouts = 0x02;
constexpr std::uint8_t not_supported = 1, supported = 3, one_has_timeouts = 0x80;

/// None is stated.
struct Timeouts {
    be16 bytes{10};
    std::uint8_t reserved = 0, specific = 0;
    be32 nominal_s{}, recommended_s{};
};
static_assert(sizeof(Timeouts) == 12);

struct OperationDescriptor {
    std::uint8_t operation = 0, reserved = 0;
    be16 action{};
    std::uint8_t reserved_2 = 0, flags = 0;
    be16 cdb_bytes{};
};
static_assert(sizeof(OperationDescriptor) == 8);

class Report {
  public:
    template <class T>
    void add(const T& value) noexcept {
        add(&value, sizeof value);
    }
    void add(const void* from, std::size_t bytes) noexcept {
        bytes = std::min(bytes, bytes_.size() - size_);
        std::memcpy(bytes_.data() + size_, from, bytes);
        size_ += bytes;
    }
    /// The length of what follows, in the first four bytes.
    void set_length() noexcept {
        const be32 length(static_cast<std::uint32_t>(size_ - sizeof(be32)));
        std::memcpy(bytes_.data(), &length, sizeof length);
    }
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return std::span(bytes_).first(size_); }

  private:
    std::array<std::byte, 2048> bytes_{};
    std::size_t size_ = 0;
};

void report_everything(Report& report, const LogicalUnit& unit, bool timeouts) noexcept {
    report.add(be32{});
    for (const CommandInfo& info : command_table()) {
        if (!is_supported(info, unit)) continue;
        OperationDescriptor descriptor{.operation = info.operation,
                                       .cdb_bytes = static_cast<std::uint16_t>(wire::scsi::cdb_bytes(info.operation))};
        if (info.action >= 0) {
            descriptor.action = static_cast<std::uint16_t>(info.action);
            descriptor.flags |= has_action;
        }
        if (timeouts) descriptor.flags |= has_timeouts;
        report.add(descriptor);
        if (timeouts) report.add(Timeouts{});
    }
    report.set_length();
}

/// The command that is asked for, or null.
const CommandInfo* find_command(const LogicalUnit& unit, std::uint8_t operation, std::uint16_t action) noexcept {
    for (const CommandInfo& info : command_table()) {
        if (info.operation == operation && (info.action < 0 || info.action == action) && is_supported(info, unit))
            return &info;
    }
    return nullptr;
}

void report_one(Report& report, const CommandInfo* info, bool timeouts) noexcept {
    report.add(std::uint8_t{0});
    if (info == nullptr) {
        report.add(not_supported);
        report.add(be16{});
        return;
    }
    const unsigned bytes = wire::scsi::cdb_bytes(info->operation);
    report.add(static_cast<std::uint8_t>(supported | (timeouts ? one_has_timeouts : 0)));
    report.add(be16(static_cast<std::uint16_t>(bytes)));
    report.add(info->operation);
    report.add(info->usage.data(), bytes - 1);
    if (timeouts) report.add(Timeouts{});
}

}  // namespace

Plan plan_operation_codes(Nexus&, Command& command) noexcept {
    if ((command.cdb[1] & 0x1f) != wire::scsi::action_report_operation_codes) return refuse_field(command, 1, 4);
    const std::uint8_t reporting = command.cdb[2] & 0x07;
    if (reporting > report_either) return refuse_field(command, 2, 2);
    // Whether the operation code has service actions must fit what is asked.
    const bool with_actions = command_info(command.cdb[3]).action >= 0;
    if ((reporting == report_operation && with_actions) ||
        (reporting == report_action && !with_actions && command_info(command.cdb[3]).operation == command.cdb[3]))
        return refuse_field(command, 2, 2);
    const auto bytes = static_cast<std::uint32_t>(wire::scsi::cdb_field(command.cdb, 6, 4));
    return {.direction = bytes == 0 ? Direction::none : Direction::to_initiator, .bytes = bytes};
}

void execute_operation_codes(Command& command) noexcept {
    const LogicalUnit& unit = command.nexus->unit();
    const bool timeouts = (command.cdb[2] & timeouts_wanted) != 0;
    Report report;
    if ((command.cdb[2] & 0x07) == report_all) {
        report_everything(report, unit, timeouts);
    } else {
        const auto action = static_cast<std::uint16_t>(wire::scsi::cdb_field(command.cdb, 4, 2));
        report_one(report, find_command(unit, command.cdb[3], action), timeouts);
    }
    complete_page(command, report.bytes());
}

}  // namespace mqblk::device::scsi
