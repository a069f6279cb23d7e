// SPDX-License-Identifier: Apache-2.0
//
// Function: a PCI function as its driver sees it. Three ways to have one: a model in this process (pci/in_process.h), a
// model in another process (pci/vfio_user_client.h), a card (pci/vfio.h). A driver cannot tell which it has.
//
// Threads: opening, interrupts, reset and reconnecting are control path, one thread at a time. Bar accesses,
// configuration space, DmaSpace::translate and lost() may be used from any thread at any time.
#pragma once

#include "base/clock.h"
#include "base/task.h"
#include "pci/bar.h"
#include "pci/config.h"
#include "pci/dma_space.h"

#include <mqblk/error.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace mqblk {

class Reactor;

namespace pci {

enum class InterruptType : std::uint8_t { none, intx, msi, msix };

/// How many vectors of each type the function has; 0 = it has none of that type.
struct InterruptCounts {
    unsigned intx = 0, msi = 0, msix = 0;
};

/// One vector, delivered to one reactor. Use and destroy it on that reactor's thread, before its Function.
class Interrupt {
  public:
    virtual ~Interrupt() = default;  ///< disarms

    /// Lets the next interrupt, or one that came since the last was delivered, call `raised` once from a pass of the
    /// reactor, which it wakes. Idempotent while armed. What came meanwhile is one interrupt, however often it was
    /// raised. For INTx, arming also unmasks the pin: take the cause away first.
    virtual void arm() = 0;
    /// It is remembered again instead of delivered.
    virtual void disarm() noexcept = 0;
};

class Function : public ConfigAccess {
  public:
    virtual ~Function() = default;  ///< bus mastering is off and nothing is mapped any more when it returns
    Function(const Function&) = delete;
    Function& operator=(const Function&) = delete;

    /// For messages: "0000:01:00.0", "vfio-user socket /run/x", "in-process model".
    [[nodiscard]] const std::string& name() const noexcept { return name_; }

    // Configuration space: config_read and config_write of ConfigAccess; find_capability and read_id of pci/config.h.
    // BARs, MSI and MSI-X are not for drivers to write there: use what follows.

    /// Memory space and bus mastering. Off at first; a driver turns it on when its DMA memory is ready.
    void set_bus_master(bool on) noexcept;

    /// The error names the function and says that it has no such BAR.
    [[nodiscard]] virtual Result<Bar> bar(unsigned index) = 0;
    /// The same with the mapped window around `offset`, where the function has several; for doorbells.
    [[nodiscard]] virtual Result<Bar> bar_at(unsigned index, std::uint64_t offset) = 0;

    [[nodiscard]] DmaSpace& dma() noexcept { return *dma_; }

    [[nodiscard]] virtual InterruptCounts interrupt_counts() const noexcept = 0;
    /// Vectors [0, vectors) of that type deliver from now on, all others no more. INTx has one vector; MSI takes a
    /// power of two. InterruptType::none: the driver polls. Fails, changing nothing, if the function has fewer. There
    /// is no Interrupt at that moment.
    [[nodiscard]] virtual Result<> enable_interrupts(InterruptType, unsigned vectors) = 0;
    /// One per vector at a time, of an enabled vector.
    [[nodiscard]] virtual Result<std::unique_ptr<Interrupt>> interrupt(unsigned vector, Reactor&,
                                                                       std::function<void()> raised) = 0;

    /// With bus mastering off, or the function lost: whether all that the device was doing to memory has ended. A card
    /// is at once; the disk of a model in this process may take its time.
    [[nodiscard]] virtual bool quiet() noexcept { return true; }
    /// Function-level reset: the device is as after power-on, touches no memory of before, raises no interrupt of
    /// before. DMA mappings stay; enabled vectors stay; bus mastering is off. `reactor` is the caller's; it must go on
    /// running. For a model in this process it is the one that runs the model. Bounded: fails with timed_out after some
    /// 10 s.
    [[nodiscard]] virtual Task<Result<>> reset(Reactor& reactor) = 0;

    /// The device was pulled out, or the process that models it is gone: reads give all ones, writes do nothing.
    [[nodiscard]] virtual bool lost() const noexcept = 0;
    /// Called once, on any thread, when that happens; empty function to stop. It must only set a flag or post.
    virtual void on_lost(std::function<void()>) = 0;
    /// After lost(): tries to get the function back, waiting for it no longer than `bound`. DMA mappings and their
    /// addresses, Bars and enabled vectors are as before; the device is as after power-on. Interrupts made before it
    /// was lost are made anew by the driver. Fails with not_supported where that cannot be.
    [[nodiscard]] virtual Result<> reconnect(Duration bound) = 0;

  protected:
    Function(std::string name, std::unique_ptr<DmaSpace> dma) noexcept : name_(std::move(name)), dma_(std::move(dma)) {}

    /// The sentence for enable_interrupts, if it cannot be.
    [[nodiscard]] Result<> check_vectors(InterruptType type, unsigned vectors) const;

    std::string name_;
    std::unique_ptr<DmaSpace> dma_;
};

}  // namespace pci
}  // namespace mqblk
