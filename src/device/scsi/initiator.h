// SPDX-License-Identifier: Apache-2.0
//
// Initiator: what a unit knows of one initiator port, whichever channels its commands come by: its name, what it has to
// be told (unit attentions, each told once) and the state of the unit that it saw last. Thread-safe. SAM-5 5.14.
#pragma once

#include "wire/scsi_reservations.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace mqblk::device::scsi {

class Initiator {
  public:
    /// `id`: all zero for an initiator that has no name and so no reservations.
    Initiator(const wire::scsi::TransportId& id, std::uint64_t sectors, std::uint32_t modes) noexcept;
    Initiator(const Initiator&) = delete;
    Initiator& operator=(const Initiator&) = delete;

    [[nodiscard]] const wire::scsi::TransportId& id() const noexcept { return id_; }

    /// The next command that can be told is told. At most 8 are remembered, each once.
    void attend(std::uint16_t code) noexcept;
    [[nodiscard]] bool attended() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }
    /// Takes the first pending unit attention; 0 if there is none.
    [[nodiscard]] std::uint16_t take_attention() noexcept;

    // What of the unit it was told of.
    std::atomic<std::uint64_t> sectors_seen;
    std::atomic<std::uint32_t> modes_seen;

  private:
    const wire::scsi::TransportId id_;
    std::mutex mutex_;
    std::atomic<unsigned> count_{0};
    std::array<std::uint16_t, 8> attentions_{};
};

}  // namespace mqblk::device::scsi
