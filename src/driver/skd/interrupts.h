// SPDX-License-Identifier: Apache-2.0
//
// The card's interrupts: which type, what each cause leads to, and when completions interrupt at all. While the ring is
// polled the completion cause is left as it is (MSI-X: its vector is not armed; otherwise it is masked), so that
// completions cost nobody a system call; listen() clears it and lets the next one come. The cause is read back
// afterwards, so that what was posted before the clearing arrived is in the ring when the caller looks.
#pragma once

#include "driver/skd/options.h"
#include "pci/function.h"

#include <mqblk/error.h>

#include <array>
#include <memory>

namespace mqblk {
class Reactor;
}

namespace mqblk::driver::skd {

/// On the card's reactor.
class InterruptEvents {
  public:
    virtual void completions_posted() = 0;
    virtual void state_changed() = 0;
    virtual void message_came() = 0;

  protected:
    ~InterruptEvents() = default;
};

class Interrupts {
  public:
    Interrupts(pci::Function& function, const pci::Bar& bar, Reactor& reactor, InterruptEvents& events) noexcept
        : function_(function), bar_(bar), reactor_(reactor), events_(events) {}
    ~Interrupts();  ///< on the reactor's thread; the card's gates are closed
    Interrupts(const Interrupts&) = delete;
    Interrupts& operator=(const Interrupts&) = delete;

    /// The type wanted, or the next lower one that the function has. The error names the function.
    [[nodiscard]] Result<> enable(IsrType wanted);
    [[nodiscard]] IsrType type() const noexcept { return type_; }

    void open_gates() noexcept;
    void close_gates() noexcept;

    /// The next completion interrupts. Look at the ring afterwards. No effect while it does already.
    void listen();
    [[nodiscard]] bool listening() const noexcept { return listening_; }

  private:
    [[nodiscard]] Result<> enable_vectors(pci::InterruptType type, unsigned vectors);
    void arm(unsigned vector) { vectors_[vector]->arm(); }
    void vector_raised(unsigned vector);
    void any_raised();
    void quiet_completions() noexcept;

    pci::Function& function_;
    const pci::Bar& bar_;
    Reactor& reactor_;
    InterruptEvents& events_;
    IsrType type_ = IsrType::msix;
    bool listening_ = false;
    bool enabled_ = false;
    std::array<std::unique_ptr<pci::Interrupt>, wire::skd::msix_vectors> vectors_;
};

}  // namespace mqblk::driver::skd
