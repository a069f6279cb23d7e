// SPDX-License-Identifier: Apache-2.0
//
// What an NVMe completion status means: to the block layer as mqblk::Status, to people as the specification's words, to
// a program as Errc. NVMe 1.4, section 4.6.1.
#pragma once

#include <mqblk/error.h>
#include <mqblk/status.h>

#include <cstdint>
#include <string_view>

namespace mqblk::driver::nvme {

/// `status` is wire::nvme::status_of(completion): DNR and the other bits above the code are ignored.
[[nodiscard]] Status to_block_status(std::uint16_t status) noexcept;
[[nodiscard]] std::string_view status_text(std::uint16_t status) noexcept;
[[nodiscard]] Errc errc_of_status(std::uint16_t status) noexcept;

/// Whether the same command may succeed if it is sent again: not where the target says "do not retry", nor for what
/// cannot change by itself.
[[nodiscard]] bool worth_retrying(std::uint16_t status) noexcept;

}  // namespace mqblk::driver::nvme
