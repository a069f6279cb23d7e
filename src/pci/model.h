// SPDX-License-Identifier: Apache-2.0
//
// Model: a PCI device in software, and Host: what it is given. The model says what it is (FunctionSpec) and has its
// registers; configuration space, MSI-X table and pending bits, interrupt delivery and the way to the host's memory are
// the layer's. The same model serves a driver in this process (pci/in_process.h) and a virtual machine or another
// process (pci/vfio_user_server.h), and cannot tell which.
#pragma once

#include "pci/config.h"
#include "pci/function.h"
#include "pci/host_memory.h"

#include <mqblk/error.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mqblk {

class Reactor;

namespace pci {

/// What kind of function it is. Fill in, no more: validate() says in one sentence what does not fit together.
struct FunctionSpec {
    FunctionId id;

    struct BarSpec {
        std::uint64_t bytes = 0;  ///< a power of two, 16 or more (4096 for a mapped area); 0 = no such BAR
        bool wide = false;        ///< 64-bit: takes the next BAR's place as well
        bool prefetchable = false;
    };
    std::array<BarSpec, bar_count> bars{};

    bool intx = true;           ///< has an interrupt pin (INTA)
    unsigned msi_vectors = 0;   ///< 0, or a power of two up to 32
    unsigned msix_vectors = 0;  ///< 0 to 2048; the table and the pending bits lie in a BAR, and are the layer's:
    unsigned msix_bar = 0;
    std::uint64_t msix_table = 0, msix_pba = 0;  ///< offsets, multiples of 8; they overlap neither registers nor areas

    bool express = true;  ///< PCI Express endpoint: 4096 bytes of configuration space, function-level reset
    unsigned link_speed = 2, link_width = 8;  ///< as LnkSta says it

    /// Whole pages of a BAR that a host may map: doorbells whose last value is all that counts. Memory behind them is
    /// the layer's (Host::area). A write there reaches the model as bar_write() after the memory has the value, or,
    /// from a host that mapped them, in memory only: then the model polls. Reads are served from the memory.
    struct Area {
        unsigned bar = 0;
        std::uint64_t offset = 0, bytes = 0;
    };
    std::vector<Area> areas{};

    [[nodiscard]] Result<> validate() const;
};

/// What the layer gives its model. It outlives the model. Any thread unless it says otherwise.
class Host {
  public:
    /// The reactor in which the model lives; on its thread all of Model is called, but see bar_read.
    [[nodiscard]] virtual Reactor& reactor() noexcept = 0;

    [[nodiscard]] virtual const HostMemory& memory() const noexcept = 0;

    /// What the host has enabled now. MSI-X before MSI before INTx; none: it polls.
    [[nodiscard]] virtual InterruptType interrupt_type() const noexcept = 0;
    /// Vectors enabled of that type. With fewer than it wants, a model shares them as its specification says.
    [[nodiscard]] virtual unsigned interrupt_vectors() const noexcept = 0;
    /// Sends MSI or MSI-X `vector`. One that cannot be sent now stays pending and is sent when it can be. No effect
    /// while the host polls or uses INTx: there the level counts.
    virtual void raise(unsigned vector) noexcept = 0;
    /// The level of the interrupt pin. Keep it up to date in every mode: it matters when INTx is enabled.
    virtual void set_intx(bool asserted) noexcept = 0;

    /// Memory of FunctionSpec::areas[index]; little endian; the host may change it at any time.
    [[nodiscard]] virtual std::byte* area(std::size_t index) const noexcept = 0;
    /// Whether the host may have mapped the areas: while true, only polling finds all writes.
    [[nodiscard]] virtual bool areas_mapped() const noexcept = 0;

    /// The card is pulled out (true): all reads give ones, writes and interrupts do nothing. False plugs it in again.
    /// The model's thread.
    virtual void set_gone(bool gone) noexcept = 0;

  protected:
    ~Host() = default;
};

/// All calls are on the reactor's thread, with one exception: in this process, bar accesses are made by the threads
/// that the driver has, at the same time if it has several. A model of a device with several queues allows for that as
/// the card does; one with a single queue need not, as its driver keeps to one thread (the reactor's).
///
/// bar_read and bar_write run within the driver's own access and must not wait. Offset and size come from a hostile
/// host, but within the BAR, naturally aligned, 1, 2, 4 or 8 bytes: longer accesses arrive in pieces.
class Model {
  public:
    virtual ~Model() = default;  ///< ends whatever it has outstanding; touches no host memory afterwards

    [[nodiscard]] virtual const FunctionSpec& spec() const noexcept = 0;
    /// Once, before all else. Add pollers and timers, open channels, in host.reactor().
    [[nodiscard]] virtual Result<> attach(Host& host) = 0;

    [[nodiscard]] virtual std::uint64_t bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept = 0;
    virtual void bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept = 0;

    /// Power-on state: by the driver's wish, or because the host is gone. From now on nothing new touches host memory
    /// and nothing is raised; what a disk below still has in hand ends by itself. The level of the pin is down, areas
    /// are zero (the layer has done both).
    virtual void reset() noexcept = 0;
    /// Whether all that was begun before the last reset() has ended. The reset is reported done when it is.
    [[nodiscard]] virtual bool quiet() const noexcept = 0;

    /// Mappings came or go; renew or drop every MemoryHold that is not an I/O's.
    virtual void memory_changed() noexcept {}
    /// The host enabled or disabled interrupts.
    virtual void interrupts_changed() noexcept {}
};

}  // namespace pci
}  // namespace mqblk
