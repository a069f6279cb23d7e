// SPDX-License-Identifier: Apache-2.0
//
// What the firmware of an MFI controller may write where a driver reads: the reply queue, its index, statuses, states.
// The input is the script of support/mfi_simulated.h. Each request ends once, whatever it is.
#include "base/log.h"
#include "support/mfi_simulated.h"

#include <cstdlib>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    mqblk::set_log_level(mqblk::LogLevel::off);
    if (mqblk::test::run_hostile_mfi(std::span(data, size)) != mqblk::test::hostile_mfi_requests) std::abort();
    return 0;
}
