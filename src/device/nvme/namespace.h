// SPDX-License-Identifier: Apache-2.0
//
// Namespace: one opened Device behind an nsid. Found through its subsystem's XArray by every command, so what commands
// read lies in its first cache line and is either constant or an atomic that is refreshed when the device changes. The
// list of channels that reactors have opened to it, and what must be exclusive among them, is behind its mutex.
#pragma once

#include "device/nvme/identity.h"

#include <mqblk/device.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mqblk {
class Reactor;
}
namespace mqblk::block {
class DirectAccess;
}

namespace mqblk::device::nvme {

struct NamespaceChannel;
struct TargetCommand;

/// Reads and writes as the SMART log counts them. One writer each; any thread reads.
struct IoCounters {
    std::atomic<std::uint64_t> reads{0}, writes{0};                  ///< commands
    std::atomic<std::uint64_t> sectors_read{0}, sectors_written{0};  ///< of 512 bytes
    std::atomic<std::uint64_t> media_errors{0};

    static void add(std::atomic<std::uint64_t>& counter, std::uint64_t value) noexcept {
        counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
    }
};
struct IoTotals {
    std::uint64_t reads = 0, writes = 0, sectors_read = 0, sectors_written = 0, media_errors = 0;
    void add(const IoCounters&) noexcept;
    void add(const IoTotals&) noexcept;
};

class alignas(64) Namespace : public std::enable_shared_from_this<Namespace> {
  public:
    struct Config {
        std::uint32_t nsid;
        std::uint32_t slot;  ///< unique in the target: the index by which reactors keep their channels
        std::string uri;
        std::shared_ptr<Device> device;
        Uuid uuid, nguid;
    };
    /// The device's logical block size must be 512 to 4096 (the caller has checked).
    explicit Namespace(Config);
    ~Namespace();

    // The hot line.
    std::atomic<std::uint64_t> blocks;  ///< size now
    block::DirectAccess* const direct;
    const std::uint32_t nsid;
    const std::uint32_t slot;
    const std::uint8_t block_shift;
    std::atomic<bool> read_only;
    const bool reads_nothing;                   ///< memory is cleared before such a device "reads" into it
    std::atomic<bool> removed{false};           ///< its device is gone
    std::atomic<bool> can_discard{false};       ///< else discards are left undone
    std::atomic<bool> can_zero{false};          ///< else zeroes are written
    std::atomic<std::uint32_t> memory_mask{0};  ///< QueueLimits::dma_alignment

    // Constant.
    const std::string uri;
    const Uuid uuid, nguid;

    /// Reads size and write protection from the device again. True if anything a host sees has changed.
    bool refresh() noexcept;
    /// The device, or null once let go.
    [[nodiscard]] std::shared_ptr<Device> device() const;
    void let_go();

    /// Sum over all channels, past and present.
    [[nodiscard]] IoTotals totals() const;

    // For workers and fused commands.

    /// A reactor opened a channel. True: writes are held just now (see fused.cpp), start holding them too.
    [[nodiscard]] bool attach(NamespaceChannel&);
    /// It is about to close it; its counters are added to the past ones.
    void detach(NamespaceChannel&);
    mutable std::mutex mutex;
    std::vector<NamespaceChannel*> channels;  ///< under the mutex
    /// Under the mutex: first halves of fused pairs, the running one first, then those that wait (see fused.cpp).
    TargetCommand* fused_first = nullptr;
    TargetCommand* fused_last = nullptr;

  private:
    std::shared_ptr<Device> device_;  // under the mutex
    IoTotals past_;                   // under the mutex
};

}  // namespace mqblk::device::nvme
