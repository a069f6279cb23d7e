// SPDX-License-Identifier: Apache-2.0
//
// What can be set for an SRP target, under the names of Linux's driver, and the bounds of all that it waits for.
#pragma once

#include "base/clock.h"
#include "wire/srp.h"

#include <mqblk/error.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace mqblk::driver::srp {

struct Options {
    static constexpr unsigned most_indirect_sg_entries = 2048;

    unsigned cmd_sg_entries = 12;         ///< descriptors in a command, 1 to 255
    unsigned indirect_sg_entries = 2048;  ///< memory pieces of one request
    bool allow_ext_sg = false;            ///< the target fetches tables that do not fit a command
    std::uint32_t max_sect = 16384;       ///< sectors of one request
    unsigned queue_size = 62;             ///< commands of each channel
    unsigned ch_count = 0;                ///< channels; 0: one for each CPU
    unsigned tl_retry_count = 7;          ///< of the transport, 2 to 7
    bool prefer_fr = true;                ///< fast registration before pools
    bool use_imm_data = true;
    std::uint32_t max_imm_data = 8192;  ///< bytes of a write that go along with its command
    Duration reconnect_delay = std::chrono::seconds(10);
    Duration fast_io_fail_tmo = std::chrono::seconds(15);  ///< without a connection for so long, I/O fails
    Duration dev_loss_tmo = std::chrono::seconds(600);     ///< and for so long, connecting is given up
    Duration timeout = std::chrono::seconds(30);           ///< of a request, before it is aborted
    Duration login_bound = std::chrono::seconds(10);
    Duration task_bound = std::chrono::seconds(5);  ///< of an abort
    wire::srp::PortId initiator_port{}, target_port{};
    std::string name = "srp";  ///< for people
};

/// The error names the option, its value and its range.
[[nodiscard]] Result<> check_options(const Options&);

}  // namespace mqblk::driver::srp
