// SPDX-License-Identifier: Apache-2.0
//
// An Interrupt that comes by an eventfd, as VFIO and vfio-user deliver them. Its counter remembers what came while
// nobody waited.
#pragma once

#include "pci/function.h"
#include "pci/unix_socket.h"

#include <mqblk/error.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mqblk::pci {

/// Non-blocking, counter 0.
[[nodiscard]] Result<OwnedFd> make_eventfd();

/// `fd` outlives it. `unmask` is called at each arming (for the pin, which is masked by its delivery); it may be empty.
[[nodiscard]] Result<std::unique_ptr<Interrupt>> make_eventfd_interrupt(int fd, Reactor& reactor,
                                                                        std::function<void()> raised,
                                                                        std::function<void()> unmask);

/// The vectors that a function delivers now, each by an eventfd of its own.
class EventfdVectors {
  public:
    /// Tells the device: an eventfd for each vector of a type, or none to turn that type off.
    using Send = std::function<Result<>(InterruptType, std::span<const OwnedFd>)>;

    [[nodiscard]] InterruptType type() const noexcept { return type_; }
    [[nodiscard]] std::span<const OwnedFd> fds() const noexcept { return fds_; }

    /// Turns off what is on and then on what is wanted.
    [[nodiscard]] Result<> change(InterruptType type, unsigned vectors, const Send& send);
    /// See Function::interrupt(). `function` is named by the error; `unmask_pin` is for INTx.
    [[nodiscard]] Result<std::unique_ptr<Interrupt>> interrupt(const std::string& function, unsigned vector,
                                                               Reactor& reactor, std::function<void()> raised,
                                                               std::function<void()> unmask_pin) const;

  private:
    InterruptType type_ = InterruptType::none;
    std::vector<OwnedFd> fds_;
};

}  // namespace mqblk::pci
