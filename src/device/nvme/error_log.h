// SPDX-License-Identifier: Apache-2.0
//
// The last commands that failed at one controller, newest first. NVMe 1.4, section 5.14.1.1. Any thread: a failed
// command is not on the fast path.
#pragma once

#include "device/nvme/limits.h"
#include "wire/nvme_logs.h"

#include <array>
#include <cstdint>
#include <mutex>

namespace mqblk::device::nvme {

class PageWindow;

class ErrorLog {
  public:
    void record(std::uint16_t queue_id, const wire::nvme::Command&, std::uint16_t status) noexcept;
    void write(PageWindow&) const noexcept;
    [[nodiscard]] std::uint64_t count() const noexcept;

  private:
    mutable std::mutex mutex_;
    std::array<wire::nvme::ErrorLogEntry, error_log_entries> entries_{};  // ring: count % size is the next
    std::uint64_t count_ = 0;
};

}  // namespace mqblk::device::nvme
