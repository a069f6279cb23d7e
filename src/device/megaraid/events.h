// SPDX-License-Identifier: Apache-2.0
//
// The firmware's event log: the latest events, numbered on and on. Hosts ask for the first one from a number on that
// concerns them, and wait for it if it has not happened yet.
#pragma once

#include "device/megaraid/target.h"
#include "wire/megaraid_info.h"

#include <array>
#include <cstdint>

namespace mqblk::device::megaraid {

class EventLog {
  public:
    void add(std::uint32_t code, wire::megaraid::EventClass kind, const Target& target, const char* text) noexcept;

    [[nodiscard]] wire::megaraid::EventLogInfo info() const noexcept;
    [[nodiscard]] std::uint32_t newest() const noexcept { return next_ - 1; }
    /// The first event from `sequence` on that who asked so wants; null if there is none yet.
    [[nodiscard]] const wire::megaraid::Event* find(std::uint32_t sequence, std::uint32_t class_locale) const noexcept;

  private:
    static constexpr std::uint32_t kept = 64;

    [[nodiscard]] std::uint32_t oldest() const noexcept { return next_ > kept ? next_ - kept : 1; }

    std::uint32_t next_ = 1;
    std::array<wire::megaraid::Event, kept> events_{};
};

}  // namespace mqblk::device::megaraid
