// SPDX-License-Identifier: Apache-2.0
//
// What can be set for an S1120, under the names of the parameters of Linux's driver (skd_…), and within their ranges.
#pragma once

#include "base/clock.h"
#include "wire/skd.h"

#include <mqblk/error.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace mqblk::driver::skd {

enum class IsrType : std::uint8_t { legacy = 0, msi = 1, msix = 2 };
[[nodiscard]] const char* to_string(IsrType) noexcept;

struct Options {
    static constexpr unsigned most_queue_depth = 200;
    static constexpr unsigned most_sgs_per_request = 4096;

    unsigned max_queue_depth = most_queue_depth;  ///< commands in flight; the card may take fewer
    /// Requests that share a FIT message. A message never waits for more than the batch that the block layer has in
    /// hand, so a large number costs a lone request nothing and saves a batch its doorbells.
    unsigned max_req_per_msg = wire::skd::max_requests_per_message;
    unsigned sgs_per_request = 256;              ///< scatter-gather descriptors of one request
    IsrType isr_type = IsrType::msix;            ///< falls back to the one before where the card has no such interrupts
    Duration timeout = std::chrono::seconds(8);  ///< after which a request is late and the card is reset
    std::string name = "skd";                    ///< of the disk, for people
};

/// The error names the option, its value and its range.
[[nodiscard]] Result<> check_options(const Options&);

}  // namespace mqblk::driver::skd
