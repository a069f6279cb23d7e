// SPDX-License-Identifier: Apache-2.0
//
// FunctionCore: what stands around a model, whoever its host is. It takes accesses to configuration space and BARs,
// answers what is the layer's own (MSI-X table and pending bits, mappable areas), hands the rest to the model, and
// turns the model's interrupts into deliveries. An interrupt that cannot be delivered stays pending and is delivered
// when it can: none is lost between a host's steps of setting up.
#pragma once

#include "memory/buffer.h"
#include "pci/config_space.h"
#include "pci/model.h"

#include <mqblk/error.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace mqblk::pci {

/// Where interrupts go.
class InterruptSink {
  public:
    /// Whether it was delivered: nobody may be there for this vector yet. Any thread, may run within the driver's
    /// access.
    virtual bool deliver(InterruptType type, unsigned vector) noexcept = 0;
    virtual void gone_changed(bool gone) noexcept = 0;

  protected:
    ~InterruptSink() = default;
};

/// Any thread may access BARs and configuration space and call what Host says; all else is for the reactor's thread.
class FunctionCore final : public Host {
  public:
    /// The references outlive it.
    FunctionCore(Reactor& reactor, const HostMemory& memory, InterruptSink& sink, std::unique_ptr<Model> model);
    ~FunctionCore();

    /// Checks what the model says it is, makes its areas, and attaches it. Once, first.
    [[nodiscard]] Result<> start(memory::Backing areas);

    [[nodiscard]] Model& model() noexcept { return *model_; }
    [[nodiscard]] const FunctionSpec& spec() const noexcept { return spec_; }
    [[nodiscard]] InterruptCounts interrupt_counts() const noexcept;

    // Accesses. One: 1, 2, 4 or 8 bytes, aligned; any other gives ones or does nothing.
    [[nodiscard]] std::uint64_t bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept;
    void bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept;
    /// Any length, in the largest aligned pieces. False, and nothing done, if it is not within the BAR.
    [[nodiscard]] bool read(unsigned bar, std::uint64_t offset, std::span<std::byte> to) noexcept;
    [[nodiscard]] bool write(unsigned bar, std::uint64_t offset, std::span<const std::byte> from) noexcept;

    [[nodiscard]] unsigned config_size() const noexcept { return config_.size(); }
    void config_read(std::uint64_t offset, std::span<std::byte> to) noexcept;
    /// Whether the host asked for a function-level reset: call reset().
    [[nodiscard]] bool config_write(std::uint64_t offset, std::span<const std::byte> from) noexcept;

    /// Memory of the mappable parts of a BAR, as a file of the BAR's size; null if it has none.
    [[nodiscard]] const memory::Buffer* areas_of(unsigned bar) const noexcept;
    void set_areas_mapped(bool mapped) noexcept { areas_mapped_.store(mapped, std::memory_order_relaxed); }

    // Interrupts, as the host sets them up.
    /// Vectors [0, vectors) of that type may be delivered; those that are pending are. InterruptType::none clears.
    void enable(InterruptType type, unsigned vectors) noexcept;
    /// Tries again: there may be somebody for this vector now.
    void redeliver(unsigned vector) noexcept;
    /// The pin was masked by its last delivery.
    void unmask_intx() noexcept { change_pin(0, pin_masked | pin_delivered); }
    void mask_intx() noexcept { change_pin(pin_masked, 0); }

    /// Power-on state, as far as the model can have it at once: see Model::quiet.
    void reset() noexcept;

    [[nodiscard]] bool gone() const noexcept { return gone_.load(std::memory_order_acquire); }

    // Host.
    [[nodiscard]] Reactor& reactor() noexcept override { return reactor_; }
    [[nodiscard]] const HostMemory& memory() const noexcept override { return memory_; }
    [[nodiscard]] InterruptType interrupt_type() const noexcept override { return load_mode().type; }
    [[nodiscard]] unsigned interrupt_vectors() const noexcept override { return load_mode().vectors; }
    void raise(unsigned vector) noexcept override;
    void set_intx(bool asserted) noexcept override;
    [[nodiscard]] std::byte* area(std::size_t index) const noexcept override;
    [[nodiscard]] bool areas_mapped() const noexcept override { return areas_mapped_.load(std::memory_order_relaxed); }
    void set_gone(bool gone) noexcept override;

  private:
    struct Mode {
        InterruptType type = InterruptType::none;
        std::uint16_t vectors = 0;
    };
    static_assert(std::atomic<Mode>::is_always_lock_free);
    /// How a BAR is taken apart: outside [special_from, special_to) everything is the model's.
    struct BarPlan {
        std::uint64_t bytes = 0, special_from = 0, special_to = 0;
        memory::Buffer areas;
    };
    static constexpr std::uint8_t pin_asserted = 1, pin_masked = 2, pin_delivered = 4;

    [[nodiscard]] Mode load_mode() const noexcept { return mode_.load(std::memory_order_acquire); }
    [[nodiscard]] bool valid(unsigned bar, std::uint64_t offset, unsigned bytes) const noexcept {
        return bar < bar_count && (offset & (bytes - 1)) == 0 && offset < bars_[bar].bytes && !gone();
    }
    [[nodiscard]] bool special(unsigned bar, std::uint64_t offset) const noexcept {
        return offset >= bars_[bar].special_from && offset < bars_[bar].special_to;
    }
    [[nodiscard]] const FunctionSpec::Area* find_area(unsigned bar, std::uint64_t offset) const noexcept;
    [[nodiscard]] bool read_special(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t& value) noexcept;
    [[nodiscard]] bool write_special(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept;
    void reset_layer() noexcept;
    void change_pin(std::uint8_t set, std::uint8_t clear) noexcept;
    [[nodiscard]] bool take_pending(unsigned vector) noexcept;
    [[nodiscard]] bool wants(unsigned vector) const noexcept;

    Reactor& reactor_;
    const HostMemory& memory_;
    InterruptSink& sink_;
    std::unique_ptr<Model> model_;
    const FunctionSpec spec_;

    std::mutex control_mutex_;  ///< configuration space and MSI-X table
    ConfigSpace config_;
    std::vector<std::byte> msix_table_;

    std::array<BarPlan, bar_count> bars_;
    std::atomic<bool> areas_mapped_{false};
    std::atomic<bool> gone_{false};
    std::atomic<Mode> mode_{Mode{}};
    std::atomic<std::uint8_t> pin_{0};
    std::vector<std::atomic<std::uint64_t>> pending_;  ///< a bit for each vector
};

}  // namespace mqblk::pci
