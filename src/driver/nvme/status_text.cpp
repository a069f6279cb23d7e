// SPDX-License-Identifier: Apache-2.0
//
// One table: each status code of the specification that a target may answer with, and its meanings.
#include "driver/nvme/status_text.h"

#include "wire/nvme.h"

#include <algorithm>
#include <array>

namespace mqblk::driver::nvme {

namespace {

namespace sc = wire::nvme::status;

struct StatusMeaning {
    std::uint16_t code;
    Status status;
    Errc error;
    std::string_view text;
};

/// No error is `invalid_argument`: what a target does not take of this host's commands is no fault of the caller's.
constexpr std::array status_meanings{
    StatusMeaning{sc::success, Status::ok, Errc::io, "Successful Completion"},
    StatusMeaning{sc::invalid_opcode, Status::not_supported, Errc::not_supported, "Invalid Command Opcode"},
    StatusMeaning{sc::invalid_field, Status::invalid, Errc::protocol, "Invalid Field in Command"},
    StatusMeaning{sc::command_id_conflict, Status::io_error, Errc::protocol, "Command ID Conflict"},
    StatusMeaning{sc::data_transfer_error, Status::transport, Errc::io, "Data Transfer Error"},
    StatusMeaning{sc::internal_error, Status::io_error, Errc::io, "Internal Error"},
    StatusMeaning{sc::aborted_by_request, Status::aborted, Errc::closed, "Command Abort Requested"},
    StatusMeaning{sc::aborted_queue_deleted, Status::aborted, Errc::closed, "Command Aborted due to SQ Deletion"},
    StatusMeaning{sc::invalid_namespace, Status::removed, Errc::not_found, "Invalid Namespace or Format"},
    StatusMeaning{sc::command_sequence_error, Status::io_error, Errc::protocol, "Command Sequence Error"},
    StatusMeaning{sc::sgl_invalid_data_length, Status::invalid, Errc::protocol, "Data SGL Length Invalid"},
    StatusMeaning{sc::sgl_invalid_offset, Status::invalid, Errc::protocol, "SGL Offset Invalid"},
    StatusMeaning{sc::keep_alive_expired, Status::transport, Errc::closed, "Keep Alive Timeout Expired"},
    StatusMeaning{sc::keep_alive_invalid, Status::invalid, Errc::not_supported, "Keep Alive Timeout Invalid"},
    StatusMeaning{sc::namespace_write_protected, Status::read_only, Errc::permission_denied,
                  "Namespace is Write Protected"},
    StatusMeaning{sc::command_interrupted, Status::aborted, Errc::io, "Command Interrupted"},
    StatusMeaning{sc::transient_transport_error, Status::transport, Errc::io, "Transient Transport Error"},
    StatusMeaning{sc::lba_out_of_range, Status::out_of_range, Errc::io, "LBA Out of Range"},
    StatusMeaning{sc::capacity_exceeded, Status::no_space, Errc::no_space, "Capacity Exceeded"},
    StatusMeaning{sc::namespace_not_ready, Status::io_error, Errc::io, "Namespace Not Ready"},
    StatusMeaning{sc::reservation_conflict, Status::protection, Errc::permission_denied, "Reservation Conflict"},
    StatusMeaning{sc::invalid_queue_id, Status::io_error, Errc::protocol, "Invalid Queue Identifier"},
    StatusMeaning{sc::invalid_queue_size, Status::io_error, Errc::not_supported, "Invalid Queue Size"},
    StatusMeaning{sc::invalid_log_page, Status::not_supported, Errc::not_supported, "Invalid Log Page"},
    StatusMeaning{sc::cross_reset_in_progress, Status::io_error, Errc::io, "Cross-Controller Reset in Progress"},
    StatusMeaning{sc::cross_reset_log_full, Status::io_error, Errc::no_space, "Cross-Controller Reset Log Page Full"},
    StatusMeaning{sc::cross_reset_limit_exceeded, Status::io_error, Errc::no_space,
                  "Cross-Controller Reset Limit Exceeded"},
    StatusMeaning{sc::connect_format, Status::invalid, Errc::not_supported, "Connect Incompatible Format"},
    StatusMeaning{sc::connect_controller_busy, Status::io_error, Errc::no_space, "Connect Controller Busy"},
    StatusMeaning{sc::attempted_write_to_read_only, Status::read_only, Errc::not_supported,
                  "Attempted Write to Read Only Range, or Connect Invalid Parameters"},
    // Linux's target says this of an operation that its disk turns out not to have.
    StatusMeaning{sc::command_size_limit_exceeded, Status::not_supported, Errc::not_supported,
                  "Command Size Limit Exceeded"},
    StatusMeaning{sc::connect_invalid_host, Status::protection, Errc::permission_denied, "Connect Invalid Host"},
    StatusMeaning{sc::authentication_required, Status::protection, Errc::permission_denied, "Authentication Required"},
    StatusMeaning{sc::write_fault, Status::medium_error, Errc::io, "Write Fault"},
    StatusMeaning{sc::unrecovered_read_error, Status::medium_error, Errc::io, "Unrecovered Read Error"},
    StatusMeaning{sc::compare_failure, Status::miscompare, Errc::io, "Compare Failure"},
    StatusMeaning{sc::access_denied, Status::protection, Errc::permission_denied, "Access Denied"},
    StatusMeaning{sc::internal_path_error, Status::transport, Errc::io, "Internal Path Error"},
    StatusMeaning{sc::ana_persistent_loss, Status::transport, Errc::io, "Asymmetric Access Persistent Loss"},
    StatusMeaning{sc::ana_inaccessible, Status::transport, Errc::io, "Asymmetric Access Inaccessible"},
    StatusMeaning{sc::ana_transition, Status::transport, Errc::io, "Asymmetric Access Transition"},
    StatusMeaning{sc::controller_path_error, Status::transport, Errc::io, "Controller Pathing Error"},
    StatusMeaning{sc::host_path_error, Status::transport, Errc::io, "Host Pathing Error"},
    StatusMeaning{sc::host_aborted_command, Status::aborted, Errc::closed, "Command Aborted By Host"},
};

const StatusMeaning* meaning_of(std::uint16_t status) noexcept {
    const std::uint16_t code = status & sc::code_mask;
    const auto found = std::ranges::find(status_meanings, code, &StatusMeaning::code);
    return found != status_meanings.end() ? &*found : nullptr;
}

}  // namespace

Status to_block_status(std::uint16_t status) noexcept {
    const StatusMeaning* const meaning = meaning_of(status);
    if (meaning != nullptr) return meaning->status;
    switch (status >> 8 & 7) {
        case sc::type_media:
            return Status::medium_error;
        case sc::type_path:
            return Status::transport;
        default:
            return Status::io_error;
    }
}

std::string_view status_text(std::uint16_t status) noexcept {
    const StatusMeaning* const meaning = meaning_of(status);
    return meaning != nullptr ? meaning->text : "a status that NVMe 1.4 leaves unnamed here";
}

Errc errc_of_status(std::uint16_t status) noexcept {
    const StatusMeaning* const meaning = meaning_of(status);
    return meaning != nullptr ? meaning->error : Errc::io;
}

bool worth_retrying(std::uint16_t status) noexcept {
    if ((status & sc::do_not_retry) != 0) return false;
    switch (to_block_status(status)) {
        case Status::io_error:
        case Status::aborted:
        case Status::transport:
        case Status::medium_error:
            return true;
        default:
            return false;
    }
}

}  // namespace mqblk::driver::nvme
