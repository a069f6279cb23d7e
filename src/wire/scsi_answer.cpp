// SPDX-License-Identifier: Apache-2.0
#include "wire/scsi_answer.h"

#include "wire/scsi.h"

#include <algorithm>
#include <iterator>

namespace mqblk::wire::scsi {

namespace {

constexpr int any = -1;

/// The first row that fits counts.
struct SenseRow {
    SenseKey key;
    int code;  ///< with its qualifier, or any
    Answer answer;
};
constexpr SenseRow sense_rows[] = {
    {SenseKey::no_sense, any, {Verdict::good, mqblk::Status::ok}},
    {SenseKey::recovered_error, any, {Verdict::good, mqblk::Status::ok}},
    {SenseKey::unit_attention, any, {Verdict::again, mqblk::Status::io_error}},
    {SenseKey::not_ready, asc::becoming_ready, {Verdict::again, mqblk::Status::io_error}},
    {SenseKey::aborted_command, any, {Verdict::again, mqblk::Status::aborted}},
    {SenseKey::medium_error, any, {Verdict::error, mqblk::Status::medium_error}},
    {SenseKey::illegal_request, asc::lba_out_of_range, {Verdict::error, mqblk::Status::out_of_range}},
    {SenseKey::illegal_request, asc::invalid_operation_code, {Verdict::error, mqblk::Status::not_supported}},
    {SenseKey::data_protect, asc::space_allocation_failed, {Verdict::error, mqblk::Status::no_space}},
    {SenseKey::data_protect, any, {Verdict::error, mqblk::Status::read_only}},
    {SenseKey::miscompare, any, {Verdict::error, mqblk::Status::miscompare}},
};

Answer judge_sense(std::span<const std::uint8_t> bytes) noexcept {
    const auto sense = parse_sense(bytes);
    if (!sense || sense->deferred) return {};
    const auto* const row = std::ranges::find_if(sense_rows, [&](const SenseRow& each) {
        return each.key == sense->key && (each.code == any || each.code == sense->code);
    });
    return row == std::end(sense_rows) ? Answer{} : row->answer;
}

}  // namespace

Answer judge(std::uint8_t scsi_status, std::span<const std::uint8_t> sense) noexcept {
    switch (static_cast<Status>(scsi_status)) {
        case Status::good:
        case Status::condition_met:
            return {Verdict::good, mqblk::Status::ok};
        case Status::check_condition:
            return judge_sense(sense);
        case Status::busy:
        case Status::task_set_full:
            return {Verdict::busy, mqblk::Status::io_error};
        case Status::reservation_conflict:
            return {Verdict::error, mqblk::Status::protection};
        case Status::task_aborted:
            return {Verdict::aborted, mqblk::Status::aborted};
        default:
            return {};
    }
}

}  // namespace mqblk::wire::scsi
