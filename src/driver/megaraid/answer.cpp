// SPDX-License-Identifier: Apache-2.0
#include "driver/megaraid/answer.h"

#include "wire/megaraid_mfi.h"
#include "wire/scsi.h"
#include "wire/scsi_answer.h"

namespace mqblk::driver::megaraid {

using wire::megaraid::MfiStatus;

namespace {

Answer judge_scsi(std::uint8_t scsi_status, std::span<const std::uint8_t> sense) noexcept {
    const wire::scsi::Answer answer = wire::scsi::judge(scsi_status, sense);
    switch (answer.verdict) {
        case wire::scsi::Verdict::good:
            return {Verdict::good, answer.status};
        case wire::scsi::Verdict::again:
        case wire::scsi::Verdict::busy:  // the firmware paces its disks
            return {Verdict::again, answer.status};
        case wire::scsi::Verdict::aborted:
            return {Verdict::aborted, answer.status};
        case wire::scsi::Verdict::error:
            break;
    }
    return {Verdict::error, answer.status};
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
