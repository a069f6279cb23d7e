// SPDX-License-Identifier: Apache-2.0
//
// Cause and mask registers and what comes of them: a cause that both gates let through is a message of its own vector
// (MSI-X), a message of the one vector (MSI), or the level of the pin (INTx). A message is sent when a cause comes up,
// or a gate opens before one that is up; not again before the host has cleared it.
//
// A completion posted while its cause is up brings the cause up once more when the host clears it: hosts clear by a
// posted write and look at the ring at once, so that the write can arrive behind a completion which they did not see.
#pragma once

#include "pci/model.h"

#include <cstdint>

namespace mqblk::device::skd {

class Interrupts {
  public:
    void attach(pci::Host& host) noexcept { host_ = &host; }
    /// Power-on: nothing is up, both gates are closed.
    void reset() noexcept;

    [[nodiscard]] std::uint32_t cause() const noexcept { return cause_; }
    [[nodiscard]] std::uint32_t mask() const noexcept { return mask_; }
    [[nodiscard]] bool enabled() const noexcept { return enabled_; }

    void raise(std::uint32_t causes) noexcept;
    void clear(std::uint32_t causes) noexcept;  ///< the host wrote ones
    void set_mask(std::uint32_t mask) noexcept;
    void set_enabled(bool enabled) noexcept;
    /// The host changed the type of interrupt.
    void type_changed() noexcept;

  private:
    [[nodiscard]] std::uint32_t open() const noexcept { return enabled_ ? cause_ & ~mask_ : 0; }
    void update() noexcept;
    void send(std::uint32_t causes) noexcept;

    pci::Host* host_ = nullptr;
    std::uint32_t cause_ = 0;
    std::uint32_t mask_ = ~0u;
    bool enabled_ = false;
    std::uint32_t sent_ = 0;   ///< causes that are up, and a message went out for
    std::uint32_t again_ = 0;  ///< causes that came while they were up
};

}  // namespace mqblk::device::skd
