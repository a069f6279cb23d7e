// SPDX-License-Identifier: Apache-2.0
//
// FIT messages as they come from the host: copied once, whole, before anything in them is looked at, for the host may
// use the memory again as soon as the first command of the message is told done.
#pragma once

#include "pci/host_memory.h"
#include "wire/skd.h"

#include <cstdint>
#include <span>

namespace mqblk::device::skd {

enum class FitError : std::uint8_t {
    none,
    unreadable,  ///< not all of the message is mapped: it has no tags to answer with
    malformed,   ///< protocol, queue or number of requests: those that the message has room for are refused
};

struct FitRead {
    FitError error = FitError::none;
    unsigned requests = 0;  ///< of the message, to carry out or to refuse
};

/// Reads the message that a doorbell names.
[[nodiscard]] FitRead read_message(const pci::HostMemory& memory, const wire::skd::Doorbell& bell,
                                   wire::skd::FitMessage& to) noexcept;

}  // namespace mqblk::device::skd
