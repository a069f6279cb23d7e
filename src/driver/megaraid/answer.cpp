// SPDX-License-Identifier: Apache-2.0
#include "driver/megaraid/answer.h"

#include "wire/megaraid_mfi.h"
#include "wire/scsi.h"

#include <algorithm>
#include <iterator>

namespace mqblk::driver::megaraid {

using wire::megaraid::MfiStatus;
using wire::scsi::SenseKey;
namespace asc = wire::scsi::asc;

namespace {

constexpr int any = -1;

/// The first row that fits counts.
struct SenseRow {
    SenseKey key;
    int code;  ///< with its qualifier, or any
    Answer answer;
};
constexpr SenseRow sense_rows[] = {
    {SenseKey::no_sense, any, {Verdict::good, Status::ok}},
    {SenseKey::recovered_error, any, {Verdict::good, Status::ok}},
    {SenseKey::unit_attention, any, {Verdict::again, Status::io_error}},
    {SenseKey::not_ready, asc::becoming_ready, {Verdict::again, Status::io_error}},
    {SenseKey::aborted_command, any, {Verdict::again, Status::aborted}},
    {SenseKey::medium_error, any, {Verdict::error, Status::medium_error}},
    {SenseKey::illegal_request, asc::lba_out_of_range, {Verdict::error, Status::out_of_range}},
    {SenseKey::illegal_request, asc::invalid_operation_code, {Verdict::error, Status::not_supported}},
    {SenseKey::data_protect, asc::space_allocation_failed, {Verdict::error, Status::no_space}},
    {SenseKey::data_protect, any, {Verdict::error, Status::read_only}},
    {SenseKey::miscompare, any, {Verdict::error, Status::miscompare}},
};

Answer judge_sense(std::span<const std::uint8_t> bytes) noexcept {
    const auto sense = wire::scsi::parse_sense(bytes);
    if (!sense || sense->deferred) return {};
    const auto* const row = std::ranges::find_if(sense_rows, [&](const SenseRow& each) {
        return each.key == sense->key && (each.code == any || each.code == sense->code);
    });
    return row == std::end(sense_rows) ? Answer{} : row->answer;
}

Answer judge_scsi(std::uint8_t scsi_status, std::span<const std::uint8_t> sense) noexcept {
    switch (static_cast<wire::scsi::Status>(scsi_status)) {
        case wire::scsi::Status::good:
        case wire::scsi::Status::condition_met:
            return {Verdict::good, Status::ok};
        case wire::scsi::Status::check_condition:
            return judge_sense(sense);
        case wire::scsi::Status::busy:
        case wire::scsi::Status::task_set_full:
            return {Verdict::again, Status::io_error};
        case wire::scsi::Status::reservation_conflict:
            return {Verdict::error, Status::protection};
        case wire::scsi::Status::task_aborted:
            return {Verdict::aborted, Status::aborted};
        default:
            return {};
    }
}

}  // namespace

Answer judge(std::uint8_t mfi_status, std::uint8_t scsi_status, std::span<const std::uint8_t> sense) noexcept {
    switch (static_cast<MfiStatus>(mfi_status)) {
        case MfiStatus::ok:
            return {Verdict::good, Status::ok};
        case MfiStatus::scsi_done_with_error:
            return judge_scsi(scsi_status, sense);
        case MfiStatus::scsi_io_failed:
            if (static_cast<wire::scsi::Status>(scsi_status) == wire::scsi::Status::task_aborted)
                return {Verdict::aborted, Status::aborted};
            return {};
        case MfiStatus::config_seq_mismatch:
            return {Verdict::by_firmware, Status::io_error};
        case MfiStatus::device_not_found:
        case MfiStatus::ld_offline:
            return {Verdict::error, Status::removed};
        default:
            return {};
    }
}

}  // namespace mqblk::driver::megaraid
