// SPDX-License-Identifier: Apache-2.0
//
// ReplyQueue: where the firmware says which commands it has answered, as its consumer sees it, whatever form it has:
// reply_ring.h (Fusion), mfi_replies.h. The firmware may write there at any time, and anything. One thread at a time.
#pragma once

#include "pci/bar.h"

#include <cstdint>

namespace mqblk::driver::megaraid {

class ReplyQueue {
  public:
    virtual ~ReplyQueue() = default;

    /// Whether there is an answer.
    [[nodiscard]] virtual bool pending() const noexcept = 0;
    /// The SMID of the next answer, which stays there; 0 for one that cannot be. False: there is none.
    [[nodiscard]] virtual bool front(std::uint16_t& smid) const noexcept = 0;
    /// After front().
    virtual void pop() noexcept = 0;
    /// Both at once.
    [[nodiscard]] virtual bool next(std::uint16_t& smid) noexcept = 0;

    /// Tells the firmware how far it was read, now and then or at once.
    virtual void tell(const pci::Bar&) noexcept = 0;
    virtual void tell_now(const pci::Bar&) noexcept = 0;

    /// What the firmware wrote cannot be; nothing is found any more until the controller is reset. Any thread.
    [[nodiscard]] virtual bool broken() const noexcept { return false; }
};

}  // namespace mqblk::driver::megaraid
