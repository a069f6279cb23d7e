// SPDX-License-Identifier: Apache-2.0
//
// How commands are answered: refusals with the sense data that says why, and the translation of a device's status
// (SPC-4 4.5, annex D for the codes).
#include "device/scsi/commands.h"
#include "memory/segments.h"

#include <algorithm>
#include <array>

namespace mqblk::device::scsi {

namespace asc = wire::scsi::asc;
using wire::scsi::Sense;
using wire::scsi::SenseKey;
using ScsiStatus = wire::scsi::Status;

namespace {

void set_check(Command& command, Sense sense) noexcept {
    command.status = ScsiStatus::check_condition;
    command.sense = sense;
}

}  // namespace

Plan refuse(Command& command, SenseKey key, std::uint16_t code) noexcept {
    set_check(command, {.key = key, .code = code});
    return {.refused = true};
}

Plan refuse_field(Command& command, std::uint16_t byte, std::optional<std::uint8_t> bit) noexcept {
    set_check(command, {.key = SenseKey::illegal_request,
                        .code = asc::invalid_field_in_cdb,
                        .field = Sense::FieldPointer{.byte = byte, .in_cdb = true, .bit = bit}});
    return {.refused = true};
}

Plan refuse_parameter(Command& command, std::uint16_t byte, std::uint16_t code) noexcept {
    set_check(command, {.key = SenseKey::illegal_request,
                        .code = code,
                        .field = Sense::FieldPointer{.byte = byte, .in_cdb = false, .bit = {}}});
    return {.refused = true};
}

Plan refuse_range(Command& command, std::uint64_t lba) noexcept {
    set_check(command, {.key = SenseKey::illegal_request, .code = asc::lba_out_of_range, .information = lba});
    return {.refused = true};
}

void set_answer(Command& command, Status result, bool write, std::uint64_t lba) noexcept {
    switch (result) {
        case Status::ok:
            command.status = ScsiStatus::good;
            return;
        case Status::invalid:
            return set_check(command, {.key = SenseKey::illegal_request, .code = asc::invalid_field_in_cdb});
        case Status::out_of_range:
            return set_check(command,
                             {.key = SenseKey::illegal_request, .code = asc::lba_out_of_range, .information = lba});
        case Status::not_supported:
            return set_check(command, {.key = SenseKey::illegal_request, .code = asc::invalid_operation_code});
        case Status::read_only:
            return set_check(command, {.key = SenseKey::data_protect, .code = asc::write_protected});
        case Status::no_space:
            return set_check(command, {.key = SenseKey::data_protect, .code = asc::space_allocation_failed});
        case Status::medium_error:
            return set_check(command, {.key = SenseKey::medium_error,
                                       .code = write ? asc::write_error : asc::unrecovered_read_error,
                                       .information = lba});
        case Status::miscompare:
            return set_check(command,
                             {.key = SenseKey::miscompare, .code = asc::miscompare_during_verify, .information = lba});
        case Status::protection:
            command.status = ScsiStatus::reservation_conflict;
            return;
        case Status::io_error:
            return set_check(command, {.key = SenseKey::hardware_error, .code = asc::internal_target_failure});
        case Status::timed_out:
            return set_check(command, {.key = SenseKey::aborted_command, .code = asc::communication_timeout});
        case Status::aborted:
            return set_check(command, {.key = SenseKey::aborted_command, .code = asc::none});
        case Status::transport:
            return set_check(command, {.key = SenseKey::aborted_command, .code = asc::communication_failure});
        case Status::removed:
            return set_check(command, {.key = SenseKey::not_ready, .code = asc::medium_not_present});
    }
}

void complete_good(Command& command, std::uint32_t transferred) noexcept {
    command.status = ScsiStatus::good;
    command.transferred = transferred;
    if (command.nexus != nullptr) return command.nexus->complete(command);
    command.done(command);  // of a LUN without unit
}

void complete_page(Command& command, std::span<const std::byte> page) noexcept {
    const auto copied = memory::copy(command.data, page.first(std::min<std::size_t>(page.size(), command.bytes)));
    complete_good(command, static_cast<std::uint32_t>(copied));
}

bool copy_parameter_bytes(const Command& command, std::size_t offset, std::span<std::byte> to) noexcept {
    if (offset > command.bytes || to.size() > command.bytes - offset) return false;
    std::size_t copied = 0;
    memory::SegmentCursor cursor(command.data);
    if (cursor.skip(offset) != offset) return false;
    while (copied < to.size()) {
        const Segment piece = cursor.take(to.size() - copied);
        if (piece.bytes == 0) return false;
        std::copy_n(piece.data, piece.bytes, to.data() + copied);
        copied += piece.bytes;
    }
    return true;
}

}  // namespace mqblk::device::scsi
