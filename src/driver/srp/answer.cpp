// SPDX-License-Identifier: Apache-2.0
#include "driver/srp/answer.h"

#include "wire/scsi.h"

#include <algorithm>
#include <iterator>

namespace mqblk::driver::srp {

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

}  // namespace

Answer judge(std::uint8_t scsi_status, std::span<const std::uint8_t> sense) noexcept {
    switch (static_cast<wire::scsi::Status>(scsi_status)) {
        case wire::scsi::Status::good:
        case wire::scsi::Status::condition_met:
            return {Verdict::good, Status::ok};
        case wire::scsi::Status::check_condition:
            return judge_sense(sense);
        case wire::scsi::Status::busy:
        case wire::scsi::Status::task_set_full:
            return {Verdict::busy, Status::io_error};
        case wire::scsi::Status::reservation_conflict:
            return {Verdict::error, Status::protection};
        case wire::scsi::Status::task_aborted:
            return {Verdict::again, Status::aborted};
        default:
            return {};
    }
}

}  // namespace mqblk::driver::srp
