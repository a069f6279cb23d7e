// SPDX-License-Identifier: Apache-2.0
#include "fabric/rdma/work.h"

namespace mqblk::fabric::rdma {

std::string_view to_string(WorkStatus status) noexcept {
    switch (status) {
        case WorkStatus::success:
            return "success";
        case WorkStatus::local_length_error:
            return "local length error";
        case WorkStatus::local_protection_error:
            return "local protection error";
        case WorkStatus::flushed:
            return "flushed";
        case WorkStatus::remote_invalid_request:
            return "remote invalid request";
        case WorkStatus::remote_access_error:
            return "remote access error";
        case WorkStatus::remote_operation_error:
            return "remote operation error";
        case WorkStatus::retry_exceeded:
            return "retries exceeded";
        case WorkStatus::rnr_retry_exceeded:
            return "receiver-not-ready retries exceeded";
        case WorkStatus::fatal_error:
            return "fatal error";
    }
    return "unknown error";
}

}  // namespace mqblk::fabric::rdma
