// SPDX-License-Identifier: Apache-2.0
//
// Asynchronous events of one controller. NVMe 1.4, section 5.2: the host leaves requests with the controller; an event
// completes one; after that events of its kind are masked until the host has read their log page. What cannot be
// delivered yet is remembered once per kind, so the memory is bounded. Admin reactor's thread only.
#pragma once

#include "device/nvme/target_queue.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace mqblk::device::nvme {

class AsyncEvents {
  public:
    /// `supported`: bits of OAES. All are on at first.
    explicit AsyncEvents(std::uint32_t supported) noexcept : supported_(supported), enabled_(supported) {}

    /// What Set Features may switch, and what is on.
    [[nodiscard]] std::uint32_t supported() const noexcept { return supported_; }
    [[nodiscard]] std::uint32_t enabled() const noexcept { return enabled_; }
    /// The SMART warnings may be switched too; none is ever raised.
    [[nodiscard]] std::uint32_t configurable() const noexcept { return supported_ | 0x1f; }
    void enable(std::uint32_t mask) noexcept { enabled_ = mask & configurable(); }

    /// Keeps a request until an event completes it. False: more than the announced number are held already.
    [[nodiscard]] bool hold(TargetCommand&) noexcept;

    enum Kind : std::uint8_t { namespace_attributes, ana, discovery_change, cross_reset, kinds };
    void raise(Kind) noexcept;
    /// The host has read `log_page` without asking to retain the event.
    void log_read(std::uint8_t log_page) noexcept;

    /// Takes the request with this command identifier out; null: none.
    [[nodiscard]] TargetCommand* take(std::uint16_t command_id) noexcept;
    /// Ends all requests with `status`.
    void end_all(std::uint16_t status) noexcept;

  private:
    void deliver() noexcept;

    static constexpr std::size_t limit = 4;  // AnnouncedLimits::async_events
    std::array<TargetCommand*, limit> held_{};
    std::size_t count_ = 0;
    std::uint32_t supported_, enabled_;
    std::array<bool, kinds> pending_{}, masked_{};
};

}  // namespace mqblk::device::nvme
