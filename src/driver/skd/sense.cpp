// SPDX-License-Identifier: Apache-2.0
#include "driver/skd/sense.h"

#include <algorithm>
#include <iterator>

namespace mqblk::driver::skd {

using wire::scsi::SenseKey;

namespace {

constexpr int any_code = -1;

/// The first row that fits counts; response codes other than that of current errors in fixed format fit none.
struct SenseRow {
    SenseKey key;
    int code;       ///< additional sense code, or any_code
    int qualifier;  ///< or any_code
    Verdict verdict;
};
constexpr SenseRow sense_rows[] = {
    {SenseKey::recovered_error, any_code, any_code, Verdict::good},
    {SenseKey::no_sense, 0x0b, any_code, Verdict::smart_alert},         // warning
    {SenseKey::no_sense, 0x5d, any_code, Verdict::smart_alert},         // failure prediction
    {SenseKey::aborted_command, any_code, any_code, Verdict::requeue},  // an error on the bus
    {SenseKey::unit_attention, 0x0b, any_code, Verdict::requeue},
    {SenseKey::unit_attention, 0x5d, any_code, Verdict::requeue},
    {SenseKey::unit_attention, 0x80, 0x30, Verdict::requeue},  // backup power
    {SenseKey::unit_attention, 0x3f, 0x01, Verdict::busy_imminent},
};

bool fits(const SenseRow& row, SenseKey key, std::uint16_t code) noexcept {
    return row.key == key && (row.code == any_code || row.code == code >> 8) &&
           (row.qualifier == any_code || row.qualifier == (code & 0xff));
}

struct ErrorRow {
    SenseKey key;
    int code;  ///< with its qualifier, or any_code
    Status status;
};
constexpr ErrorRow error_rows[] = {
    {SenseKey::medium_error, any_code, Status::medium_error},
    {SenseKey::illegal_request, wire::scsi::asc::lba_out_of_range, Status::out_of_range},
    {SenseKey::illegal_request, wire::scsi::asc::invalid_operation_code, Status::not_supported},
    {SenseKey::data_protect, wire::scsi::asc::space_allocation_failed, Status::no_space},
    {SenseKey::data_protect, any_code, Status::read_only},
    {SenseKey::miscompare, any_code, Status::miscompare},
    {SenseKey::aborted_command, any_code, Status::aborted},
};

SenseKey key_of(const wire::skd::ErrorEntry& error) noexcept {
    return static_cast<SenseKey>(error.sense.key & 0x0f);
}

bool checked(std::uint8_t scsi_status) noexcept {
    return scsi_status == static_cast<std::uint8_t>(wire::scsi::Status::check_condition);
}

}  // namespace

Verdict judge(std::uint8_t scsi_status, const wire::skd::ErrorEntry& error) noexcept {
    if (scsi_status == static_cast<std::uint8_t>(wire::scsi::Status::good)) return Verdict::good;
    const auto format = error.sense.response_code & ~wire::scsi::sense_information_valid;
    if (!checked(scsi_status) || format != wire::scsi::sense_fixed) return Verdict::error;
    const auto* const row = std::ranges::find_if(
        sense_rows, [&](const SenseRow& each) { return fits(each, key_of(error), error.sense.code); });
    return row == std::end(sense_rows) ? Verdict::error : row->verdict;
}

Status status_of(std::uint8_t scsi_status, const wire::skd::ErrorEntry& error) noexcept {
    if (scsi_status == static_cast<std::uint8_t>(wire::scsi::Status::reservation_conflict)) return Status::protection;
    if (!checked(scsi_status)) return Status::io_error;
    const auto* const row = std::ranges::find_if(error_rows, [&](const ErrorRow& each) {
        return each.key == key_of(error) && (each.code == any_code || each.code == error.sense.code);
    });
    return row == std::end(error_rows) ? Status::io_error : row->status;
}

}  // namespace mqblk::driver::skd
