// SPDX-License-Identifier: Apache-2.0
//
// The eventfds by which a vfio-user client wants to hear of interrupts (VFIO_USER_DEVICE_SET_IRQS), one for each
// vector of INTx, MSI and MSI-X. Which type is in use follows from what is set: MSI-X before MSI before INTx. Signals
// come from any thread; a descriptor is closed only when none can still be writing to it.
#pragma once

#include "pci/function_core.h"
#include "pci/unix_socket.h"
#include "wire/vfio_user.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace mqblk::pci {

class ClientInterrupts {
  public:
    explicit ClientInterrupts(const InterruptCounts& counts);
    ~ClientInterrupts();

    [[nodiscard]] wire::vfio_user::IrqInfo info(std::uint32_t index) const noexcept;

    /// Carries out one request; `flags` holds a byte for each vector where the request says so. 0 or an errno.
    [[nodiscard]] int set(FunctionCore& core, const wire::vfio_user::IrqSet& request, std::span<const std::byte> flags,
                          std::vector<OwnedFd> fds);
    void clear(FunctionCore& core);

    /// Any thread.
    bool deliver(InterruptType type, unsigned vector) noexcept;

  private:
    using Slots = std::vector<std::atomic<int>>;  ///< -1: nobody listens

    [[nodiscard]] int set_trigger(FunctionCore& core, const wire::vfio_user::IrqSet&, std::vector<OwnedFd> fds);
    void assign(Slots& slots, std::size_t first, std::size_t count, std::vector<OwnedFd> fds);
    void apply(FunctionCore& core, std::uint32_t index, std::size_t first, std::size_t count);

    std::array<Slots, wire::vfio_user::pci_irqs> slots_;
    InterruptType type_ = InterruptType::none;
};

}  // namespace mqblk::pci
